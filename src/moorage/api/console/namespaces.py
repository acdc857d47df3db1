"""Namespaces, to any depth."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

from msgspec import Meta

from moorage.api.console.api import Paging, console, levels
from moorage.api.console.bodies import (
    EXAMPLE_NAMESPACE,
    CreateNamespace,
    Describe,
    NewName,
    ObjectInfo,
    ObjectList,
    object_info,
)
from moorage.api.console.catalogs import DropQuery, describe, drop, rename
from moorage.api.errands import errand_of
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    NotEmpty,
    RevisionMoved,
)
from moorage.core.securables import Doc, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import addresses, browse, objects
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports

routes = console.section(tags=("namespaces",))

_EU = {"catalog": "sample", "namespace": "sales\x1feu"}


class NamespacePaging(Paging, frozen=True, kw_only=True):
    """Which namespaces to list, and which page of them."""

    parent: Annotated[
        str, Meta(description="The parent namespace, levels joined by %1F; empty for the catalog itself.")
    ] = ""


def _address(call: Call[Any, Any]) -> addresses.Address:
    return addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))


@routes.post(
    "/catalogs/{catalog}/namespaces",
    operation="createNamespace",
    summary="Create a namespace.",
    body=CreateNamespace,
    answer=ObjectInfo,
    status=201,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken, KeyReused),
    example=Example(path={"catalog": "sample"}, body={"path": ["sales", "eu"]}, answer=EXAMPLE_NAMESPACE),
)
async def create_namespace(call: Call[CreateNamespace, NoQuery], ports: Ports) -> Answer:
    """Create a namespace in a catalog or in another namespace, which must exist."""
    address = addresses.namespace(call.params["catalog"], *call.body.path, field="path")
    doc = Doc(comment=call.body.comment, properties=call.body.properties)
    made = await objects.create(ports, errand_of(call, ports), address, doc, field="path")
    return Answer.json(object_info(made), 201)


@routes.get(
    "/catalogs/{catalog}/namespaces",
    operation="listNamespaces",
    summary="List namespaces.",
    query=NamespacePaging,
    answer=ObjectList,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path={"catalog": "sample"},
        query={"parent": "sales"},
        answer={"items": [EXAMPLE_NAMESPACE], "next_page_token": None},
    ),
)
async def list_namespaces(call: Call[NoBody, NamespacePaging], ports: Ports) -> Answer:
    """List the namespaces directly in a catalog or in another namespace, in the order of their names."""
    catalog, parent = call.params["catalog"], call.query.parent
    page = await browse.page(
        ports,
        call.caller,
        addresses.namespace(catalog, *levels(parent, "parent"), field="parent")
        if parent
        else addresses.catalog(catalog),
        Shelf.NAMESPACE,
        token=call.query.page_token,
        limit=page_size(call.query.max_results),
    )
    return Answer.json(ObjectList(items=tuple(map(object_info, page.items)), next_page_token=page.next_token))


@routes.get(
    "/catalogs/{catalog}/namespaces/{namespace}",
    operation="getNamespace",
    summary="Get a namespace.",
    answer=ObjectInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(path=_EU, answer=EXAMPLE_NAMESPACE),
)
async def get_namespace(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one namespace with its description."""
    chain = await browse.get(ports, call.caller, _address(call))
    return Answer.json(object_info(chain[-1]))


@routes.patch(
    "/catalogs/{catalog}/namespaces/{namespace}",
    operation="updateNamespace",
    summary="Update a namespace.",
    body=Describe,
    answer=ObjectInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, RevisionMoved, KeyReused),
    example=Example(path=_EU, body={"comment": "Orders from Europe."}, answer=EXAMPLE_NAMESPACE),
)
def update_namespace(call: Call[Describe, NoQuery], ports: Ports) -> Awaitable[Answer]:
    """Change the comment, the owner or some properties. Absent fields stay as they are."""
    return describe(call, ports, _address(call))


@routes.post(
    "/catalogs/{catalog}/namespaces/{namespace}:rename",
    operation="renameNamespace",
    summary="Rename a namespace.",
    body=NewName,
    answer=ObjectInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken, KeyReused),
    example=Example(path=_EU, body={"new_name": "europe"}, answer=EXAMPLE_NAMESPACE | {"name": "europe"}),
)
def rename_namespace(call: Call[NewName, NoQuery], ports: Ports) -> Awaitable[Answer]:
    """Give a namespace another name within its parent. No file moves."""
    return rename(call, ports, _address(call))


@routes.delete(
    "/catalogs/{catalog}/namespaces/{namespace}",
    operation="dropNamespace",
    summary="Drop a namespace.",
    query=DropQuery,
    answer=ObjectInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NotEmpty, KeyReused),
    example=Example(
        path=_EU, answer=EXAMPLE_NAMESPACE | {"dropped_at_ms": 1794737732999, "purge_at_ms": 1795342532999}
    ),
)
def drop_namespace(call: Call[NoBody, DropQuery], ports: Ports) -> Awaitable[Answer]:
    """Drop an empty namespace, or with `cascade` everything in it. It can be undropped until `purge_at_ms`."""
    return drop(call, ports, _address(call))
