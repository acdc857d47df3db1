"""Namespaces."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.iceberg.api import (
    LEVEL_SEPARATOR,
    WIRE,
    Paging,
    error_body,
    iceberg,
    keyed_errand,
    namespace_in,
    namespace_of,
    parse_levels,
)
from moorage.api.iceberg.bodies import (
    EXAMPLE_SPACE,
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    ListNamespacesResponse,
    UpdateNamespacePropertiesRequest,
    UpdateNamespacePropertiesResponse,
)
from moorage.core.errors import CatalogNotFound, InvalidInput, KeyReused, NamespaceNotFound, NameTaken, NotEmpty
from moorage.core.securables import Doc, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.answers import JSON
from moorage.usecases.catalog import browse, objects, roots
from moorage.usecases.catalog.addresses import Address, catalog
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.iceberg import namespaces
from moorage.usecases.iceberg.namespaces import COMMENT, LOCATION, namespace_properties
from moorage.usecases.ports import Ports

routes = iceberg.section(tags=("namespaces",))

MISSING = (CatalogNotFound, NamespaceNotFound)


class ListQuery(Paging, frozen=True, kw_only=True, rename="camel"):
    """The parent of the namespaces to list, and the page."""

    parent: Annotated[str | None, Meta(description="The namespace to list; its levels are joined by U+001F (%1F).")] = (
        None
    )


@routes.get(
    "/v1/{prefix}/namespaces",
    operation="listNamespaces",
    summary="List namespaces.",
    query=ListQuery,
    answer=ListNamespacesResponse,
    errors=(InvalidInput, *MISSING),
    example=Example(
        path={"prefix": "sample"},
        query={"parent": "sales", "pageSize": 100},
        answer={"namespaces": [["sales", "eu"]], "next-page-token": None},
    ),
)
async def list_namespaces(call: Call[NoBody, ListQuery], ports: Ports) -> Answer:
    """List the namespaces of a catalog, or those directly inside another namespace."""
    above: tuple[str, ...] = ()
    address: Address = catalog(call.params["prefix"], field="prefix")
    if call.query.parent:
        above = parse_levels(call.query.parent, "parent")
        address = namespace_in(call, above, "parent")
    token, limit = call.query.page_token, page_size(call.query.page_size, field="pageSize")
    found: list[tuple[str, ...]] = []
    async for page in browse.pages(ports, call.caller, address, Shelf.NAMESPACE, token=token, limit=limit):
        spelled = tuple(each.name for each in page.above[1:]) or above
        found += [(*spelled, item.name) for item in page.items]
    return Answer.json(ListNamespacesResponse(namespaces=tuple(found), next_page_token=page.next_token))


@routes.post(
    "/v1/{prefix}/namespaces",
    operation="createNamespace",
    summary="Create a namespace.",
    body=CreateNamespaceRequest,
    answer=CreateNamespaceResponse,
    errors=(InvalidInput, NameTaken, KeyReused, *MISSING),
    example=Example(
        path={"prefix": "sample"},
        body={"namespace": ["sales", "us"], "properties": {"owner": "ann"}},
        answer={"namespace": ["sales", "us"], "properties": {"owner": "ann"}},
    ),
)
async def create_namespace(call: Call[CreateNamespaceRequest, NoQuery], ports: Ports) -> Answer:
    """Create a namespace with properties. If its `location` is in the object store, new tables are created there."""
    body = call.body
    address = namespace_in(call, body.namespace)
    properties = body.properties or {}
    doc = Doc(comment=properties.get(COMMENT), properties=properties)
    root = await roots.requested_root(ports.stores, properties.get(LOCATION))
    made = await roots.create_rooted(ports, keyed_errand(call, ports), address, doc, root, field="namespace")
    return Answer.json(CreateNamespaceResponse(namespace=body.namespace, properties=namespace_properties(made.doc)))


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}",
    operation="loadNamespaceMetadata",
    summary="Load a namespace.",
    answer=CreateNamespaceResponse,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_SPACE, answer={"namespace": ["sales"], "properties": {}}),
)
async def load_namespace(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Load a namespace and its properties."""
    chain = await browse.get(ports, call.caller, namespace_of(call))
    levels = tuple(each.name for each in chain[1:])
    return Answer.json(CreateNamespaceResponse(namespace=levels, properties=namespace_properties(chain[-1].doc)))


@routes.head(
    "/v1/{prefix}/namespaces/{namespace}",
    operation="namespaceExists",
    summary="Check whether a namespace exists.",
    status=204,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_SPACE),
)
async def namespace_exists(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return 204 if the namespace exists, 404 if it does not."""
    await browse.get(ports, call.caller, namespace_of(call))
    return Answer.empty()


@routes.delete(
    "/v1/{prefix}/namespaces/{namespace}",
    operation="dropNamespace",
    summary="Drop a namespace.",
    status=204,
    errors=(InvalidInput, NotEmpty, KeyReused, *MISSING),
    example=Example(path={"prefix": "sample", "namespace": f"sales{LEVEL_SEPARATOR}eu"}),
)
async def drop_namespace(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Drop a namespace. It must be empty."""
    address = namespace_of(call)
    await objects.drop(ports, keyed_errand(call, ports), address)
    return Answer.empty()


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/properties",
    operation="updateProperties",
    summary="Set and remove properties of a namespace.",
    body=UpdateNamespacePropertiesRequest,
    answer=UpdateNamespacePropertiesResponse,
    errors=(InvalidInput, KeyReused, *MISSING),
    example=Example(
        path=EXAMPLE_SPACE,
        body={"removals": ["department"], "updates": {"owner": "ann"}},
        answer={"updated": ["owner"], "removed": [], "missing": ["department"]},
    ),
)
async def update_properties(call: Call[UpdateNamespacePropertiesRequest, NoQuery], ports: Ports) -> Answer:
    """Set and remove properties. Properties to remove that do not exist are reported as missing, and are no error."""
    removals, updates = tuple(dict.fromkeys(call.body.removals or ())), call.body.updates or {}
    if both := updates.keys() & set(removals):
        wire = WIRE[KeyReused]
        return Answer(wire.status, error_body(wire, f"Cannot remove and update the same key: {min(both)}"), (JSON,))
    missing = await namespaces.update_properties(
        ports, keyed_errand(call, ports), namespace_of(call), removals=removals, updates=updates
    )
    removed = tuple(name for name in removals if name not in missing)
    return Answer.json(UpdateNamespacePropertiesResponse(updated=tuple(updates), removed=removed, missing=missing))
