"""Every error of Moorage, as one closed tree.

MoorageError
├── InvalidInput           the request can never succeed unchanged
│   ├── DraftTooLarge      more than one append may contain
│   └── TooLarge           a body above the server's limit
├── Unsupported            understood, but not offered here
├── NotFound               CatalogNotFound · NamespaceNotFound · TableNotFound · ViewNotFound
│                          SecurableNotFound · VersionNotFound · JobNotFound · RouteNotFound
│                          PlanNotFound · PlanTaskNotFound
├── MethodNotAllowed       the path exists, but not with this HTTP method
├── Conflict               NameTaken · PlaceTaken · NotEmpty · VersionTaken · RevisionMoved
│                          RequirementFailed · AlreadyPurged · LeaseLost · JobEnded
├── KeyReused              one idempotency key, two different requests
├── Unauthenticated · Forbidden
├── TooManyRequests        above the rate that each caller is allowed
├── TimedOut               the client was too slow to send its request
├── Busy · Unavailable     nothing was done; the client may retry the same request
├── OutcomeUnknown         the change may or may not have happened: check the state before a retry
└── Damaged                stored bytes contradict the ledger

An error describes what happened, to which object, and what the caller can do next.
Errors do not know HTTP: each API maps these classes to its own wire names.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar, Final


class Advice(Enum):
    """Whether and how the caller may retry."""

    NEVER = "never"
    """A retry cannot succeed. Change the request."""
    AFTER_REFRESH = "after_refresh"
    """Read the current state, then send a new request."""
    SAME_REQUEST = "same_request"
    """Nothing was done. Retry the identical request."""
    ASK_FIRST = "ask_first"
    """The change may have happened. Check the state before a retry."""


_MAX_LENGTH: Final = 2_000
"""A message often quotes the request, which may be megabytes. Messages are returned, logged and stored in receipts."""


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 500]} … {text[-497:]}"


class MoorageError(Exception):
    """The root of the tree. Only leaves are raised."""

    advice: ClassVar[Advice] = Advice.NEVER
    is_final: ClassVar[bool] = True
    """Whether a retry with the same idempotency key always gets this error. If so, the receipt stores it."""

    def __init__(self, message: str, *, field: str | None = None, **details: Any) -> None:
        self.message = _shortened(message)
        self.field = None if field is None else _shortened(field)
        super().__init__(self.message)
        self.details: dict[str, Any] = details


class InvalidInput(MoorageError):
    """A field of the request is malformed or contradicts another."""


class DraftTooLarge(InvalidInput):
    """One append has at most 1,000 changes and 16 MB, because all writers share its lock."""


class TooLarge(InvalidInput):
    """The body is larger than this server accepts."""

    is_final = False


class Unsupported(MoorageError):
    """The request is understood, but this catalog does not offer it."""


class NotFound(MoorageError):
    """The named object does not exist, or the caller may not see it."""


class CatalogNotFound(NotFound):
    pass


class NamespaceNotFound(NotFound):
    pass


class TableNotFound(NotFound):
    pass


class ViewNotFound(NotFound):
    pass


class SecurableNotFound(NotFound):
    """A volume, function, model, staging table or any other object with an id."""


class VersionNotFound(NotFound):
    """The table has no such version, or no longer has it."""


class JobNotFound(NotFound):
    pass


class PlanNotFound(NotFound):
    """The scan plan does not exist or has expired."""


class PlanTaskNotFound(NotFound):
    """The task belongs to no plan, or its plan has expired."""


class RouteNotFound(NotFound):
    """No operation has this path."""


class MethodNotAllowed(MoorageError):
    """The path exists, but not with this HTTP method."""


class Conflict(MoorageError):
    """The current state does not allow the request."""

    advice = Advice.AFTER_REFRESH


class NameTaken(Conflict):
    pass


class PlaceTaken(Conflict):
    """The storage location overlaps that of another object."""


class NotEmpty(Conflict):
    """A restricted drop of an object that still has children."""


class VersionTaken(Conflict):
    """Another writer committed this version. Rebase on it."""


class RevisionMoved(Conflict):
    """The object has changed since it was read."""


class RequirementFailed(Conflict):
    """The table does not meet a requirement of the commit. Read it again."""


class AlreadyPurged(Conflict):
    """The object can no longer be undropped: its hold has ended and its files are being deleted."""

    advice = Advice.NEVER


class LeaseLost(Conflict):
    """Another worker has leased the job. The results of this worker are discarded."""

    advice = Advice.NEVER


class JobEnded(Conflict):
    """The job has already succeeded, failed or been cancelled."""

    advice = Advice.NEVER


class KeyReused(MoorageError):
    """The idempotency key belongs to a different request."""


class Unauthenticated(MoorageError):
    is_final = False


class Forbidden(MoorageError):
    is_final = False


class TooManyRequests(MoorageError):
    """The caller sent more requests than it is allowed. Nothing was done."""

    advice = Advice.SAME_REQUEST
    is_final = False


class TimedOut(MoorageError):
    """The request did not arrive in time. Nothing was done."""

    advice = Advice.SAME_REQUEST
    is_final = False


class Busy(MoorageError):
    """Other writers kept changing the state during this request. Nothing was done."""

    advice = Advice.AFTER_REFRESH
    is_final = False


class Unavailable(MoorageError):
    """The server cannot do this now. Nothing was done."""

    advice = Advice.SAME_REQUEST
    is_final = False


class OutcomeUnknown(MoorageError):
    """The change may or may not have become history."""

    advice = Advice.ASK_FIRST
    is_final = False


class Damaged(MoorageError):
    """Stored bytes differ from what the ledger recorded."""

    advice = Advice.ASK_FIRST
    is_final = False


def revive(name: str, message: str, field: str | None, details: dict[str, Any]) -> MoorageError:
    """Rebuild the error that a receipt stores."""
    kind = next((leaf for leaf in leaves() if leaf.__name__ == name), InvalidInput)
    return kind(message, field=field, **details)


def leaves(root: type[MoorageError] = MoorageError) -> Iterator[type[MoorageError]]:
    """Every error that may be raised. Each needs a row in the error table of every API.

    `InvalidInput` has more precise children and is also raised itself.
    """
    children = root.__subclasses__()
    if not children or root is InvalidInput:
        yield root
    for child in children:
        yield from leaves(child)
