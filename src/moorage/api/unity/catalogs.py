"""Catalogs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import address_of, new_address, require_new_name
from moorage.api.unity.shapes import (
    EXAMPLE_ID,
    EXAMPLE_STAMPS,
    NOTHING,
    ForceQuery,
    Location,
    Name,
    Nothing,
    Paging,
    Properties,
    Stamped,
    Text,
    only_addressable,
    stamps,
    to_wire_location,
)
from moorage.core.errors import CatalogNotFound, InvalidInput, NameTaken, NotEmpty
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, objects
from moorage.usecases.catalog.revisions import revise
from moorage.usecases.catalog.roots import STORAGE_ROOT, create_rooted
from moorage.usecases.ports import Ports

routes = unity.section(tags=("catalogs",))


class CreateCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog to create."""

    name: Name
    comment: Text | None = None
    properties: Properties | None = None
    storage_root: Location | None = None


class UpdateContainer(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a catalog or schema. A field that is absent or null stays unchanged."""

    comment: Text | None = None
    properties: Annotated[
        Properties | None, Meta(description="Replaces all properties. An empty map changes nothing.")
    ] = None
    owner: Name | None = None
    new_name: Name | None = None


class CatalogInfo(Stamped, frozen=True, kw_only=True):
    """A catalog."""

    name: str
    comment: str | None
    properties: Properties
    id: str
    storage_root: str | None
    storage_location: str | None


class ListCatalogsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of catalogs. Without a token it is the last page."""

    catalogs: list[CatalogInfo]
    next_page_token: str | None


def catalog_info(securable: Securable) -> CatalogInfo:
    doc = securable.doc
    return CatalogInfo(
        name=securable.name,
        comment=doc.comment,
        properties=doc.properties,
        id=securable.id,
        storage_root=to_wire_location(doc.details.get(STORAGE_ROOT)),
        storage_location=to_wire_location(doc.location),
        **stamps(securable),
    )


def revision_of(body: UpdateContainer) -> Revision:
    """The requested changes. Java clients send an empty map for no change, so it does not remove all properties."""
    return Revision(
        comment=body.comment,
        properties=body.properties or None,
        owner=body.owner,
        new_name=require_new_name(body.new_name),
    )


_EXAMPLE: dict[str, Any] = {
    "name": "sample",
    "comment": "All of it.",
    "properties": {"team": "sales"},
    "id": EXAMPLE_ID,
    "storage_root": None,
    "storage_location": None,
    **EXAMPLE_STAMPS,
}


@routes.post(
    "/catalogs",
    operation="createCatalog",
    summary="Create a catalog.",
    body=CreateCatalog,
    answer=CatalogInfo,
    errors=(InvalidInput, NameTaken),
    example=Example(body={"name": "sample", "comment": "All of it.", "properties": {"team": "sales"}}, answer=_EXAMPLE),
)
async def create_catalog(call: Call[CreateCatalog, NoQuery], ports: Ports) -> Answer:
    """Create a catalog. With a `storage_root`, the files of its managed objects are stored below it."""
    body = call.body
    address = new_address(Kind.CATALOG, body.name)
    doc = Doc(comment=body.comment, properties=body.properties or {})
    created = await create_rooted(ports, errand_of(call, ports), address, doc, body.storage_root)
    return Answer.json(catalog_info(created))


@routes.get(
    "/catalogs",
    operation="listCatalogs",
    summary="List catalogs.",
    query=Paging,
    answer=ListCatalogsResponse,
    errors=(InvalidInput,),
    example=Example(answer={"catalogs": [_EXAMPLE], "next_page_token": None}),
)
async def list_catalogs(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the catalogs, ordered by name."""
    query = call.query
    page = await browse.page(ports, call.caller, None, Shelf.CATALOG, token=query.page_token, limit=query.limit)
    found = [catalog_info(item) for item in only_addressable(page.items)]
    return Answer.json(ListCatalogsResponse(catalogs=found, next_page_token=page.next_token))


@routes.get(
    "/catalogs/{name}",
    operation="getCatalog",
    summary="Get a catalog.",
    answer=CatalogInfo,
    errors=(InvalidInput, CatalogNotFound),
    example=Example(path={"name": "sample"}, answer=_EXAMPLE),
)
async def get_catalog(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one catalog."""
    chain = await browse.get(ports, call.caller, address_of(Kind.CATALOG, call.params["name"], field="name"))
    return Answer.json(catalog_info(chain[-1]))


@routes.patch(
    "/catalogs/{name}",
    operation="updateCatalog",
    summary="Update a catalog.",
    body=UpdateContainer,
    answer=CatalogInfo,
    errors=(InvalidInput, CatalogNotFound, NameTaken),
    example=Example(path={"name": "sample"}, body={"comment": "All of it."}, answer=_EXAMPLE),
)
async def update_catalog(call: Call[UpdateContainer, NoQuery], ports: Ports) -> Answer:
    """Change the comment, properties, owner and name in one step."""
    address = address_of(Kind.CATALOG, call.params["name"], field="name")
    revision = revision_of(call.body)
    return Answer.json(catalog_info(await revise(ports, errand_of(call, ports), address, revision)))


@routes.delete(
    "/catalogs/{name}",
    operation="deleteCatalog",
    summary="Delete a catalog.",
    query=ForceQuery,
    answer=Nothing,
    errors=(InvalidInput, CatalogNotFound, NotEmpty),
    example=Example(path={"name": "sample"}, query={"force": True}, answer={}),
)
async def delete_catalog(call: Call[NoBody, ForceQuery], ports: Ports) -> Answer:
    """Delete an empty catalog, or with `force` everything in it. The console can restore it for a while."""
    address = address_of(Kind.CATALOG, call.params["name"], field="name")
    await objects.drop(ports, errand_of(call, ports), address, cascade=call.query.force)
    return Answer.json(NOTHING)
