"""The path of the Unity API, and its error names."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.unity_words import in_unity_words
from moorage.core import errors as core
from moorage.core.errors import MoorageError
from moorage.core.securables import Kind
from moorage.http import Answer, Api
from moorage.http.answers import JSON
from moorage.http.errors import ErrorTable, Wire

SINCE = "2.1.0-moorage.1"

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.DraftTooLarge: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.TooLarge: Wire(413, "INVALID_PARAMETER_VALUE"),
    # Not 501: Unity's Java client retries every 5xx, and the response would not change.
    core.Unsupported: Wire(400, "UNIMPLEMENTED"),
    core.CatalogNotFound: Wire(404, "CATALOG_DOES_NOT_EXIST"),
    core.NamespaceNotFound: Wire(404, "SCHEMA_DOES_NOT_EXIST"),
    core.TableNotFound: Wire(404, "TABLE_DOES_NOT_EXIST"),
    core.ViewNotFound: Wire(404, "TABLE_DOES_NOT_EXIST"),
    core.SecurableNotFound: Wire(404, "NOT_FOUND"),
    core.VersionNotFound: Wire(404, "NOT_FOUND"),
    core.JobNotFound: Wire(404, "NOT_FOUND"),
    core.PlanNotFound: Wire(404, "NOT_FOUND"),
    core.PlanTaskNotFound: Wire(404, "NOT_FOUND"),
    core.RouteNotFound: Wire(404, "NOT_FOUND"),
    core.MethodNotAllowed: Wire(405, "UNIMPLEMENTED"),
    # 400, not 409: the specification requires it for managed tables, and Unity does so for all kinds. The code
    # contains the kind. `name_taken_answer` is for views and external tables.
    core.NameTaken: Wire(400, "ALREADY_EXISTS"),
    core.PlaceTaken: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.NotEmpty: Wire(400, "FAILED_PRECONDITION"),
    core.VersionTaken: Wire(409, "ALREADY_EXISTS"),
    core.RevisionMoved: Wire(409, "ABORTED"),
    core.RequirementFailed: Wire(409, "ABORTED"),
    core.AlreadyPurged: Wire(409, "FAILED_PRECONDITION"),
    core.LeaseLost: Wire(409, "ABORTED"),
    core.JobEnded: Wire(409, "FAILED_PRECONDITION"),
    core.KeyReused: Wire(422, "INVALID_PARAMETER_VALUE"),
    core.Unauthenticated: Wire(401, "UNAUTHENTICATED"),
    core.Forbidden: Wire(403, "PERMISSION_DENIED"),
    core.TooManyRequests: Wire(429, "REQUEST_LIMIT_EXCEEDED"),
    core.TimedOut: Wire(408, "DEADLINE_EXCEEDED"),
    core.Busy: Wire(503, "UNAVAILABLE"),
    core.Unavailable: Wire(503, "UNAVAILABLE"),
    core.OutcomeUnknown: Wire(500, "UNKNOWN"),
    core.Damaged: Wire(500, "DATA_LOSS"),
}

# The names that Unity's own server uses, where they differ from the specification.
_REASONS: dict[type[MoorageError], str] = {
    core.InvalidInput: "INVALID_ARGUMENT",
    core.DraftTooLarge: "INVALID_ARGUMENT",
    core.TooLarge: "INVALID_ARGUMENT",
    core.PlaceTaken: "INVALID_ARGUMENT",
    core.KeyReused: "INVALID_ARGUMENT",
    core.CatalogNotFound: "CATALOG_NOT_FOUND",
    core.NamespaceNotFound: "SCHEMA_NOT_FOUND",
    core.TableNotFound: "TABLE_NOT_FOUND",
    core.ViewNotFound: "TABLE_NOT_FOUND",
    core.VersionTaken: "COMMIT_VERSION_CONFLICT",
}

# Spark searches the body for SCHEMA_ALREADY_EXISTS, so the code must contain the kind.
_ALREADY_EXISTS: dict[str, str] = {
    Kind.CATALOG: "CATALOG_ALREADY_EXISTS",
    Kind.NAMESPACE: "SCHEMA_ALREADY_EXISTS",
    Kind.TABLE: "TABLE_ALREADY_EXISTS",
    Kind.VIEW: "TABLE_ALREADY_EXISTS",
    Kind.VOLUME: "RESOURCE_ALREADY_EXISTS",
    Kind.FUNCTION: "RESOURCE_ALREADY_EXISTS",
    Kind.MODEL: "RESOURCE_ALREADY_EXISTS",
    Kind.CREDENTIAL: "RESOURCE_ALREADY_EXISTS",
    Kind.EXTERNAL_LOCATION: "RESOURCE_ALREADY_EXISTS",
    Kind.SHARE: "RESOURCE_ALREADY_EXISTS",
    Kind.RECIPIENT: "RESOURCE_ALREADY_EXISTS",
    Kind.SHARED_OBJECT: "RESOURCE_ALREADY_EXISTS",
}


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The reason, as Unity's own server names it."""

    type: str = msgspec.field(default="google.rpc.ErrorInfo", name="@type")
    reason: str


