"""Namespace routes, and the list of tables in a namespace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, namespace_of, nonroot_namespace_of
from moorage.api.lance.bodies import (
    EXAMPLE_SPACE,
    CreateNamespaceRequest,
    DescribeNamespaceRequest,
    DropNamespaceRequest,
    ListNamespacesResponse,
    ListTablesResponse,
    NamespaceExistsRequest,
    NamespaceProperties,
)
from moorage.api.lance.modes import IfMissing, IfNotEmpty, parse_mode
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, NotEmpty
from moorage.core.securables import Shelf
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog import browse
from moorage.usecases.catalog.paging import MAX_PAGE_SIZE, page_size
from moorage.usecases.lance import namespaces as lance_namespaces
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.lance.namespaces import IfNamespaceExists
from moorage.usecases.ports import Ports

routes = lance.section(tags=("namespaces",))

MISSING_NAMESPACE = (CatalogNotFound, NamespaceNotFound)


class Paging(Delimited, frozen=True, kw_only=True):
    """The page of a list."""

    page_token: Annotated[str | None, Meta(description="The token from the previous page.")] = None
    limit: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="The maximum number of items; 0 means the server's default.")
    ] = 0

    @property
    def size(self) -> int:
        return page_size(self.limit, default=MAX_PAGE_SIZE, field="limit")


class ListTablesQuery(Paging, frozen=True, kw_only=True):
    """Which tables to list, and the page of the list."""

    include_declared: Annotated[bool, Meta(description="Include tables that have no version yet.")] = True


@routes.post(
    "/v1/namespace/{id}/create",
    operation="CreateNamespace",
    summary="Create a namespace.",
    body=CreateNamespaceRequest,
    body_required=False,
    answer=NamespaceProperties,
    errors=(InvalidInput, NameTaken, *MISSING_NAMESPACE),
    example=Example(
        path={"id": "sample$models"},
        body={"mode": "ExistOk", "properties": {"owner": "ann"}},
        answer={"properties": {"owner": "ann"}},
    ),
)
async def create_namespace(call: Call[CreateNamespaceRequest, Delimited], ports: Ports) -> Answer:
    """Create a namespace. A namespace with a single name is a catalog."""
    body = call.body
    mode = parse_mode(body.mode, IfNamespaceExists.CREATE)
    address = nonroot_namespace_of(call, body.id)
    made = await lance_namespaces.create_namespace(ports, errand_of(call, ports), address, body.properties or {}, mode)
    return Answer.json(NamespaceProperties(properties=made.doc.properties))


@routes.post(
    "/v1/namespace/{id}/describe",
    operation="DescribeNamespace",
    summary="Describe a namespace.",
    body=DescribeNamespaceRequest,
    body_required=False,
    answer=NamespaceProperties,
    mutation=False,
    errors=(InvalidInput, *MISSING_NAMESPACE),
    example=Example(path=EXAMPLE_SPACE, body={}, answer={"properties": {}}),
)
async def describe_namespace(call: Call[DescribeNamespaceRequest, Delimited], ports: Ports) -> Answer:
    """Get the properties of a namespace. The root has none."""
    namespace = namespace_of(call, call.body.id)
    if namespace is None:
        await browse.page(ports, call.caller, None, Shelf.CATALOG, limit=1)
        return Answer.json(NamespaceProperties(properties={}))
    found = (await browse.get(ports, call.caller, namespace))[-1]
    return Answer.json(NamespaceProperties(properties=found.doc.properties))


@routes.post(
    "/v1/namespace/{id}/exists",
    operation="NamespaceExists",
    summary="Check whether a namespace exists.",
    body=NamespaceExistsRequest,
    body_required=False,
    mutation=False,
    errors=(InvalidInput, *MISSING_NAMESPACE),
    example=Example(path=EXAMPLE_SPACE, body={}),
)
async def namespace_exists(call: Call[NamespaceExistsRequest, Delimited], ports: Ports) -> Answer:
    """The response is empty if the namespace exists, and 404 if it does not."""
    namespace = namespace_of(call, call.body.id)
    if namespace is None:
        await browse.page(ports, call.caller, None, Shelf.CATALOG, limit=1)
    else:
        await browse.get(ports, call.caller, namespace)
    return Answer.empty(200)


@routes.post(
    "/v1/namespace/{id}/drop",
    operation="DropNamespace",
    summary="Drop a namespace.",
    body=DropNamespaceRequest,
    body_required=False,
    answer=NamespaceProperties,
    errors=(InvalidInput, NotEmpty, *MISSING_NAMESPACE),
    example=Example(
        path={"id": "sample$sales$eu"},
        body={"mode": "Skip", "behavior": "Cascade"},
        answer={"properties": {}},
    ),
)
async def drop_namespace(call: Call[DropNamespaceRequest, Delimited], ports: Ports) -> Answer:
    """Drop a namespace. Cascade also drops its contents."""
    body = call.body
    mode = parse_mode(body.mode, IfMissing.FAIL)
    behavior = parse_mode(body.behavior, IfNotEmpty.RESTRICT, "behavior")
    dropped = await lance_namespaces.drop_namespace(
        ports,
        errand_of(call, ports),
        nonroot_namespace_of(call, body.id),
        skip=mode is IfMissing.SKIP,
        cascade=behavior is IfNotEmpty.CASCADE,
    )
    return Answer.json(NamespaceProperties(properties=dropped.doc.properties if dropped else {}))


@routes.get(
    "/v1/namespace/{id}/list",
    operation="ListNamespaces",
    summary="List namespaces.",
    query=Paging,
    answer=ListNamespacesResponse,
    errors=(InvalidInput, *MISSING_NAMESPACE),
    example=Example(path=EXAMPLE_SPACE, query={"limit": 100}, answer={"namespaces": ["eu"]}),
)
async def list_namespaces(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the names of the namespaces directly inside another one. The root lists the catalogs."""
    namespace = namespace_of(call)
    shelf = Shelf.CATALOG if namespace is None else Shelf.NAMESPACE
    page = await browse.page(ports, call.caller, namespace, shelf, token=call.query.page_token, limit=call.query.size)
    names = [item.name for item in page.items]
    return Answer.json(ListNamespacesResponse(namespaces=names, page_token=page.next_token))


@routes.get(
    "/v1/namespace/{id}/table/list",
    operation="ListTables",
    summary="List tables.",
    tags=("tables",),
    query=ListTablesQuery,
    answer=ListTablesResponse,
    errors=(InvalidInput, *MISSING_NAMESPACE),
    example=Example(path=EXAMPLE_SPACE, query={"limit": 100}, answer={"tables": ["vectors"]}),
)
async def list_tables(call: Call[NoBody, ListTablesQuery], ports: Ports) -> Answer:
    """List the names of the Lance tables in a namespace."""
    names, token = await lance_tables.list_tables(
        ports,
        call.caller,
        namespace_of(call),
        token=call.query.page_token,
        limit=call.query.size,
        declared=call.query.include_declared,
    )
    return Answer.json(ListTablesResponse(tables=names, page_token=token))
