"""Tables: declared, described and let go."""

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
    VersionNotFound,
)
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Securable
from moorage.formats.lance.manifests import require_branch
from moorage.formats.lance.statistics import TableContents
from moorage.http import Answer, Call, Example
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance import description as lance_description
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.lance.lookup import find_table, location_of
from moorage.usecases.lance.versions import describe_version
from moorage.usecases.ports import Ports

routes = lance.section(tags=("tables",))

MISSING = (CatalogNotFound, NamespaceNotFound, TableNotFound)


class DescribeTableQuery(Delimited, frozen=True, kw_only=True):
    """How much is wanted; the body may say the same."""

    with_table_uri: Annotated[bool | None, Meta(description="Also the location as a URI.")] = None
    load_detailed_metadata: Annotated[bool | None, Meta(description="Also what only the files tell.")] = None
    check_declared: Annotated[bool | None, Meta(description="Also whether the table has no version yet.")] = None


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
    """A name and a place for a table whose first version is still to come. Files on local disk need no credentials."""
    body = call.body
    address = new_table_of(call, body.id)
    made = await lance_tables.declare_table(
        ports, errand_of(call, ports), address, location=body.location, properties=body.properties or {}
    )
    return Answer.json(declared(made))


def declared(table: Securable) -> DeclareTableResponse:
    return DeclareTableResponse(location=location_of(table), properties=table.doc.properties, managed_versioning=True)


@routes.post(
    "/v1/table/{id}/describe",
    operation="DescribeTable",
    summary="Describe a table.",
    query=DescribeTableQuery,
    body=DescribeTableRequest,
    body_required=False,
    answer=DescribeTableResponse,
    mutation=False,
    errors=(InvalidInput, SecurableNotFound, VersionNotFound, *MISSING),
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
    """Where a table's files lie, and that its versions are the catalog's."""
    body, query = call.body, call.query
    found = await lance_description.describe(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        ref=require_branch(body.branch),
        version=body.version,
        tag=body.tag,
        detailed=bool(query.load_detailed_metadata or body.load_detailed_metadata),
    )
    table, contents = found.chain[-1], found.contents
    return Answer.json(
        DescribeTableResponse(
            table=table.name,
            namespace=[part.name for part in found.chain[:-1]],
            version=found.version,
            location=location_of(table),
            table_uri=location_of(table),
            schema=None if contents is None else contents.schema,
            stats=None if contents is None else _stats(contents),
            metadata=None if contents is None else contents.metadata,
            properties=table.doc.properties,
            managed_versioning=True,
            is_only_declared=table.head is None if query.check_declared or body.check_declared else None,
        )
    )


def _stats(contents: TableContents) -> TableBasicStats:
    return TableBasicStats(num_deleted_rows=contents.num_deleted_rows, num_fragments=contents.num_fragments)


@routes.post(
    "/v1/table/{id}/exists",
    operation="TableExists",
    summary="Ask whether a table exists.",
    body=TableExistsRequest,
    body_required=False,
    mutation=False,
    errors=(InvalidInput, VersionNotFound, *MISSING),
    example=Example(path=EXAMPLE_TABLE, body={}),
)
async def table_exists(call: Call[TableExistsRequest, Delimited], ports: Ports) -> Answer:
    """An empty answer if it does, with the version that is asked for, and 404 if it does not."""
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
    errors=(InvalidInput, *MISSING),
    example=Example(
        path=EXAMPLE_TABLE,
        body={},
        answer={"id": ["sample", "sales", "vectors"], "location": EXAMPLE_LOCATION, "properties": {}},
    ),
)
async def drop_table(call: Call[DropTableRequest, Delimited], ports: Ports) -> Answer:
    """The name is free at once. Files that lie in the catalog's own storage go when the hold has ended."""
    address = table_of(call, call.body.id)
    gone = await lance_tables.drop_table(ports, errand_of(call, ports), address)
    return Answer.json(table_gone(address, gone))


@routes.post(
    "/v1/table/{id}/deregister",
    operation="DeregisterTable",
    summary="Let a table go and keep its files.",
    body=DeregisterTableRequest,
    body_required=False,
    answer=TableGone,
    errors=(InvalidInput, *MISSING),
    example=Example(
        path=EXAMPLE_TABLE,
        body={},
        answer={"id": ["sample", "sales", "vectors"], "location": EXAMPLE_LOCATION, "properties": {}},
    ),
)
async def deregister_table(call: Call[DeregisterTableRequest, Delimited], ports: Ports) -> Answer:
    """The name is free at once, and the files stay: they can be registered again, here or elsewhere."""
    address = table_of(call, call.body.id)
    gone = await lance_tables.drop_table(ports, errand_of(call, ports), address, keep_files=True)
    return Answer.json(table_gone(address, gone))


def table_gone(address: Address, table: Securable) -> TableGone:
    return TableGone(id=list(address.path), location=location_of(table), properties=table.doc.properties)
