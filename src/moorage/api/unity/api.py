"""Where the Unity API is mounted, and how it names errors."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.core import errors as core
from moorage.core.errors import MoorageError
from moorage.core.securables import Kind
from moorage.http import Api
from moorage.http.errors import ErrorTable, Wire

SINCE = "2.1.0-moorage.1"

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.DraftTooLarge: Wire(400, "INVALID_PARAMETER_VALUE"),
    core.TooLarge: Wire(413, "INVALID_PARAMETER_VALUE"),
    # Not 501: Unity's Java client repeats every 5xx, and the answer would not change.
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
    # 400, not 409: the specification says so for tables, and Unity does it for all. The code says what exists.
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
    core.TimedOut: Wire(408, "DEADLINE_EXCEEDED"),
    core.Busy: Wire(503, "UNAVAILABLE"),
    core.Unavailable: Wire(503, "UNAVAILABLE"),
    core.OutcomeUnknown: Wire(500, "UNKNOWN"),
    core.Damaged: Wire(500, "DATA_LOSS"),
}

# The words of Unity's own server, where they differ from the specification's.
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

# Spark looks for SCHEMA_ALREADY_EXISTS in the body, so the kind must be told.
_TAKEN: dict[str, str] = {
    Kind.CATALOG: "CATALOG_ALREADY_EXISTS",
    Kind.NAMESPACE: "SCHEMA_ALREADY_EXISTS",
    Kind.TABLE: "TABLE_ALREADY_EXISTS",
    Kind.VIEW: "TABLE_ALREADY_EXISTS",
    Kind.VOLUME: "RESOURCE_ALREADY_EXISTS",
    Kind.FUNCTION: "RESOURCE_ALREADY_EXISTS",
    Kind.MODEL: "RESOURCE_ALREADY_EXISTS",
}


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why, in Unity's own words."""

    type: str = msgspec.field(default="google.rpc.ErrorInfo", name="@type")
    reason: str


class UnityError(msgspec.Struct, frozen=True, kw_only=True):
    """The error envelope that Unity's clients read."""

    error_code: Annotated[str, Meta(description="ALREADY_EXISTS says what exists: TABLE_ALREADY_EXISTS and the like.")]
    message: str
    details: tuple[ErrorInfo, ...]


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    code, reason = wire.name, _REASONS.get(type(error), wire.name)
    if isinstance(error, core.NameTaken):
        code = reason = _TAKEN.get(error.details.get("kind", ""), wire.name)
    return _encode(UnityError(error_code=code, message=error.message, details=(ErrorInfo(reason=reason),)))


unity = Api(
    "unity",
    prefix="/api/2.1/unity-catalog",
    file="all.yaml",
    title="Unity Catalog API",
    description="The data plane of Unity Catalog, as its clients know it.",
    tags={
        "catalogs": "The first level of every name.",
        "schemas": "What groups tables, volumes, functions and models in a catalog.",
        "tables": "Tables of every format, and views.",
        "maintenance": "Work on the files of tables.",
        "delta commits": "Commits of managed Delta tables, ratified here.",
        "volumes": "Folders of files that are no tables.",
        "functions": "Functions in SQL or Python, kept for whoever runs them.",
        "models": "Registered models and their versions.",
        "credentials": "What clients need to reach files.",
        "metastores": "The catalog server itself.",
        "capabilities": "What this server can do.",
    },
    parameters={
        "name": "The name of the object, with those of its parents before it: catalog.schema.name.",
        "full_name": "The name of the object, with those of its parents before it: catalog.schema.name.",
        "version": "The number of a model version.",
    },
    errors=WIRE,
    unexpected="INTERNAL",
    render_error=render_error,
    error_answer=UnityError,
    defaults={"stage": "ga", "since": SINCE},
)
