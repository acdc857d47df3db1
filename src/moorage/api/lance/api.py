"""The Lance namespace API: its mount point, its error codes, and the functions that its routes share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.core import errors as core
from moorage.core.errors import InvalidInput, MoorageError, TableNotFound
from moorage.formats.lance.identifiers import DELIMITER, agreed_identifier, parse_identifier, require_addressable
from moorage.http import Api, Call
from moorage.http.credentials import bearer_or_api_key
from moorage.http.errors import ErrorTable, Wire
from moorage.http.router import percent_decoded
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.lookup import namespace_address, table_address

CODES = (
    "Unsupported",
    "NamespaceNotFound",
    "NamespaceAlreadyExists",
    "NamespaceNotEmpty",
    "TableNotFound",
    "TableAlreadyExists",
    "TableIndexNotFound",
    "TableIndexAlreadyExists",
    "TableTagNotFound",
    "TableTagAlreadyExists",
    "TransactionNotFound",
    "TableVersionNotFound",
    "TableColumnNotFound",
    "InvalidInput",
    "ConcurrentModification",
    "PermissionDenied",
    "Unauthenticated",
    "ServiceUnavailable",
    "Internal",
    "InvalidTableState",
    "TableSchemaValidationError",
    "Throttling",
    "TableBranchNotFound",
    "TableBranchAlreadyExists",
)
"""The error codes of the specification: a code is the index of its name. Clients depend on the code alone."""

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, "InvalidInput"),
    core.DraftTooLarge: Wire(400, "InvalidInput"),
    core.TooLarge: Wire(413, "InvalidInput"),
    core.Unsupported: Wire(406, "Unsupported"),
    core.CatalogNotFound: Wire(404, "NamespaceNotFound"),
    core.NamespaceNotFound: Wire(404, "NamespaceNotFound"),
    core.TableNotFound: Wire(404, "TableNotFound"),
    core.ViewNotFound: Wire(404, "TableNotFound"),
    core.SecurableNotFound: Wire(404, "TableNotFound"),
    core.VersionNotFound: Wire(404, "TableVersionNotFound"),
    core.JobNotFound: Wire(404, "TransactionNotFound"),
    core.PlanNotFound: Wire(404, "TransactionNotFound"),
    core.PlanTaskNotFound: Wire(404, "TransactionNotFound"),
    core.RouteNotFound: Wire(404, "Unsupported"),
    core.MethodNotAllowed: Wire(405, "Unsupported"),
    core.NameTaken: Wire(409, "TableAlreadyExists"),
    # Not 409: clients treat 409 as "the table already exists".
    core.PlaceTaken: Wire(400, "InvalidInput"),
    core.NotEmpty: Wire(409, "NamespaceNotEmpty"),
    core.VersionTaken: Wire(409, "ConcurrentModification"),
    core.RevisionMoved: Wire(409, "ConcurrentModification"),
    core.RequirementFailed: Wire(409, "InvalidTableState"),
    core.AlreadyPurged: Wire(409, "InvalidTableState"),
    core.LeaseLost: Wire(409, "InvalidTableState"),
    core.JobEnded: Wire(409, "InvalidTableState"),
    core.KeyReused: Wire(400, "InvalidInput"),
    core.Unauthenticated: Wire(401, "Unauthenticated"),
    core.Forbidden: Wire(403, "PermissionDenied"),
    core.TooManyRequests: Wire(429, "Throttling"),
    core.TimedOut: Wire(408, "ServiceUnavailable"),
    core.Busy: Wire(503, "ServiceUnavailable"),
    core.Unavailable: Wire(503, "ServiceUnavailable"),
    core.OutcomeUnknown: Wire(500, "Internal"),
    core.Damaged: Wire(500, "Internal"),
}

_BY_KIND = {
    (core.NameTaken, "catalog"): "NamespaceAlreadyExists",
    (core.NameTaken, "namespace"): "NamespaceAlreadyExists",
    (core.NameTaken, "tag"): "TableTagAlreadyExists",
    (core.NameTaken, "branch"): "TableBranchAlreadyExists",
    (core.NameTaken, "index"): "TableIndexAlreadyExists",
    (core.SecurableNotFound, "tag"): "TableTagNotFound",
    (core.SecurableNotFound, "branch"): "TableBranchNotFound",
    (core.SecurableNotFound, "index"): "TableIndexNotFound",
    (core.SecurableNotFound, "column"): "TableColumnNotFound",
    (core.SecurableNotFound, "transaction"): "TransactionNotFound",
    (core.InvalidInput, "schema"): "TableSchemaValidationError",
}
"""Errors whose code depends on the kind of the object, which is in their details."""


class LanceErrorResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every error response. Clients depend on the code."""

    error: str
    code: Annotated[int, Meta(ge=0, le=len(CODES) - 1, description="The error code of the Lance specification.")]
    detail: Annotated[str | None, Meta(description="The name of the code, and the field that is wrong.")] = None
    instance: Annotated[str | None, Meta(description="The id of the request, as in the server's log.")] = None


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    """The error response, with the code that Lance's clients expect."""
    name = _BY_KIND.get((type(error), error.details.get("kind", "")), wire.name)
    detail = f"{name} at {error.field}" if error.field else name
    return _encode(LanceErrorResponse(error=error.message, code=CODES.index(name), detail=detail, instance=request_id))


