"""Tables: create, load, list, register, rename and drop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.iceberg.api import Paging, iceberg, keyed_errand, namespace_in, namespace_of, relation_of
from moorage.api.iceberg.bodies import (
    EXAMPLE_LOADED,
    EXAMPLE_METADATA,
    EXAMPLE_SCHEMA,
    EXAMPLE_SPACE,
    EXAMPLE_TABLE,
    CommitTableResponse,
    CreateTableRequest,
    ListTablesResponse,
    LoadCredentialsResponse,
    LoadTableResult,
    RegisterTableRequest,
    RenameTableRequest,
    TableIdentifier,
)
from moorage.api.iceberg.file_access import credentials_of, file_access
from moorage.api.iceberg.loaded import to_answer, to_answer_if_changed
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    PlaceTaken,
    TableNotFound,
    Unsupported,
    VersionNotFound,
)
from moorage.core.names import require_name
from moorage.core.securables import Kind
from moorage.http import NO_STORE, Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.iceberg import relations as iceberg_relations
from moorage.usecases.iceberg import tables as iceberg_tables
from moorage.usecases.iceberg.vend_credentials import vend_for_name
from moorage.usecases.ports import Ports

routes = iceberg.section(tags=("tables",))

MISSING = (CatalogNotFound, NamespaceNotFound, TableNotFound)


class LoadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots to include."""

    snapshots: Annotated[
        Literal["all", "refs"], Meta(description="All snapshots, or those that a branch or tag points to.")
    ] = "all"


class DropQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether to delete the files."""

    purge_requested: Annotated[bool, Meta(description="Delete the table's files when the hold ends.")] = False


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/tables",
    operation="listTables",
    summary="List tables.",
    query=Paging,
    answer=ListTablesResponse,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SPACE,
        answer={"identifiers": [{"namespace": ["sales"], "name": "shipments"}], "next-page-token": None},
    ),
)
async def list_tables(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the Iceberg tables of a namespace, and its Delta tables that have Iceberg metadata; those are read-only."""
    return await list_in_namespace(call, ports, Kind.TABLE)


async def list_in_namespace(call: Call[NoBody, Paging], ports: Ports, kind: Kind) -> Answer:
    found = await iceberg_relations.list_relations(
        ports,
        call.caller,
        namespace_of(call),
        kind=kind,
        token=call.query.page_token,
        limit=page_size(call.query.page_size, field="pageSize"),
    )
    levels = tuple(each.name for each in found.above[1:])
    items = tuple(TableIdentifier(namespace=levels, name=item.name) for item in found.items)
    return Answer.json(ListTablesResponse(identifiers=items, next_page_token=found.next_token))


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/tables",
    operation="createTable",
    summary="Create a table.",
    body=CreateTableRequest,
    answer=LoadTableResult,
    errors=(InvalidInput, NameTaken, PlaceTaken, KeyReused, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SPACE,
        body={"name": "parcels", "schema": EXAMPLE_SCHEMA, "properties": {"owner": "ann"}},
        answer={"metadata-location": None, "metadata": EXAMPLE_METADATA},
    ),
)
async def create_table(call: Call[CreateTableRequest, NoQuery], ports: Ports) -> Answer:
    """Create a table without rows. With `stage-create`, only return the metadata for its first commit."""
    body = call.body
    new = iceberg_tables.NewTable(
        address=Address(Kind.TABLE, (*namespace_of(call).path, require_name(body.name))),
        schema=body.schema,
        location=body.location,
        spec=body.partition_spec,
        order=body.write_order,
        properties=body.properties or {},
    )
    if body.stage_create:
        staged: dict[str, Any] = await iceberg_tables.stage_table(ports, keyed_errand(call, ports), new)
        access = await file_access(call, ports, body.name, staged["table-uuid"], staged["location"], is_new=True)
        return Answer.json({"metadata": staged, **access.fields()}, headers=access.headers)
    created = await iceberg_tables.create_table(ports, keyed_errand(call, ports), new)
    access = await file_access(call, ports, body.name, created.id, created.metadata.location, is_new=True)
    return to_answer(created, access)


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}",
    operation="loadTable",
    summary="Load a table.",
    query=LoadQuery,
    answer=LoadTableResult,
    errors=(InvalidInput, VersionNotFound, *MISSING),
    also={304: "The table has not changed since the ETag in If-None-Match."},
    example=Example(path=EXAMPLE_TABLE, query={"snapshots": "all"}, answer=EXAMPLE_LOADED),
)
async def load_table(call: Call[NoBody, LoadQuery], ports: Ports) -> Answer:
    """Load the metadata of a table, and the location of its metadata file."""
    loaded = await iceberg_relations.load(ports, call.caller, relation_of(call, Kind.TABLE))
    return to_answer_if_changed(
        loaded,
        call.header("if-none-match"),
        refs_only=call.query.snapshots == "refs",
        access=await file_access(call, ports, call.params["table"], loaded.id, loaded.metadata.location),
    )


