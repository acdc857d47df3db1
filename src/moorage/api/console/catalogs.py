"""Catalogs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.console.api import Paging, console
from moorage.api.console.bodies import (
    EXAMPLE_CATALOG,
    CreateCatalog,
    Describe,
    NewName,
    ObjectInfo,
    ObjectList,
    object_info,
)
from moorage.api.errands import errand_of
from moorage.core.errors import CatalogNotFound, InvalidInput, KeyReused, NameTaken, NotEmpty, RevisionMoved
from moorage.core.names import require_name
from moorage.core.securables import Doc, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import addresses, browse, objects
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports

routes = console.section(tags=("catalogs",))


class DropQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether to drop an object that is not empty."""

    cascade: Annotated[bool, Meta(description="Also drop everything in it; otherwise it must be empty.")] = False


@routes.post(
    "/catalogs",
    operation="createCatalog",
    summary="Create a catalog.",
    body=CreateCatalog,
    answer=ObjectInfo,
    status=201,
    errors=(InvalidInput, NameTaken, KeyReused),
    example=Example(body={"name": "sample", "comment": "A small lake to look around in."}, answer=EXAMPLE_CATALOG),
)
async def create_catalog(call: Call[CreateCatalog, NoQuery], ports: Ports) -> Answer:
    """Create a catalog, the top level of namespaces and tables."""
    address = addresses.catalog(call.body.name, field="name")
    doc = Doc(comment=call.body.comment, properties=call.body.properties)
    made = await objects.create(ports, errand_of(call, ports), address, doc)
    return Answer.json(object_info(made), 201)


@routes.get(
    "/catalogs",
    operation="listCatalogs",
    summary="List catalogs.",
    query=Paging,
    answer=ObjectList,
    errors=(InvalidInput,),
    example=Example(answer={"items": [EXAMPLE_CATALOG], "next_page_token": None}),
)
async def list_catalogs(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the catalogs in the order of their names, page by page."""
    page = await browse.page(
        ports,
        call.caller,
        None,
        Shelf.CATALOG,
        token=call.query.page_token,
        limit=page_size(call.query.max_results),
    )
    return Answer.json(ObjectList(items=tuple(map(object_info, page.items)), next_page_token=page.next_token))


@routes.get(
    "/catalogs/{catalog}",
    operation="getCatalog",
    summary="Get a catalog.",
    answer=ObjectInfo,
    errors=(CatalogNotFound,),
    example=Example(path={"catalog": "sample"}, answer=EXAMPLE_CATALOG),
)
async def get_catalog(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one catalog with its description."""
    chain = await browse.get(ports, call.caller, addresses.catalog(call.params["catalog"]))
    return Answer.json(object_info(chain[-1]))


@routes.patch(
    "/catalogs/{catalog}",
    operation="updateCatalog",
    summary="Update a catalog.",
    body=Describe,
    answer=ObjectInfo,
    errors=(InvalidInput, CatalogNotFound, RevisionMoved, KeyReused),
    example=Example(path={"catalog": "sample"}, body={"set_properties": {"team": "sales"}}, answer=EXAMPLE_CATALOG),
)
def update_catalog(call: Call[Describe, NoQuery], ports: Ports) -> Awaitable[Answer]:
    """Change the comment, the owner or some properties. Absent fields stay as they are."""
    return describe(call, ports, addresses.catalog(call.params["catalog"]))


@routes.post(
    "/catalogs/{catalog}:rename",
    operation="renameCatalog",
    summary="Rename a catalog.",
    body=NewName,
    answer=ObjectInfo,
    errors=(InvalidInput, CatalogNotFound, NameTaken, KeyReused),
    example=Example(path={"catalog": "sample"}, body={"new_name": "demo"}, answer=EXAMPLE_CATALOG | {"name": "demo"}),
)
def rename_catalog(call: Call[NewName, NoQuery], ports: Ports) -> Awaitable[Answer]:
    """Give a catalog another name. No file moves, because storage paths consist of ids."""
    return rename(call, ports, addresses.catalog(call.params["catalog"]))


@routes.delete(
    "/catalogs/{catalog}",
    operation="dropCatalog",
    summary="Drop a catalog.",
    query=DropQuery,
    answer=ObjectInfo,
    errors=(CatalogNotFound, NotEmpty, KeyReused),
    example=Example(
        path={"catalog": "sample"},
        query={"cascade": True},
        answer=EXAMPLE_CATALOG | {"dropped_at_ms": 1794737732999, "purge_at_ms": 1795342532999},
    ),
)
def drop_catalog(call: Call[NoBody, DropQuery], ports: Ports) -> Awaitable[Answer]:
    """Drop an empty catalog, or with `cascade` everything in it. It can be undropped until `purge_at_ms`."""
    return drop(call, ports, addresses.catalog(call.params["catalog"]))


async def describe(call: Call[Describe, NoQuery], ports: Ports, address: addresses.Address) -> Answer:
    description = objects.Description(
        comment=call.body.comment,
        owner=call.body.owner,
        set_properties=call.body.set_properties,
        remove_properties=call.body.remove_properties,
    )
    errand = errand_of(call, ports)
    after = await objects.update(ports, errand, address, description, revision=call.body.revision)
    return Answer.json(object_info(after))


async def rename(call: Call[NewName, NoQuery], ports: Ports, address: addresses.Address) -> Answer:
    to = addresses.Address(address.kind, (*address.path[:-1], require_name(call.body.new_name, "new_name")))
    after = await objects.rename(ports, errand_of(call, ports), address, to)
    return Answer.json(object_info(after))


async def drop(call: Call[NoBody, DropQuery], ports: Ports, address: addresses.Address) -> Answer:
    after = await objects.drop(ports, errand_of(call, ports), address, cascade=call.query.cascade)
    return Answer.json(object_info(after))