class Delimited(msgspec.Struct, frozen=True, kw_only=True):
    """The delimiter of identifiers."""

    delimiter: Annotated[str | None, Meta(description="Joins the names of an identifier. The default is $.")] = None


lance = Api(
    "lance",
    credential=bearer_or_api_key,
    prefix="/lance",
    file="lance.yaml",
    title="Lance namespace",
    description="The Lance Namespace specification over REST. The first name of an identifier is a catalog.",
    tags={
        "namespaces": "Groups of tables, nested to any depth.",
        "tables": "Lance tables.",
        "versions": "Versions of tables: the catalog is the authority on them.",
        "tokens": "Tokens for clients that are configured with credentials.",
        "transactions": "Several changes in one transaction, all or nothing.",
        "data": "Rows of tables: insert, update, delete and query.",
        "schema": "Columns of tables, and table statistics.",
        "indexes": "Indexes of tables.",
        "refs": "Tags and branches of tables.",
    },
    parameters={
        "id": "An identifier: names, outermost first, joined by the delimiter. The delimiter alone means the root.",
        "index_name": "The name of an index.",
    },
    errors=WIRE,
    unexpected="Internal",
    render_error=render_error,
    error_answer=LanceErrorResponse,
    defaults={"stage": "ga", "since": "2.1.0-moorage.1", "query": Delimited},
)

_ID_SEGMENT = 4
"""The path segment of the identifier: /lance/v1/table/{id}/…"""


def delimiter_of(call: Call[Any, Any]) -> str:
    return call.query.delimiter or DELIMITER


def identifier_of(call: Call[Any, Any], in_body: list[str] | None = None) -> tuple[str, ...]:
    """The identifier in the path of a request. An identifier in the body must be equal."""
    return agreed_identifier(parse_identifier(_id_text(call), delimiter_of(call)), in_body)


def _id_text(call: Call[Any, Any]) -> str:
    """Lance's clients encode paths like forms, where a plus is a space."""
    if b"+" not in call.path:
        return call.params["id"]
    raw = call.path.split(b"/")[_ID_SEGMENT].replace(b"+", b"%20")
    return percent_decoded(raw.decode("latin-1"))


def namespace_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address | None:
    """The namespace in the path of a request; None for the root."""
    return namespace_address(identifier_of(call, in_body))


def nonroot_namespace_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address:
    """The namespace in the path of a request, which must not be the root."""
    namespace = namespace_of(call, in_body)
    if namespace is None:
        raise InvalidInput("the root namespace cannot be created or dropped", field="id")
    return namespace


def table_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address:
    """The table in the path of a request. The root has no tables, so a single name is not found."""
    names = identifier_of(call, in_body)
    if len(names) == 1:
        raise TableNotFound(f"table '{names[0]}' does not exist; every table is in a namespace", kind="table")
    return table_address(names)


def new_table_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address:
    """The table that a request would create."""
    names = identifier_of(call, in_body)
    try:
        return table_address(names)
    except InvalidInput as error:
        if len(names) == 1 and call.query.delimiter:
            error.message += f" (the delimiter is {call.query.delimiter!r})"
        raise


def table_in_body(call: Call[Any, Any], names: list[str] | None, field: str = "id") -> Address:
    """The table that a request names in its body, not in its path."""
    return table_address(require_addressable(names or (), delimiter_of(call), field), field)