class UnityError(msgspec.Struct, frozen=True, kw_only=True):
    """The error response of every operation."""

    error_code: Annotated[
        str, Meta(description="If a name is taken, the code contains the kind: TABLE_ALREADY_EXISTS, for example.")
    ]
    message: str
    details: tuple[ErrorInfo, ...]


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    code, reason = wire.name, _REASONS.get(type(error), wire.name)
    if isinstance(error, core.NameTaken):
        code = reason = _ALREADY_EXISTS.get(error.details.get("kind", ""), wire.name)
    message = in_unity_words(error.message)
    return _encode(UnityError(error_code=code, message=message, details=(ErrorInfo(reason=reason),)))


def name_taken_answer(error: core.NameTaken, request_id: str) -> Answer:
    """The response 409 for a name that is taken, where the specification does not require the 400 of the table above.

    Spark's connector maps 409 only to TableAlreadyExistsException and ViewAlreadyExistsException.
    """
    wire = Wire(409, WIRE[core.NameTaken].name)
    return Answer(wire.status, render_error(wire, error, request_id), (JSON,))


unity = Api(
    "unity",
    prefix="/api/2.1/unity-catalog",
    file="all.yaml",
    title="Unity Catalog API",
    description="The data plane of the Unity Catalog API.",
    tags={
        "catalogs": "Catalogs are the first level of every name.",
        "schemas": "Schemas group the tables, volumes, functions and models of a catalog.",
        "tables": "Tables of every format, and views.",
        "maintenance": "Maintenance of the files of tables.",
        "delta commits": "Commits of managed Delta tables, which the catalog ratifies.",
        "volumes": "Folders of files that are not tables.",
        "functions": "Functions in SQL or Python. The catalog stores them; other programs run them.",
        "models": "Registered models and their versions.",
        "shares": "Tables and schemas that recipients outside the catalog may read.",
        "recipients": "The readers of shares, and their tokens.",
        "grants": "Who may do what to an object.",
        "credentials": "Temporary credentials for files.",
        "storage credentials": "Keys and roles that open object stores.",
        "external locations": "Folders in object stores, each with the credential that opens it.",
        "metastores": "The catalog server itself.",
        "capabilities": "Optional features of this server.",
    },
    parameters={
        "name": "The full name of the object: catalog.schema.name.",
        "securable_type": "metastore, catalog, schema, table, volume, function, registered_model, pipeline, share, "
        "recipient, credential or external_location.",
        "full_name": "The full name of the object: catalog.schema.name.",
        "version": "The number of a model version.",
        "code": "The code of an activation link, or the whole link.",
    },
    errors=WIRE,
    unexpected="INTERNAL",
    render_error=render_error,
    error_answer=UnityError,
    defaults={"stage": "ga", "since": SINCE},
)
