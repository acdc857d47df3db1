"""Where the Lance namespace is mounted, how it names errors, and what its routes have in common."""

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
from moorage.usecases.lance.lookup import space_at, table_at

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
"""The error codes of the specification: each is the place of its name in this list. Clients go by them alone."""

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
    # Not 409: clients take that for "the table exists already".
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
"""Errors whose code depends on what they are about: its kind stands in their details."""


class LanceErrorResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every refusal has this shape; clients go by the code."""

    error: str
    code: Annotated[int, Meta(ge=0, le=len(CODES) - 1, description="The error code of the Lance specification.")]
    detail: Annotated[str | None, Meta(description="The name of the code, and which field it is about.")] = None
    instance: Annotated[str | None, Meta(description="The id of the request, which the server's log knows.")] = None


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    """The error with the code that Lance's clients go by."""
    name = _BY_KIND.get((type(error), error.details.get("kind", "")), wire.name)
    detail = f"{name} at {error.field}" if error.field else name
    return _encode(LanceErrorResponse(error=error.message, code=CODES.index(name), detail=detail, instance=request_id))


class Delimited(msgspec.Struct, frozen=True, kw_only=True):
    """How identifiers are written."""

    delimiter: Annotated[
        str | None, Meta(description="What joins the names of an identifier; $ if it is not given.")
    ] = None


lance = Api(
    "lance",
    credential=bearer_or_api_key,
    prefix="/lance",
    file="lance.yaml",
    title="Lance namespace",
    description="The Lance Namespace specification over REST. The first name of an identifier is a catalog.",
    tags={
        "namespaces": "What groups tables, to any depth.",
        "tables": "Lance tables.",
        "versions": "Versions of tables: the catalog is the authority on them.",
        "tokens": "What a client asks for when it is given credentials.",
        "transactions": "Several changes at once, all of them or none.",
        "data": "Rows of tables: written, changed, queried.",
        "schema": "Columns of tables, and how large tables are.",
        "indexes": "Indexes of tables.",
        "refs": "Tags and branches of tables.",
    },
    parameters={
        "id": "An identifier: names, outermost first, joined by the delimiter. The delimiter alone is the root.",
        "index_name": "The name of an index.",
    },
    errors=WIRE,
    unexpected="Internal",
    render_error=render_error,
    error_answer=LanceErrorResponse,
    defaults={"stage": "ga", "since": "2.1.0-moorage.1", "query": Delimited},
)

_AT_ID = 4
"""Which segment of a path holds the identifier: /lance/v1/table/{id}/…"""


def delimiter_of(call: Call[Any, Any]) -> str:
    return call.query.delimiter or DELIMITER


def names_of(call: Call[Any, Any], in_body: list[str] | None = None) -> tuple[str, ...]:
    """The identifier in the address of a request, with which its body must agree."""
    return agreed_identifier(parse_identifier(_id_text(call), delimiter_of(call)), in_body)


def _id_text(call: Call[Any, Any]) -> str:
    """Lance's clients write addresses like forms, where a plus is a space."""
    if b"+" not in call.path:
        return call.params["id"]
    raw = call.path.split(b"/")[_AT_ID].replace(b"+", b"%20")
    return percent_decoded(raw.decode("latin-1"))


def space_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address | None:
    """The namespace in the address of a request; None is the root."""
    return space_at(names_of(call, in_body))


def named_space_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address:
    """The same for what cannot be done to the root."""
    space = space_of(call, in_body)
    if space is None:
        raise InvalidInput("the root can be neither created nor dropped", field="id")
    return space


def table_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address:
    """The table in the address of a request. One directly at the root cannot be, so it is not found."""
    names = names_of(call, in_body)
    if len(names) == 1:
        raise TableNotFound(f"table '{names[0]}' does not exist; every table lives in a namespace", kind="table")
    return table_at(names)


def new_table_of(call: Call[Any, Any], in_body: list[str] | None = None) -> Address:
    """The table that a request would make."""
    names = names_of(call, in_body)
    try:
        return table_at(names)
    except InvalidInput as error:
        if len(names) == 1 and call.query.delimiter:
            error.message += f" (the delimiter is {call.query.delimiter!r})"
        raise


def listed_table(call: Call[Any, Any], names: list[str] | None, field: str = "id") -> Address:
    """The table that a body names where the address names none."""
    return table_at(require_addressable(names or (), delimiter_of(call), field), field)
