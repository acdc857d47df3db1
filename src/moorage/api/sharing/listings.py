"""Lists of shares, schemas and tables."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.sharing.api import JSON, sharing
from moorage.core.errors import InvalidInput, NamespaceNotFound, SecurableNotFound
from moorage.core.securables import Securable
from moorage.core.shares import DISPLAY_NAME
from moorage.formats.sharing.lines import to_json
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.inputs import Int64
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import granted
from moorage.usecases.sharing.accesses import record_access
from moorage.usecases.sharing.recipients import as_recipient
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.table_heads import access_modes

routes = sharing.section(tags=("shares",))

MAX_RESULTS = 500
EXAMPLE_ID = "edacc4a7-6600-4fbb-85f3-a62a5ce6761f"


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The size of a page, and where it begins."""

    max_results: Annotated[
        Int64 | None, Meta(description="The largest number of items on the page. The server returns at most 500.")
    ] = None
    page_token: Annotated[str | None, Meta(description="The nextPageToken of the page before.")] = None

    @property
    def limit(self) -> int:
        if self.max_results is not None and self.max_results < 0:
            raise InvalidInput(f"maxResults is {self.max_results}; it must not be negative", field="maxResults")
        return MAX_RESULTS if self.max_results is None else min(self.max_results, MAX_RESULTS)


class Share(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A share of the recipient."""

    name: str
    id: str
    display_name: str | None = None
    comment: str | None = None
    properties: dict[str, str] = {}


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema of a share."""

    name: str
    share: str


class Table(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A table of a share."""

    name: str
    schema: str
    share: str
    share_id: str
    id: str
    location: str | None = None
    access_modes: tuple[str, ...] | None = None


class ListSharesResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A page of shares."""

    items: tuple[Share, ...]
    next_page_token: str | None = None


class GetShareResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One share."""

    share: Share


class ListSchemasResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A page of schemas."""

    items: tuple[Schema, ...]
    next_page_token: str | None = None


class ListTablesResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A page of tables."""

    items: tuple[Table, ...]
    next_page_token: str | None = None


def json_answer(value: Any) -> Answer:
    """A JSON document in one line, which is all that the Python client reads."""
    return Answer(200, to_json(value), (JSON,))


def _record(call: Call[Any, Any], ports: Ports) -> None:
    """Record in the audit that the recipient listed something. A refused request is recorded by the server."""
    record_access(ports, as_recipient(call.caller), call.route.operation, share=call.params.get("share"))


def _share(share: Securable) -> Share:
    return Share(
        name=share.name,
        id=share.id,
        display_name=share.doc.details.get(DISPLAY_NAME),
        comment=share.doc.comment,
        properties=share.doc.properties,
    )


async def _table(ports: Ports, shared: SharedTable) -> Table:
    modes = await access_modes(ports, shared)
    return Table(
        name=shared.name,
        schema=shared.schema,
        share=shared.share,
        share_id=shared.share_id,
        id=shared.id,
        location=shared.table.doc.location if "dir" in modes else None,
        access_modes=modes,
    )


async def _tables(ports: Ports, page: granted.TablePage) -> Answer:
    items = tuple([await _table(ports, shared) for shared in page.tables])
    return json_answer(ListTablesResponse(items=items, next_page_token=page.next_token))


_SHARE = {"name": "vaccine_share", "id": EXAMPLE_ID}
_TABLE = {
    "name": "patients",
    "schema": "acme",
    "share": "vaccine_share",
    "shareId": EXAMPLE_ID,
    "id": "dcb1e680-7da4-4041-9be8-88aff508d001",
    "accessModes": ["url"],
}


@routes.get(
    "/shares",
    operation="listRecipientShares",
    summary="List the shares of the recipient.",
    query=PageQuery,
    answer=ListSharesResponse,
    errors=(InvalidInput,),
    example=Example(answer={"items": [_SHARE]}),
)
async def list_shares(call: Call[NoBody, PageQuery], ports: Ports) -> Answer:
    """List the shares that were granted to the recipient, ordered by name."""
    recipient = as_recipient(call.caller)
    page = await granted.list_shares(ports, recipient, token=call.query.page_token, limit=call.query.limit)
    _record(call, ports)
    items = tuple(_share(share) for share in page.shares)
    return json_answer(ListSharesResponse(items=items, next_page_token=page.next_token))


@routes.get(
    "/shares/{share}",
    operation="getRecipientShare",
    summary="Get a share.",
    answer=GetShareResponse,
    errors=(SecurableNotFound,),
    example=Example(path={"share": "vaccine_share"}, answer={"share": _SHARE}),
)
async def get_share(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one share of the recipient. A share that was not granted is answered like one that does not exist."""
    share = await granted.find_share(ports, as_recipient(call.caller), call.params["share"])
    _record(call, ports)
    return json_answer(GetShareResponse(share=_share(share)))


@routes.get(
    "/shares/{share}/schemas",
    operation="listRecipientSchemas",
    summary="List the schemas of a share.",
    query=PageQuery,
    answer=ListSchemasResponse,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"share": "vaccine_share"}, answer={"items": [{"name": "acme", "share": "vaccine_share"}]}),
)
async def list_schemas(call: Call[NoBody, PageQuery], ports: Ports) -> Answer:
    """List the schemas of a share, ordered by name."""
    page = await granted.list_schemas(
        ports,
        as_recipient(call.caller),
        call.params["share"],
        token=call.query.page_token,
        limit=call.query.limit,
    )
    _record(call, ports)
    items = tuple(Schema(name=name, share=page.share.name) for name in page.schemas)
    return json_answer(ListSchemasResponse(items=items, next_page_token=page.next_token))


@routes.get(
    "/shares/{share}/schemas/{schema}/tables",
    operation="listRecipientTables",
    summary="List the tables of a schema.",
    query=PageQuery,
    answer=ListTablesResponse,
    errors=(InvalidInput, SecurableNotFound, NamespaceNotFound),
    example=Example(path={"share": "vaccine_share", "schema": "acme"}, answer={"items": [_TABLE]}),
)
async def list_tables(call: Call[NoBody, PageQuery], ports: Ports) -> Answer:
    """List the tables of one schema of a share, ordered by name."""
    page = await granted.list_tables(
        ports,
        as_recipient(call.caller),
        call.params["share"],
        call.params["schema"],
        token=call.query.page_token,
        limit=call.query.limit,
    )
    _record(call, ports)
    return await _tables(ports, page)


@routes.get(
    "/shares/{share}/all-tables",
    operation="listAllRecipientTables",
    summary="List all tables of a share.",
    query=PageQuery,
    answer=ListTablesResponse,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"share": "vaccine_share"}, answer={"items": [_TABLE]}),
)
async def list_all_tables(call: Call[NoBody, PageQuery], ports: Ports) -> Answer:
    """List the tables of all schemas of a share, ordered by schema and name."""
    page = await granted.list_all_tables(
        ports,
        as_recipient(call.caller),
        call.params["share"],
        token=call.query.page_token,
        limit=call.query.limit,
    )
    _record(call, ports)
    return await _tables(ports, page)
