"""Tables and views of every format, as the catalog records them. The APIs of the formats create them."""

from __future__ import annotations

from moorage.api.console.api import Paging, console, levels
from moorage.api.console.bodies import EXAMPLE_TABLE, LocatedTable, TableInfo, TableList, located_table, table_info
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, TableNotFound
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import addresses, browse
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports

routes = console.section(tags=("tables",))


@routes.get(
    "/catalogs/{catalog}/namespaces/{namespace}/tables",
    operation="listTables",
    summary="List tables and views.",
    query=Paging,
    answer=TableList,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path={"catalog": "sample", "namespace": "sales"}, answer={"items": [EXAMPLE_TABLE], "next_page_token": None}
    ),
)
async def list_tables(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the tables and views of a namespace, of every format, in the order of their names."""
    page = await browse.page(
        ports,
        call.caller,
        addresses.namespace(call.params["catalog"], *levels(call.params["namespace"])),
        Shelf.RELATION,
        token=call.query.page_token,
        limit=page_size(call.query.max_results),
    )
    return Answer.json(TableList(items=tuple(map(table_info, page.items)), next_page_token=page.next_token))


@routes.get(
    "/catalogs/{catalog}/namespaces/{namespace}/tables/{table}",
    operation="getTable",
    summary="Get a table.",
    answer=TableInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound),
    example=Example(path={"catalog": "sample", "namespace": "sales", "table": "orders"}, answer=EXAMPLE_TABLE),
)
async def get_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one table with its columns, its location and its newest version."""
    space = addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))
    chain = await browse.get(ports, call.caller, addresses.table(space, call.params["table"]))
    return Answer.json(table_info(chain[-1]))


@routes.get(
    "/tables/{table_id}",
    operation="getTableById",
    summary="Get a table by its id.",
    stage="public_preview",
    answer=LocatedTable,
    errors=(TableNotFound,),
    example=Example(
        path={"table_id": EXAMPLE_TABLE["id"]}, answer=EXAMPLE_TABLE | {"path": ["sample", "sales", "orders"]}
    ),
)
async def get_table_by_id(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one table with its current path of names, which a rename changes, while the id stays."""
    chain = await addresses.reach_by_id(ports, call.caller, call.params["table_id"], Privilege.BROWSE, kind=Kind.TABLE)
    return Answer.json(located_table(chain))
