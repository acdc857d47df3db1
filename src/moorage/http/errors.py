"""The wire format of the core's errors.

Each API has one table from error classes to (status, wire name) and one function that renders the body.
The names are string literals because clients depend on them: renaming a class must not change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from moorage.core import errors as core
from moorage.core.errors import MoorageError


class Wire(NamedTuple):
    """An error on the wire: the HTTP status and the name in the body."""

    status: int
    name: str


ErrorTable = Mapping[type[MoorageError], Wire]
RenderError = Callable[[Wire, MoorageError, str], bytes]


WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "INVALID_INPUT"),
    core.DraftTooLarge: Wire(400, "DRAFT_TOO_LARGE"),
    core.TooLarge: Wire(413, "BODY_TOO_LARGE"),
    core.Unsupported: Wire(422, "UNSUPPORTED"),
    core.CatalogNotFound: Wire(404, "CATALOG_NOT_FOUND"),
    core.NamespaceNotFound: Wire(404, "NAMESPACE_NOT_FOUND"),
    core.TableNotFound: Wire(404, "TABLE_NOT_FOUND"),
    core.ViewNotFound: Wire(404, "VIEW_NOT_FOUND"),
    core.SecurableNotFound: Wire(404, "OBJECT_NOT_FOUND"),
    core.VersionNotFound: Wire(404, "VERSION_NOT_FOUND"),
    core.JobNotFound: Wire(404, "JOB_NOT_FOUND"),
    core.PlanNotFound: Wire(404, "PLAN_NOT_FOUND"),
    core.PlanTaskNotFound: Wire(404, "PLAN_TASK_NOT_FOUND"),
    core.RouteNotFound: Wire(404, "ROUTE_NOT_FOUND"),
    core.MethodNotAllowed: Wire(405, "METHOD_NOT_ALLOWED"),
    core.NameTaken: Wire(409, "NAME_TAKEN"),
    core.PlaceTaken: Wire(409, "PLACE_TAKEN"),
    core.NotEmpty: Wire(409, "NOT_EMPTY"),
    core.VersionTaken: Wire(409, "VERSION_TAKEN"),
    core.RevisionMoved: Wire(409, "REVISION_MOVED"),
    core.RequirementFailed: Wire(409, "REQUIREMENT_FAILED"),
    core.AlreadyPurged: Wire(409, "ALREADY_PURGED"),
    core.LeaseLost: Wire(409, "LEASE_LOST"),
    core.JobEnded: Wire(409, "JOB_ENDED"),
    core.KeyReused: Wire(422, "KEY_REUSED"),
    core.Unauthenticated: Wire(401, "UNAUTHENTICATED"),
    core.Forbidden: Wire(403, "FORBIDDEN"),
    core.TooManyRequests: Wire(429, "TOO_MANY_REQUESTS"),
    core.TimedOut: Wire(408, "REQUEST_TIMEOUT"),
    core.Busy: Wire(503, "BUSY"),
    core.Unavailable: Wire(503, "UNAVAILABLE"),
    # Not 502, 503 or 504: proxies and HTTP libraries retry those automatically.
    core.OutcomeUnknown: Wire(500, "OUTCOME_UNKNOWN"),
    core.Damaged: Wire(500, "DAMAGED"),
}
"""The error names of Moorage's own APIs (console, server). Other protocols have their own tables."""

UNEXPECTED = "INTERNAL_ERROR"


def wire_of(table: ErrorTable, kind: type[MoorageError]) -> Wire:
    """The row of this error class, or of its nearest ancestor that has one.

    An error class that was added to the core after this table is answered like its parent.
    """
    for ancestor in kind.__mro__:
        if (row := table.get(ancestor)) is not None:
            return row
    raise LookupError(f"{kind.__name__} has no row in this API's error table")


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, as a message for people, and what the caller may do next."""

    code: str
    message: str
    advice: str
    request_id: str
    field: str | None = None
    details: dict[str, Any] = {}


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error response of Moorage's own APIs."""

    error: ErrorDetail


_encode = msgspec.json.Encoder(enc_hook=str).encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    """The error body of Moorage's own APIs."""
    return _encode(
        ErrorAnswer(
            error=ErrorDetail(
                code=wire.name,
                message=error.message,
                advice=error.advice.value,
                request_id=request_id,
                field=error.field,
                details=error.details,
            )
        )
    )
