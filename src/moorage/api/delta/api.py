"""Where the newer Delta API is mounted, and how it names errors."""

from __future__ import annotations

import msgspec

from moorage.core import errors as core
from moorage.core.errors import MoorageError
from moorage.http import Api
from moorage.http.errors import ErrorTable, Wire

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "InvalidParameterValueException"),
    core.DraftTooLarge: Wire(400, "BadRequestException"),
    core.TooLarge: Wire(413, "BadRequestException"),
    core.Unsupported: Wire(501, "NotImplementedException"),
    core.CatalogNotFound: Wire(404, "NoSuchCatalogException"),
    core.NamespaceNotFound: Wire(404, "NoSuchSchemaException"),
    core.TableNotFound: Wire(404, "NoSuchTableException"),
    core.ViewNotFound: Wire(404, "NoSuchTableException"),
    core.SecurableNotFound: Wire(404, "NotFoundException"),
    core.VersionNotFound: Wire(404, "NotFoundException"),
    core.JobNotFound: Wire(404, "NotFoundException"),
    core.PlanNotFound: Wire(404, "NotFoundException"),
    core.PlanTaskNotFound: Wire(404, "NotFoundException"),
    core.RouteNotFound: Wire(404, "NotFoundException"),
    core.MethodNotAllowed: Wire(405, "BadRequestException"),
    # Spark's CREATE TABLE IF NOT EXISTS waits for 409.
    core.NameTaken: Wire(409, "AlreadyExistsException"),
    core.PlaceTaken: Wire(400, "InvalidParameterValueException"),
    core.NotEmpty: Wire(409, "UpdateRequirementConflictException"),
    core.VersionTaken: Wire(409, "CommitVersionConflictException"),
    core.RevisionMoved: Wire(409, "UpdateRequirementConflictException"),
    core.RequirementFailed: Wire(409, "UpdateRequirementConflictException"),
    core.AlreadyPurged: Wire(409, "UpdateRequirementConflictException"),
    core.LeaseLost: Wire(409, "UpdateRequirementConflictException"),
    core.JobEnded: Wire(409, "UpdateRequirementConflictException"),
    core.KeyReused: Wire(422, "BadRequestException"),
    core.Unauthenticated: Wire(401, "NotAuthorizedException"),
    core.Forbidden: Wire(403, "PermissionDeniedException"),
    core.TimedOut: Wire(408, "BadRequestException"),
    # Never 429: Delta 4.3 and 4.4 take it for a broken connection.
    core.Busy: Wire(503, "InternalServerErrorException"),
    core.Unavailable: Wire(503, "InternalServerErrorException"),
    core.OutcomeUnknown: Wire(500, "CommitStateUnknownException"),
    core.Damaged: Wire(500, "InternalServerErrorException"),
}

UNSUPPORTED_FORMAT = "UnsupportedTableFormatException"
"""Delta's clients look for this very word, and then load the table in the older way."""


class DeltaErrorModel(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, by a name that clients know."""

    message: str
    type: str
    code: int


class DeltaErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Every refusal of this API has this shape."""

    error: DeltaErrorModel


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    is_format = isinstance(error, core.InvalidInput) and "format" in error.details
    name = UNSUPPORTED_FORMAT if is_format else wire.name
    return _encode(DeltaErrorResponse(error=DeltaErrorModel(message=error.message, type=name, code=wire.status)))


delta = Api(
    "delta",
    prefix="/api/2.1/unity-catalog/delta/v1",
    file="delta.yaml",
    title="Delta API",
    description="How Delta 4.3 and later create, load and commit to tables of a Unity catalog.",
    tags={
        "configuration": "Which version of this API is spoken, and what of it is there.",
        "delta tables": "Delta tables, managed and external.",
        "delta credentials": "What clients need to reach files.",
    },
    parameters={
        "catalog": "The name of the catalog.",
        "schema": "The name of the schema.",
        "table": "The name of the table.",
        "table_id": "The id of a staged table.",
    },
    errors=WIRE,
    unexpected="InternalServerErrorException",
    render_error=render_error,
    error_answer=DeltaErrorResponse,
    defaults={"stage": "ga", "since": "2.1.0-moorage.1"},
)
