"""The Iceberg REST catalog: its prefix, its errors, and what its routes share."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.core import errors as core
from moorage.core.errors import InvalidInput, MoorageError
from moorage.core.names import require_path
from moorage.core.securables import Kind
from moorage.http import Api, Call
from moorage.http.errors import ErrorTable, Wire
from moorage.usecases.catalog.addresses import Address, catalog
from moorage.usecases.ports import Errand, Ports

SINCE = "2.1.0-moorage.1"
UNITY = "/api/2.1/unity-catalog"
LEVEL_SEPARATOR = "\x1f"
"""Separates the levels of a namespace in a path. Every client uses this character, and no name can contain it."""

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "BadRequestException"),
    core.DraftTooLarge: Wire(400, "BadRequestException"),
    core.TooLarge: Wire(413, "BadRequestException"),
    core.Unsupported: Wire(406, "UnsupportedOperationException"),
    core.CatalogNotFound: Wire(404, "NoSuchWarehouseException"),
    core.NamespaceNotFound: Wire(404, "NoSuchNamespaceException"),
    core.TableNotFound: Wire(404, "NoSuchTableException"),
    core.ViewNotFound: Wire(404, "NoSuchViewException"),
    core.SecurableNotFound: Wire(404, "NotFoundException"),
    core.VersionNotFound: Wire(404, "NotFoundException"),
    core.JobNotFound: Wire(404, "NotFoundException"),
    core.PlanNotFound: Wire(404, "NoSuchPlanIdException"),
    core.PlanTaskNotFound: Wire(404, "NoSuchPlanTaskException"),
    core.RouteNotFound: Wire(404, "NotFoundException"),
    core.MethodNotAllowed: Wire(405, "UnsupportedOperationException"),
    core.NameTaken: Wire(409, "AlreadyExistsException"),
    # Not 409: clients read that as "the table already exists", and CREATE IF NOT EXISTS would succeed.
    core.PlaceTaken: Wire(400, "BadRequestException"),
    core.NotEmpty: Wire(409, "NamespaceNotEmptyException"),
    core.VersionTaken: Wire(409, "CommitFailedException"),
    core.RevisionMoved: Wire(409, "CommitFailedException"),
    core.RequirementFailed: Wire(409, "CommitFailedException"),
    core.AlreadyPurged: Wire(409, "CommitFailedException"),
    core.LeaseLost: Wire(409, "CommitFailedException"),
    core.JobEnded: Wire(409, "CommitFailedException"),
    core.KeyReused: Wire(422, "UnprocessableEntityException"),
    core.Unauthenticated: Wire(401, "NotAuthorizedException"),
    core.Forbidden: Wire(403, "ForbiddenException"),
    core.TooManyRequests: Wire(429, "TooManyRequestsException"),
    core.TimedOut: Wire(408, "RequestTimeoutException"),
    core.Busy: Wire(503, "ServiceUnavailableException"),
    core.Unavailable: Wire(503, "ServiceUnavailableException"),
    core.OutcomeUnknown: Wire(500, "CommitStateUnknownException"),
    core.Damaged: Wire(500, "InternalServerError"),
}


class ErrorModel(msgspec.Struct, frozen=True, kw_only=True):
    """An error. Clients decide by its type."""

    message: str
    type: str
    code: Annotated[int, Meta(ge=400, le=600, description="The HTTP status.")]


class IcebergErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response to every request that fails."""

    error: ErrorModel


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    """The body of an error, with the type and message that Iceberg clients expect."""
    if isinstance(error, InvalidInput) and (error.field or "").endswith(_ILLEGAL_ARGUMENT_FIELD):
        return error_body(wire._replace(name="IllegalArgumentException"), error.message)
    if isinstance(error, core.SecurableNotFound) and error.details.get("kind") == Kind.FUNCTION:
        wire = wire._replace(name="NoSuchFunctionException")
    return error_body(wire, _message(error))


_ILLEGAL_ARGUMENT_FIELD = "view-version.representations"
"""Two queries of a view for one dialect. Java clients expect this type, and treat any other 400 as malformed."""


