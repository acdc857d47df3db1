"""Tables and views."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta
from msgspec.structs import replace

from moorage.api.errands import errand_of
from moorage.api.unity.api import name_taken_answer, unity
from moorage.api.unity.clients import Client, client_of
from moorage.api.unity.columns import from_wire
from moorage.api.unity.managed import create_managed
from moorage.api.unity.names import address_of, new_address, require_new_name
from moorage.api.unity.objects import answer_with_info, page_of_schema
from moorage.api.unity.policies import require_no_policies
from moorage.api.unity.shapes import NOTHING, Nothing, SchemaPaging, only_addressable
from moorage.api.unity.table_bodies import CreateTable, DependencyList, ListTablesResponse, TableInfo, UpdateTable
from moorage.api.unity.table_info import (
    EXAMPLE_TABLE,
    TABLE_TYPE,
    VIEW_DEFINITION,
    VIEW_DEPENDENCIES,
    encoded_tables,
    table_info,
    table_type_of,
)
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    NameTaken,
    PlaceTaken,
    SecurableNotFound,
    TableNotFound,
    Unsupported,
)
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Kind, Securable, Shelf, TableDoc
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.answers import JSON, Header
from moorage.usecases.catalog import relations
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.relations import (
    RETENTION_DAYS,
    get_relation,
)
from moorage.usecases.delta.external import RegisteredTable, create_external_table
from moorage.usecases.ports import Ports

routes = unity.section(tags=("tables",))
log = logging.getLogger(__name__)


class TablePaging(SchemaPaging, frozen=True, kw_only=True):
    """The schema, the page of its tables, and the fields to leave out."""

    omit_columns: Annotated[bool, Meta(description="Leave the columns out.")] = False
    omit_properties: Annotated[bool, Meta(description="Leave the properties out.")] = False


_NEW_TABLE = {
    "name": "orders",
    "catalog_name": "sample",
    "schema_name": "sales",
    "table_type": "EXTERNAL",
    "data_source_format": "DELTA",
    "columns": [{"name": "id", "type_text": "bigint", "nullable": False}],
    "storage_location": "file:///data/orders",
}
_ORDERS = {"full_name": "sample.sales.orders"}
_MISSING = (CatalogNotFound, NamespaceNotFound, TableNotFound)


@routes.post(
    "/tables",
    operation="createTable",
    summary="Create a table or view.",
    body=CreateTable,
    answer=TableInfo,
    errors=(InvalidInput, NameTaken, PlaceTaken, Unsupported, SecurableNotFound, *_MISSING),
    other_statuses={409: NameTaken},
    example=Example(body=_NEW_TABLE, answer=EXAMPLE_TABLE),
)
async def create_table(call: Call[CreateTable, NoQuery], ports: Ports) -> Answer:
    """Register an external table at its location, create a managed table from its staging table, or create a view.

    A taken name is a 400 for a managed table, as the specification requires, and a 409 for the others.
    """
    require_no_policies(call.raw_body)
    if call.body.table_type == "MANAGED":
        return await create_managed(call, ports)
    # The client sent the format, so it can decode it.
    client = replace(client_of(call.header("user-agent")), formats=None)
    try:
        if call.body.table_type != "EXTERNAL":
            return await answer_with_info(ports, await _create_view(call, ports), table_info, client)
        registered = await _create_external(call, ports)
    except NameTaken as error:
        return name_taken_answer(error, call.request_id)
    answer = await answer_with_info(ports, registered.table, table_info, client)
    if registered.is_readable:
        return answer
    return replace(answer, headers=(*answer.headers, _warning(registered.table)))


def _warning(created: Securable) -> Header:
    """Log and return a warning about an external Delta table whose columns the server could not read.

    It is no error: Spark registers a table without columns and reads them from the log itself.
    """
    log.warning(
        "table '%s' has no columns: the server cannot read %s. %s",
        created.name,
        created.doc.location,
        _NO_COLUMNS,
        extra={"fields": {"table": created.id}},
    )
    text = f"the table has no columns: the server cannot read its location. {_NO_COLUMNS}"
    return b"warning", f'299 moorage "{text}"'.encode()


_NO_COLUMNS = "State the columns, or start the server with --external-folder or --s3-locations for this location."


async def _create_external(call: Call[CreateTable, NoQuery], ports: Ports) -> RegisteredTable:
    body = call.body
    if body.data_source_format is None:
        raise InvalidInput("data_source_format is required for an external table", field="data_source_format")
    if not body.storage_location:
        raise InvalidInput("storage_location is required for an external table", field="storage_location")
    address = new_address(Kind.TABLE, body.catalog_name, body.schema_name, body.name)
    table = TableDoc(format=body.data_source_format.lower(), managed=False, columns=from_wire(body.columns))
    doc = replace(_doc(body), table=table)
    return await create_external_table(ports, errand_of(call, ports), address, doc, body.storage_location)


async def _create_view(call: Call[CreateTable, NoQuery], ports: Ports) -> Securable:
    body = call.body
    if not body.view_definition:
        raise InvalidInput("view_definition is required for a view", field="view_definition")
    if body.storage_location:
        raise InvalidInput("storage_location is not allowed for a view, which has no files", field="storage_location")
    depends_on = _dependencies(body.view_dependencies)
    if body.table_type == "METRIC_VIEW" and not depends_on:
        raise InvalidInput(
            "view_dependencies must name at least one dependency of a metric view", field="view_dependencies"
        )
    doc = _doc(body)
    details = {
        **doc.details,
        TABLE_TYPE: body.table_type,
        VIEW_DEFINITION: body.view_definition,
        VIEW_DEPENDENCIES: msgspec.to_builtins(body.view_dependencies or DependencyList(dependencies=[])),
    }
    # A view has columns like a table, but no format and no files.
    table = TableDoc(format="view", managed=False, columns=from_wire(body.columns))
    address = new_address(Kind.VIEW, body.catalog_name, body.schema_name, body.name)
    doc = replace(doc, table=table, details=details)
    return await relations.create_view(ports, errand_of(call, ports), address, doc, depends_on)


def _doc(body: CreateTable) -> Doc:
    details = {} if body.retention_days is None else {RETENTION_DAYS: body.retention_days}
    return Doc(comment=body.comment, properties=body.properties or {}, details=details)


def _dependencies(given: DependencyList | None) -> tuple[Address, ...]:
    found = []
    for index, each in enumerate((given and given.dependencies) or ()):
        field = f"view_dependencies.dependencies[{index}]"
        match each.table, each.function:
            case table, None if table is not None:
                found.append(address_of(Kind.TABLE, table.table_full_name, field=field))
            case None, function if function is not None:
                found.append(address_of(Kind.FUNCTION, function.function_full_name, field=field))
            case _:
                raise InvalidInput(f"{field} must name either a table or a function", field=field)
    return tuple(found)


@routes.get(
    "/tables",
    operation="listTables",
    summary="List tables and views.",
    query=TablePaging,
    answer=ListTablesResponse,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        query={"catalog_name": "sample", "schema_name": "sales"},
        answer={"tables": [EXAMPLE_TABLE], "next_page_token": None},
    ),
)
async def list_tables(call: Call[NoBody, TablePaging], ports: Ports) -> Answer:
    """List the tables and views of a schema, of any format, ordered by name.

    Unity's connector for Spark gets no tables of formats that it cannot read, and clients that are older than Unity's
    views get no views.
    """
    query = call.query
    page = await page_of_schema(ports, call.caller, call.query, Shelf.RELATION)
    catalog_name, schema_name = (part.name for part in page.above)
    client = client_of(call.header("user-agent"))
    items = only_addressable(page.items)
    if not client.sees_all:
        items = [item for item in items if client.can_decode(table_type_of(item)) and _can_read(client, item)]
    if not (query.omit_columns or query.omit_properties):
        encoded = encoded_tables(items, catalog_name, schema_name, client)
        return Answer.json({"tables": encoded, "next_page_token": page.next_token})
    tables = [
        table_info(
            item,
            catalog_name,
            schema_name,
            client,
            with_columns=not query.omit_columns,
            with_properties=not query.omit_properties,
        )
        for item in items
    ]
    return Answer.json(ListTablesResponse(tables=tables, next_page_token=page.next_token))


@routes.get(
    "/tables/{full_name}",
    operation="getTable",
    summary="Get a table or view.",
    answer=TableInfo,
    errors=(InvalidInput, Unsupported, *_MISSING),
    example=Example(path=_ORDERS, answer=EXAMPLE_TABLE),
)
async def get_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one table or view with its columns."""
    address = address_of(Kind.TABLE, call.params["full_name"])
    catalog, schema, table = await get_relation(ports, call.caller, address, since=call.caller.seq)
    client = client_of(call.header("user-agent"))
    if not _can_read(client, table):
        name = table.doc.table.format.capitalize() if table.doc.table is not None else ""
        raise Unsupported(
            f"'{address}' is a table in the format {name}, which Unity's connector for Spark cannot read. Add a "
            f"catalog of {name}'s own connector to the Spark session; Moorage's documentation for Delta clients "
            "has the settings."
        )
    return Answer(200, bytes(encoded_tables((table,), catalog.name, schema.name, client)[0]), (JSON,))


