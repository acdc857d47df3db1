"""Everything that can go wrong, as one closed tree.

MoorageError
├── InvalidInput           the request can never succeed as it stands
│   ├── DraftTooLarge      more than one append may carry
│   └── TooLarge           a body past the server's limit
├── Unsupported            understood, and not offered here
├── NotFound               CatalogNotFound · NamespaceNotFound · TableNotFound · ViewNotFound
│                          SecurableNotFound · VersionNotFound · JobNotFound · RouteNotFound
│                          PlanNotFound · PlanTaskNotFound
├── MethodNotAllowed       the address exists, the verb does not
├── Conflict               NameTaken · PlaceTaken · NotEmpty · VersionTaken · RevisionMoved
│                          RequirementFailed · AlreadyPurged · LeaseLost · JobEnded
├── KeyReused              one idempotency key, two different requests
├── Unauthenticated · Forbidden
├── TimedOut               the client was too slow to send its request
├── Busy · Unavailable     nothing was done; the same request may be sent again
├── OutcomeUnknown         it may or may not have happened: look before repeating
└── Damaged                stored bytes contradict the ledger

An error says what happened and to whom, in words for people, and what the caller may do next.
It knows no HTTP: each API has its own table from these classes to its wire names.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar, Final


class Advice(Enum):
    """What the caller may do next."""

    NEVER = "never"
    """Sending this again cannot help; change the request."""
    AFTER_REFRESH = "after_refresh"
    """Read the current state, decide again, send a new request."""
    SAME_REQUEST = "same_request"
    """Nothing was done; the very same request may be sent again."""
    ASK_FIRST = "ask_first"
    """It may have happened. Look at the state before repeating it."""


_LONGEST: Final = 2_000
"""Words often repeat what the caller sent, which may be megabytes; they are answered, logged and kept in receipts."""


def _shortened(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 500]} … {words[-497:]}"


class MoorageError(Exception):
    """The root of the tree; only leaves are raised."""

    advice: ClassVar[Advice] = Advice.NEVER
    is_final: ClassVar[bool] = True
    """Whether a keyed request that met this error will meet it for ever: then its receipt says so."""

    def __init__(self, message: str, *, field: str | None = None, **details: Any) -> None:
        self.message = _shortened(message)
        self.field = None if field is None else _shortened(field)
        super().__init__(self.message)
        self.details: dict[str, Any] = details


class InvalidInput(MoorageError):
    """A field of the request is malformed or contradicts another."""


class DraftTooLarge(InvalidInput):
    """One append may carry 1,000 changes and 16 MB: its lock is everyone's."""


class TooLarge(InvalidInput):
    """The body is larger than this server accepts."""

    is_final = False


class Unsupported(MoorageError):
    """The request is understood, but this catalog does not offer it."""


class NotFound(MoorageError):
    """What the request names is not there, or is hidden from the caller."""


class CatalogNotFound(NotFound):
    pass


class NamespaceNotFound(NotFound):
    pass


class TableNotFound(NotFound):
    pass


class ViewNotFound(NotFound):
    pass


class SecurableNotFound(NotFound):
    """A volume, function, model, staging area or anything else that has an id."""


class VersionNotFound(NotFound):
    """The table has no such version, or no longer keeps it."""


class JobNotFound(NotFound):
    pass


class PlanNotFound(NotFound):
    """The plan of a scan was never made, or has expired."""


class PlanTaskNotFound(NotFound):
    """The task is of no plan, or of one that has expired."""


class RouteNotFound(NotFound):
    """No operation lives at this address."""


class MethodNotAllowed(MoorageError):
    """The address exists, but not with this verb."""


class Conflict(MoorageError):
    """The request met a state that forbids it."""

    advice = Advice.AFTER_REFRESH


class NameTaken(Conflict):
    pass


class PlaceTaken(Conflict):
    """The storage location overlaps one that another object holds."""


class NotEmpty(Conflict):
    """A restricted drop of something that still has children."""


class VersionTaken(Conflict):
    """Another writer was first; rebase on its version."""


class RevisionMoved(Conflict):
    """The object changed since it was read."""


class RequirementFailed(Conflict):
    """The table is not as the commit requires; read it again."""


class AlreadyPurged(Conflict):
    """Too late to bring it back: the hold has ended and its files are going."""

    advice = Advice.NEVER


class LeaseLost(Conflict):
    """The job belongs to somebody else by now; whatever this worker did must not count."""

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


class TimedOut(MoorageError):
    """The request did not arrive in time; nothing was done."""

    advice = Advice.SAME_REQUEST
    is_final = False


class Busy(MoorageError):
    """Too many writers moved the state while we decided; nothing was done."""

    advice = Advice.AFTER_REFRESH
    is_final = False


class Unavailable(MoorageError):
    """The server cannot do this now; nothing was done."""

    advice = Advice.SAME_REQUEST
    is_final = False


class OutcomeUnknown(MoorageError):
    """The change may or may not have become history."""

    advice = Advice.ASK_FIRST
    is_final = False


class Damaged(MoorageError):
    """Stored bytes are not what the ledger says they are."""

    advice = Advice.ASK_FIRST
    is_final = False


def revive(name: str, message: str, field: str | None, details: dict[str, Any]) -> MoorageError:
    """The error that a receipt remembers, to be raised again."""
    kind = next((leaf for leaf in leaves() if leaf.__name__ == name), InvalidInput)
    return kind(message, field=field, **details)


def leaves(root: type[MoorageError] = MoorageError) -> Iterator[type[MoorageError]]:
    """Every error that may be raised: each needs a row in every API's table.

    `InvalidInput` has more precise children and is raised itself too.
    """
    children = root.__subclasses__()
    if not children or root is InvalidInput:
        yield root
    for child in children:
        yield from leaves(child)
