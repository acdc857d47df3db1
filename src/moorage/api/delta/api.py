"""The path of the Delta API, and its error names."""

from __future__ import annotations

import msgspec

from moorage.api.unity_words import in_unity_words
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
    # Spark's CREATE TABLE IF NOT EXISTS expects 409.
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
    # Never 429: Delta 4.3 and 4.4 treat it as a broken connection.
    core.TooManyRequests: Wire(503, "InternalServerErrorException"),
    core.Busy: Wire(503, "InternalServerErrorException"),
    core.Unavailable: Wire(503, "InternalServerErrorException"),
    core.OutcomeUnknown: Wire(500, "CommitStateUnknownException"),
    core.Damaged: Wire(500, "InternalServerErrorException"),
}

UNSUPPORTED_FORMAT = "UnsupportedTableFormatException"
"""Delta's clients compare with this exact name, and then load the table through the older API."""


class DeltaErrorModel(msgspec.Struct, frozen=True, kw_only=True):
    """The message, the type that clients evaluate, and the HTTP status."""

    message: str
    type: str
    code: int


class DeltaErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The error response of every operation."""

    error: DeltaErrorModel


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    is_format = isinstance(error, core.InvalidInput) and "format" in error.details
    name = UNSUPPORTED_FORMAT if is_format else wire.name
    message = in_unity_words(error.message)
    return _encode(DeltaErrorResponse(error=DeltaErrorModel(message=message, type=name, code=wire.status)))


delta = Api(
    "delta",
    prefix="/api/2.1/unity-catalog/delta/v1",
    file="delta.yaml",
    title="Delta API",
    description="Create, load and commit to tables of a Unity catalog. Delta 4.3 and later use this API.",
    tags={
        "configuration": "The supported version and operations of this API.",
        "delta tables": "Managed and external Delta tables.",
        "delta credentials": "Credentials for files.",
    },
    parameters={
        "catalog": "The name of the catalog.",
        "schema": "The name of the schema.",
        "table": "The name of the table.",
        "table_id": "The id of a staging table.",
    },
    errors=WIRE,
    unexpected="InternalServerErrorException",
    render_error=render_error,
    error_answer=DeltaErrorResponse,
    defaults={"stage": "ga", "since": "2.1.0-moorage.1"},
)
