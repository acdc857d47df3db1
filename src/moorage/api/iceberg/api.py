"""Where the Iceberg REST catalog is mounted, how it names errors, and what its routes have in common."""

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
LEVELS = "\x1f"
"""Between the levels of a namespace in an address, as every client knows it: no name can contain it."""

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
    # Not 409: clients take that for "the table exists already", and CREATE IF NOT EXISTS would be content.
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
    core.TimedOut: Wire(408, "RequestTimeoutException"),
    core.Busy: Wire(503, "ServiceUnavailableException"),
    core.Unavailable: Wire(503, "ServiceUnavailableException"),
    core.OutcomeUnknown: Wire(500, "CommitStateUnknownException"),
    core.Damaged: Wire(500, "InternalServerError"),
}


class ErrorModel(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong; clients go by the type."""

    message: str
    type: str
    code: Annotated[int, Meta(ge=400, le=600, description="The HTTP status.")]


class IcebergErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Every refusal has this shape."""

    error: ErrorModel


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    """The error in the words that Iceberg's clients print."""
    if isinstance(error, InvalidInput) and (error.field or "").endswith(_ILLEGAL):
        return error_body(wire._replace(name="IllegalArgumentException"), error.message)
    if isinstance(error, core.SecurableNotFound) and error.details.get("kind") == Kind.FUNCTION:
        wire = wire._replace(name="NoSuchFunctionException")
    return error_body(wire, _words(error))


_ILLEGAL = "view-version.representations"
"""What a view says twice. Java's clients hear it under this name, and take every other bad request for malformed."""


def error_body(wire: Wire, message: str) -> bytes:
    return _encode(IcebergErrorResponse(error=ErrorModel(message=message, type=wire.name, code=wire.status)))


def _words(error: MoorageError) -> str:
    """Clients know no catalog above the namespace, and people look for the phrases of the other servers."""
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
            return f"{field}: {message}"  # the error model has no room for the field but here
    return error.message


iceberg = Api(
    "iceberg",
    prefix="/iceberg",
    also_at=[f"{UNITY}/iceberg"],
    file="iceberg.yaml",
    title="Iceberg REST catalog",
    description="The Apache Iceberg REST catalog: a warehouse is a catalog, and its name is the prefix. "
    f"Unity's clients find the same under `{UNITY}/iceberg`.",
    tags={
        "configuration": "What a client asks first.",
        "namespaces": "What groups tables and views, to any depth.",
        "tables": "Iceberg tables.",
        "commits": "Changes of tables, alone or several at once.",
        "views": "Iceberg views.",
        "planning": "Scans planned by the server.",
        "functions": "Functions that are written in SQL.",
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
    """An errand whose key, if there is one, is a UUID of any version: clients send 4 and 7."""
    if call.key is not None and not _UUID.fullmatch(call.key):
        raise InvalidInput(f"Idempotency-Key must be a UUID, not {call.key!r}", field="Idempotency-Key")
    return errand_of(call, ports)


def parse_levels(text: str, field: str = "namespace") -> tuple[str, ...]:
    """The names of a namespace, outermost first."""
    levels = tuple(text.split(LEVELS))
    if not all(levels):
        raise InvalidInput(f"{field} has an empty level", field=field)
    return levels


def namespace_of(call: Call[Any, Any]) -> Address:
    """The namespace in the address of a request."""
    return _namespace(call.params["prefix"], call.params["namespace"])


@lru_cache(maxsize=4_096)
def _namespace(prefix: str, text: str) -> Address:
    return _below(prefix, parse_levels(text), "namespace")


def namespace_in(call: Call[Any, Any], levels: tuple[str, ...], field: str = "namespace") -> Address:
    return _below(call.params["prefix"], levels, field)


def _below(prefix: str, levels: tuple[str, ...], field: str) -> Address:
    path = (*catalog(prefix, field="prefix").path, *require_path(levels, field))
    return Address(Kind.NAMESPACE, require_path(path, field))


def relation_of(call: Call[Any, Any], kind: Kind) -> Address:
    """The table or view in the address of a request; a name that cannot be is simply not found."""
    return Address(kind, (*namespace_of(call).path, call.params[str(kind)]))


class Paging(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which part of a list is wanted."""

    page_token: Annotated[
        str | None, Meta(description="From the previous page; empty for the first. Without it the list comes whole.")
    ] = None
    page_size: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="How many at most; 0 is the server's choice, which may send fewer.")
    ] = 0