def error_body(wire: Wire, message: str) -> bytes:
    return _encode(IcebergErrorResponse(error=ErrorModel(message=message, type=wire.name, code=wire.status)))


def _message(error: MoorageError) -> str:
    """The message without the catalog, which clients do not know, in the wording of other Iceberg servers."""
    name = str(error.details.get("name", "")).partition(".")[2]
    match error:
        case core.NamespaceNotFound() if name:
            return f"Namespace does not exist: {name}"
        case core.NameTaken() if name and error.details.get("kind") == Kind.NAMESPACE:
            return f"Namespace already exists: {name}"
        case core.NotEmpty() if name:
            return f"Namespace {name} is not empty: {error.message}"
        case InvalidInput(field="page_token"):
            return error.message.replace("page_token", "pageToken")
        case InvalidInput(field=str(field), message=message) if field.partition(".")[0] not in message:
            return f"{field}: {message}"  # the error model has no property for the field
    return error.message


iceberg = Api(
    "iceberg",
    prefix="/iceberg",
    also_at=[f"{UNITY}/iceberg"],
    file="iceberg.yaml",
    title="Iceberg REST catalog",
    description="The Apache Iceberg REST catalog. A warehouse is a catalog, and its name is the prefix. "
    f"Unity clients use the same API under `{UNITY}/iceberg`.",
    tags={
        "configuration": "The configuration that a client requests first.",
        "namespaces": "Groups of tables and views, nested to any depth.",
        "tables": "Iceberg tables.",
        "commits": "Changes to one table, or to several together.",
        "views": "Iceberg views.",
        "planning": "Scan planning by the server.",
        "functions": "Functions written in SQL.",
    },
    parameters={
        "prefix": "The name of a catalog.",
        "namespace": "A namespace; the levels of a nested one are joined by U+001F (%1F).",
        "table": "The name of a table.",
        "view": "The name of a view.",
        "plan-id": "The id of a plan.",
        "function": "The name of a function.",
    },
    errors=WIRE,
    unexpected="InternalServerError",
    render_error=render_error,
    error_answer=IcebergErrorResponse,
    defaults={"stage": "ga", "since": SINCE},
)

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def keyed_errand(call: Call[Any, Any], ports: Ports) -> Errand:
    """The errand of a call. Its idempotency key must be a UUID of any version: clients send versions 4 and 7."""
    if call.key is not None and not _UUID.fullmatch(call.key):
        raise InvalidInput(f"Idempotency-Key must be a UUID, not {call.key!r}", field="Idempotency-Key")
    return errand_of(call, ports)


def parse_levels(text: str, field: str = "namespace") -> tuple[str, ...]:
    """The names of a namespace, outermost first."""
    levels = tuple(text.split(LEVEL_SEPARATOR))
    if not all(levels):
        raise InvalidInput(f"{field} has an empty level; every level needs a name", field=field)
    return levels


def namespace_of(call: Call[Any, Any]) -> Address:
    """The namespace in the path of a request."""
    return _namespace(call.params["prefix"], call.params["namespace"])


@lru_cache(maxsize=4_096)
def _namespace(prefix: str, text: str) -> Address:
    return _namespace_address(prefix, parse_levels(text), "namespace")


def namespace_in(call: Call[Any, Any], levels: tuple[str, ...], field: str = "namespace") -> Address:
    return _namespace_address(call.params["prefix"], levels, field)


def _namespace_address(prefix: str, levels: tuple[str, ...], field: str) -> Address:
    path = (*catalog(prefix, field="prefix").path, *require_path(levels, field))
    return Address(Kind.NAMESPACE, require_path(path, field))


def relation_of(call: Call[Any, Any], kind: Kind) -> Address:
    """The table, view or function in the path of a request. An invalid name is not refused, but not found."""
    return Address(kind, (*namespace_of(call).path, call.params[str(kind)]))


class Paging(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The page of a list to return."""

    page_token: Annotated[
        str | None,
        Meta(
            description="From the previous page; empty for the first page. Without it, the response has the whole list."
        ),
    ] = None
    page_size: Annotated[
        int,
        Meta(
            ge=0,
            le=2**31 - 1,
            description="The largest number of items; 0 means the server's default. A page may have fewer.",
        ),
    ] = 0
