"""Routes that declare, describe, drop and deregister tables."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, new_table_of, table_of
from moorage.api.lance.bodies import (
    EXAMPLE_LOCATION,
    EXAMPLE_NEW_TABLE,
    EXAMPLE_TABLE,
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    DescribeTableRequest,
    DescribeTableResponse,
    DropTableRequest,
    TableBasicStats,
    TableExistsRequest,
    TableGone,
)
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    NameTaken,
    PlaceTaken,
    SecurableNotFound,
    TableNotFound,
    Unavailable,
    VersionNotFound,
)
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Securable
from moorage.formats.lance.manifests import require_branch
from moorage.formats.lance.statistics import TableContents
from moorage.http import NO_STORE, Answer, Call, Example
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance import description as lance_description
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.lance.lookup import client_location, find_table
from moorage.usecases.lance.storage_options import new_storage_options, storage_options
from moorage.usecases.lance.versions import describe_version
from moorage.usecases.ports import Ports

routes = lance.section(tags=("tables",))

MISSING_TABLE = (CatalogNotFound, NamespaceNotFound, TableNotFound)


class DescribeTableQuery(Delimited, frozen=True, kw_only=True):
    """How much to return. The body has the same options."""

    with_table_uri: Annotated[bool | None, Meta(description="Include the location as a URI.")] = None
    load_detailed_metadata: Annotated[
        bool | None, Meta(description="Include the schema, statistics and metadata, which are read from the files.")
    ] = None
    check_declared: Annotated[bool | None, Meta(description="Include whether the table has no version yet.")] = None


@routes.post(
    "/v1/table/{id}/declare",
    operation="DeclareTable",
    summary="Declare a table.",
    body=DeclareTableRequest,
    body_required=False,
    answer=DeclareTableResponse,
    errors=(InvalidInput, NameTaken, PlaceTaken, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_NEW_TABLE,
        body={"properties": {"owner": "ann"}},
        answer={"location": EXAMPLE_LOCATION, "properties": {"owner": "ann"}, "managed_versioning": True},
    ),
)
async def declare_table(call: Call[DeclareTableRequest, Delimited], ports: Ports) -> Answer:
    """Create a table with a location and without a version. The storage options open its files."""
    body = call.body
    address = new_table_of(call, body.id)
    made = await lance_tables.declare_table(
        ports, errand_of(call, ports), address, location=body.location, properties=body.properties or {}
    )
    options = await new_storage_options(ports, made.locations, vend=body.vend_credentials)
    return Answer.json(declare_response(made, options), headers=(NO_STORE,))


def declare_response(table: Securable, options: dict[str, str] | None = None) -> DeclareTableResponse:
    return DeclareTableResponse(
        location=client_location(table),
        storage_options=options,
        properties=table.doc.properties,
        managed_versioning=True,
    )


@routes.post(
    "/v1/table/{id}/describe",
    operation="DescribeTable",
    summary="Describe a table.",
    query=DescribeTableQuery,
    body=DescribeTableRequest,
    body_required=False,
    answer=DescribeTableResponse,
    mutation=False,
    errors=(InvalidInput, SecurableNotFound, VersionNotFound, Unavailable, *MISSING_TABLE),
    example=Example(
        path={"id": "sample$sales$documents"},
        query={"check_declared": True},
        body={},
        answer={
            "table": "documents",
            "namespace": ["sample", "sales"],
            "version": 1,
            "location": EXAMPLE_LOCATION,
            "table_uri": EXAMPLE_LOCATION,
            "properties": {},
            "managed_versioning": True,
            "is_only_declared": False,
        },
    ),
)
async def describe_table(call: Call[DescribeTableRequest, DescribeTableQuery], ports: Ports) -> Answer:
    """Get a table's location and version, and a key for its files. The catalog manages its versions."""
    body, query = call.body, call.query
    found = await lance_description.describe_table(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        ref=require_branch(body.branch),
        version=body.version,
        tag=body.tag,
        detailed=bool(query.load_detailed_metadata or body.load_detailed_metadata),
    )
    table, contents = found.chain[-1], found.contents
    options = await storage_options(ports, call.caller, found.chain, vend=body.vend_credentials)
    return Answer.json(
        DescribeTableResponse(
            table=table.name,
            namespace=[part.name for part in found.chain[:-1]],
            version=found.version,
            location=client_location(table),
            table_uri=client_location(table),
            schema=None if contents is None else contents.schema,
            stats=None if contents is None else _stats(contents),
            metadata=None if contents is None else contents.metadata,
            properties=table.doc.properties,
            storage_options=options,
            managed_versioning=True,
            is_only_declared=table.head is None if query.check_declared or body.check_declared else None,
        ),
        headers=(NO_STORE,) if options else (),
    )


def _stats(contents: TableContents) -> TableBasicStats:
    return TableBasicStats(num_deleted_rows=contents.num_deleted_rows, num_fragments=contents.num_fragments)


@routes.post(
    "/v1/table/{id}/exists",
    operation="TableExists",
    summary="Check whether a table exists.",
    body=TableExistsRequest,
    body_required=False,
    mutation=False,
    errors=(InvalidInput, VersionNotFound, *MISSING_TABLE),
    example=Example(path=EXAMPLE_TABLE, body={}),
)
async def table_exists(call: Call[TableExistsRequest, Delimited], ports: Ports) -> Answer:
    """The response is empty if the table exists and has the requested version, and 404 otherwise."""
    address = table_of(call, call.body.id)
    if call.body.version is None:
        await find_table(ports, call.caller, address, Privilege.BROWSE)
    else:
        await describe_version(ports, call.caller, address, MAIN, call.body.version)
    return Answer.empty(200)


@routes.post(
    "/v1/table/{id}/drop",
    operation="DropTable",
    summary="Drop a table.",
    body=DropTableRequest,
    body_required=False,
    answer=TableGone,
    errors=(InvalidInput, *MISSING_TABLE),
    example=Example(
        path=EXAMPLE_TABLE,
        body={},
        answer={"id": ["sample", "sales", "vectors"], "location": EXAMPLE_LOCATION, "properties": {}},
    ),
)
async def drop_table(call: Call[DropTableRequest, Delimited], ports: Ports) -> Answer:
    """Drop a table. Its name is free immediately. Files in the catalog's own storage are deleted after the hold."""
    address = table_of(call, call.body.id)
    dropped = await lance_tables.drop_table(ports, errand_of(call, ports), address)
    return Answer.json(dropped_response(address, dropped))


@routes.post(
    "/v1/table/{id}/deregister",
    operation="DeregisterTable",
    summary="Deregister a table and keep its files.",
    body=DeregisterTableRequest,
    body_required=False,
    answer=TableGone,
    errors=(InvalidInput, *MISSING_TABLE),
    example=Example(
        path=EXAMPLE_TABLE,
        body={},
        answer={"id": ["sample", "sales", "vectors"], "location": EXAMPLE_LOCATION, "properties": {}},
    ),
)
async def deregister_table(call: Call[DeregisterTableRequest, Delimited], ports: Ports) -> Answer:
    """Remove a table from the catalog. Its name is free immediately. Its files stay and can be registered again."""
    address = table_of(call, call.body.id)
    dropped = await lance_tables.drop_table(ports, errand_of(call, ports), address, keep_files=True)
    return Answer.json(dropped_response(address, dropped))


def dropped_response(address: Address, table: Securable) -> TableGone:
    return TableGone(id=list(address.path), location=client_location(table), properties=table.doc.properties)