def _can_read(client: Client, relation: Securable) -> bool:
    table = relation.doc.table
    return relation.kind is not Kind.TABLE or table is None or client.can_read(table.format.upper())


@routes.patch(
    "/tables/{full_name}",
    operation="updateTable",
    summary="Update a table or view.",
    stage="public_preview",
    body=UpdateTable,
    answer=TableInfo,
    errors=(InvalidInput, NameTaken, Unsupported, *_MISSING),
    example=Example(path=_ORDERS, body={"retention_days": 30}, answer=EXAMPLE_TABLE | {"retention_days": 30}),
)
async def update_table(call: Call[UpdateTable, NoQuery], ports: Ports) -> Answer:
    """Change the comment, owner, name or retention, and the properties of a table without a log."""
    require_no_policies(call.raw_body)
    body = call.body
    address = address_of(Kind.TABLE, call.params["full_name"])
    revision = Revision(
        comment=body.comment,
        owner=body.owner,
        properties=body.properties or None,
        new_name=require_new_name(body.new_name),
        details={} if body.retention_days is UNSET else {RETENTION_DAYS: body.retention_days},
    )
    revised = await relations.revise_table(ports, errand_of(call, ports), address, revision)
    return await answer_with_info(ports, revised, table_info, client_of(call.header("user-agent")))


@routes.delete(
    "/tables/{full_name}",
    operation="deleteTable",
    summary="Delete a table or view.",
    answer=Nothing,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_ORDERS, answer={}),
)
async def delete_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a table or view. The files of a managed table are deleted later, those of an external table stay."""
    address = address_of(Kind.TABLE, call.params["full_name"])
    await relations.drop_table(ports, errand_of(call, ports), address)
    return Answer.json(NOTHING)