@routes.head(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}",
    operation="tableExists",
    summary="Check whether a table exists.",
    status=204,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_TABLE),
)
async def table_exists(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return 204 if the table exists, 404 if it does not."""
    await iceberg_relations.require_relation(ports, call.caller, relation_of(call, Kind.TABLE))
    return Answer.empty()


@routes.delete(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}",
    operation="dropTable",
    summary="Drop a table.",
    query=DropQuery,
    status=204,
    errors=(InvalidInput, KeyReused, Unsupported, *MISSING),
    example=Example(path=EXAMPLE_TABLE, query={"purgeRequested": True}),
)
async def drop_table(call: Call[NoBody, DropQuery], ports: Ports) -> Answer:
    """Drop a table. Its files are deleted only if `purgeRequested` is true."""
    address, purge = relation_of(call, Kind.TABLE), call.query.purge_requested
    await iceberg_tables.drop_table(ports, keyed_errand(call, ports), address, purge=purge)
    return Answer.empty()


@routes.post(
    "/v1/{prefix}/tables/rename",
    operation="renameTable",
    summary="Rename a table.",
    body=RenameTableRequest,
    status=204,
    errors=(InvalidInput, NameTaken, KeyReused, Unsupported, *MISSING),
    example=Example(
        path={"prefix": "sample"},
        body={
            "source": {"namespace": ["sales"], "name": "shipments"},
            "destination": {"namespace": ["sales", "eu"], "name": "shipments"},
        },
    ),
)
async def rename_table(call: Call[RenameTableRequest, NoQuery], ports: Ports) -> Answer:
    """Rename a table, or move it to another namespace. No file moves."""
    return await rename(call, ports, Kind.TABLE)


async def rename(call: Call[RenameTableRequest, NoQuery], ports: Ports, kind: Kind) -> Answer:
    """Carry out a request to rename a table or a view."""
    source = relation_in(call, call.body.source, "source", kind)
    to = relation_in(call, call.body.destination, "destination", kind)
    await iceberg_relations.rename_relation(ports, keyed_errand(call, ports), source, to)
    return Answer.empty()


def relation_in(call: Call[Any, Any], named: TableIdentifier, field: str, kind: Kind = Kind.TABLE) -> Address:
    """The address of the table or view that a body names."""
    space = namespace_in(call, named.namespace, f"{field}.namespace")
    return Address(kind, (*space.path, require_name(named.name, f"{field}.name")))


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/register",
    operation="registerTable",
    summary="Register a table by its metadata file.",
    body=RegisterTableRequest,
    answer=LoadTableResult,
    errors=(InvalidInput, NameTaken, PlaceTaken, KeyReused, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SPACE,
        body={"name": "shipments", "metadata-location": EXAMPLE_LOADED["metadata-location"]},
        answer=EXAMPLE_LOADED,
    ),
)
async def register_table(call: Call[RegisterTableRequest, NoQuery], ports: Ports) -> Answer:
    """Register a table whose files exist already. Dropping it does not delete them."""
    body = call.body
    address = Address(Kind.TABLE, (*namespace_of(call).path, require_name(body.name)))
    registered = await iceberg_tables.register_table(
        ports, keyed_errand(call, ports), address, body.metadata_location, overwrite=bool(body.overwrite)
    )
    access = await file_access(call, ports, body.name, registered.id, registered.metadata.location, is_new=True)
    return to_answer(registered, access)


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    operation="loadCredentials",
    summary="Load credentials for a table.",
    answer=LoadCredentialsResponse,
    errors=(InvalidInput, Unsupported, *MISSING),
    example=Example(path=EXAMPLE_TABLE, answer={"storage-credentials": []}),
)
async def load_credentials(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Load credentials for a table's files: they write only if the caller may. Files on local disk need none.

    The caller that staged a table gets credentials for its files before the table exists.
    """
    vended = await vend_for_name(ports, call.caller, relation_of(call, Kind.TABLE))
    found = () if vended is None else credentials_of(vended)
    return Answer.json(LoadCredentialsResponse(storage_credentials=found), headers=(NO_STORE,))


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    operation="unregisterTable",
    summary="Unregister a table without deleting its files.",
    answer=CommitTableResponse,
    errors=(InvalidInput, KeyReused, Unsupported, *MISSING),
    example=Example(path=EXAMPLE_TABLE, answer=EXAMPLE_LOADED),
)
async def unregister_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Remove a table from this catalog. Another catalog can register it by the metadata file in the response."""
    address = relation_of(call, Kind.TABLE)
    return to_answer(await iceberg_tables.unregister_table(ports, keyed_errand(call, ports), address))
