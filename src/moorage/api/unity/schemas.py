"""Schemas: the namespaces directly in a catalog. This API cannot address deeper namespaces, and does not list them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.catalogs import UpdateContainer, revision_of
from moorage.api.unity.names import address_in, address_of, new_address
from moorage.api.unity.objects import answer_with_info
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
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, NotEmpty
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, objects
from moorage.usecases.catalog.revisions import revise
from moorage.usecases.catalog.roots import STORAGE_ROOT, create_rooted
from moorage.usecases.ports import Ports

routes = unity.section(tags=("schemas",))


class CreateSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The schema to create."""

    name: Name
    catalog_name: str
    comment: Text | None = None
    properties: Properties | None = None
    storage_root: Location | None = None


class CatalogPaging(Paging, frozen=True, kw_only=True):
    """The catalog, and the page of its schemas."""

    catalog_name: Annotated[str, Meta(description="The catalog of the schemas.")]


class SchemaInfo(Stamped, frozen=True, kw_only=True):
    """A schema."""

    name: str
    catalog_name: str
    comment: str | None
    properties: Properties
    full_name: str
    schema_id: str
    storage_root: str | None
    storage_location: str | None


class ListSchemasResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schemas. Without a token it is the last page."""

    schemas: list[SchemaInfo]
    next_page_token: str | None


def schema_info(securable: Securable, catalog_name: str) -> SchemaInfo:
    doc = securable.doc
    return SchemaInfo(
        name=securable.name,
        catalog_name=catalog_name,
        comment=doc.comment,
        properties=doc.properties,
        full_name=f"{catalog_name}.{securable.name}",
        schema_id=securable.id,
        storage_root=to_wire_location(doc.details.get(STORAGE_ROOT)),
        storage_location=to_wire_location(doc.location),
        **stamps(securable),
    )


_EXAMPLE: dict[str, Any] = {
    "name": "sales",
    "catalog_name": "sample",
    "comment": None,
    "properties": {},
    "full_name": "sample.sales",
    "schema_id": EXAMPLE_ID,
    "storage_root": None,
    "storage_location": None,
    **EXAMPLE_STAMPS,
}


@routes.post(
    "/schemas",
    operation="createSchema",
    summary="Create a schema.",
    body=CreateSchema,
    answer=SchemaInfo,
    errors=(InvalidInput, CatalogNotFound, NameTaken),
    example=Example(body={"name": "sales", "catalog_name": "sample"}, answer=_EXAMPLE),
)
async def create_schema(call: Call[CreateSchema, NoQuery], ports: Ports) -> Answer:
    """Create a schema in an existing catalog."""
    body = call.body
    address = new_address(Kind.NAMESPACE, body.catalog_name, body.name)
    doc = Doc(comment=body.comment, properties=body.properties or {})
    created = await create_rooted(ports, errand_of(call, ports), address, doc, body.storage_root)
    return await answer_with_info(ports, created, schema_info)


@routes.get(
    "/schemas",
    operation="listSchemas",
    summary="List schemas.",
    query=CatalogPaging,
    answer=ListSchemasResponse,
    errors=(InvalidInput, CatalogNotFound),
    example=Example(query={"catalog_name": "sample"}, answer={"schemas": [_EXAMPLE], "next_page_token": None}),
)
async def list_schemas(call: Call[NoBody, CatalogPaging], ports: Ports) -> Answer:
    """List the schemas of a catalog, ordered by name."""
    query = call.query
    catalog = address_in(Kind.CATALOG, query.catalog_name)
    page = await browse.page(ports, call.caller, catalog, Shelf.NAMESPACE, token=query.page_token, limit=query.limit)
    found = [schema_info(item, page.above[0].name) for item in only_addressable(page.items)]
    return Answer.json(ListSchemasResponse(schemas=found, next_page_token=page.next_token))


@routes.get(
    "/schemas/{full_name}",
    operation="getSchema",
    summary="Get a schema.",
    answer=SchemaInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(path={"full_name": "sample.sales"}, answer=_EXAMPLE),
)
async def get_schema(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one schema."""
    catalog, schema = await browse.get(ports, call.caller, address_of(Kind.NAMESPACE, call.params["full_name"]))
    return Answer.json(schema_info(schema, catalog.name))


@routes.patch(
    "/schemas/{full_name}",
    operation="updateSchema",
    summary="Update a schema.",
    body=UpdateContainer,
    answer=SchemaInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken),
    example=Example(
        path={"full_name": "sample.sales"}, body={"comment": "Orders."}, answer=_EXAMPLE | {"comment": "Orders."}
    ),
)
async def update_schema(call: Call[UpdateContainer, NoQuery], ports: Ports) -> Answer:
    """Change the comment, properties, owner and name in one step."""
    address = address_of(Kind.NAMESPACE, call.params["full_name"])
    revision = revision_of(call.body)
    return await answer_with_info(ports, await revise(ports, errand_of(call, ports), address, revision), schema_info)


@routes.delete(
    "/schemas/{full_name}",
    operation="deleteSchema",
    summary="Delete a schema.",
    query=ForceQuery,
    answer=Nothing,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NotEmpty),
    example=Example(path={"full_name": "sample.sales"}, query={"force": True}, answer={}),
)
async def delete_schema(call: Call[NoBody, ForceQuery], ports: Ports) -> Answer:
    """Delete an empty schema, or with `force` everything in it. The console can restore it for a while."""
    address = address_of(Kind.NAMESPACE, call.params["full_name"])
    await objects.drop(ports, errand_of(call, ports), address, cascade=call.query.force)
    return Answer.json(NOTHING)
