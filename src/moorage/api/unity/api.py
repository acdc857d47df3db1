"""Where the Unity API is mounted, and how it names errors."""

from __future__ import annotations

import msgspec

from moorage.core import errors as core
from moorage.core.errors import MoorageError
from moorage.http import Api
from moorage.http.errors import ErrorTable, Wire

SINCE = "2.1.0-moorage.1"

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.DraftTooLarge: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.TooLarge: Wire(413, "INVALID_PARAMETER_VALUE"),
    core.Unsupported: Wire(501, "UNIMPLEMENTED"),
    core.CatalogNotFound: Wire(404, "CATALOG_DOES_NOT_EXIST"),
    core.NamespaceNotFound: Wire(404, "SCHEMA_DOES_NOT_EXIST"),
    core.TableNotFound: Wire(404, "TABLE_DOES_NOT_EXIST"),
    core.ViewNotFound: Wire(404, "TABLE_DOES_NOT_EXIST"),
    core.SecurableNotFound: Wire(404, "NOT_FOUND"),
    core.VersionNotFound: Wire(404, "NOT_FOUND"),
    core.JobNotFound: Wire(404, "NOT_FOUND"),
    core.RouteNotFound: Wire(404, "NOT_FOUND"),
    core.MethodNotAllowed: Wire(405, "UNIMPLEMENTED"),
    core.NameTaken: Wire(409, "ALREADY_EXISTS"),
    core.PlaceTaken: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.NotEmpty: Wire(409, "FAILED_PRECONDITION"),
    core.VersionTaken: Wire(409, "ALREADY_EXISTS"),
    core.RevisionMoved: Wire(409, "ABORTED"),
    core.RequirementFailed: Wire(409, "ABORTED"),
    core.AlreadyPurged: Wire(409, "FAILED_PRECONDITION"),
    core.LeaseLost: Wire(409, "ABORTED"),
    core.JobEnded: Wire(409, "FAILED_PRECONDITION"),
    core.KeyReused: Wire(422, "INVALID_PARAMETER_VALUE"),
    core.Unauthenticated: Wire(401, "UNAUTHENTICATED"),
    core.Forbidden: Wire(403, "PERMISSION_DENIED"),
    core.TimedOut: Wire(408, "DEADLINE_EXCEEDED"),
    core.Busy: Wire(503, "UNAVAILABLE"),
    core.Unavailable: Wire(503, "UNAVAILABLE"),
    core.OutcomeUnknown: Wire(500, "UNKNOWN"),
    core.Damaged: Wire(500, "DATA_LOSS"),
}


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why, in Unity's own words."""

    type: str = msgspec.field(default="google.rpc.ErrorInfo", name="@type")
    reason: str


class UnityError(msgspec.Struct, frozen=True, kw_only=True):
    """The error envelope that Unity's clients read."""

    error_code: str
    message: str
    details: tuple[ErrorInfo, ...]


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    return _encode(UnityError(error_code=wire.name, message=error.message, details=(ErrorInfo(reason=wire.name),)))


unity = Api(
    "unity",
    prefix="/api/2.1/unity-catalog",
    file="all.yaml",
    title="Unity Catalog API",
    description="The data plane of Unity Catalog, as its clients know it.",
    tags={"capabilities": "What this server can do."},
    errors=WIRE,
    unexpected="INTERNAL",
    render_error=render_error,
    error_answer=UnityError,
)
