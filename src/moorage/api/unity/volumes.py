"""Volumes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import address_of, new_address
from moorage.api.unity.objects import ObjectUpdate, answer_with_info, page_of_schema
from moorage.api.unity.shapes import (
    EXAMPLE_STAMPS,
    EXAMPLE_VOLUME_ID,
    NOTHING,
    Location,
    Name,
    Nothing,
    SchemaPaging,
    Stamped,
    Text,
    only_addressable,
    stamps,
    to_wire_location,
)
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    NameTaken,
    PlaceTaken,
    SecurableNotFound,
)
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, objects, volumes
from moorage.usecases.catalog.revisions import revise
from moorage.usecases.ports import Ports

routes = unity.section(tags=("volumes",))

VolumeType = Literal["MANAGED", "EXTERNAL"]


class CreateVolumeRequestContent(msgspec.Struct, frozen=True, kw_only=True):
    """The volume to create."""

    catalog_name: str
    schema_name: str
    name: Name
    volume_type: VolumeType
    comment: Text | None = None
    storage_location: Location | None = None


class UpdateVolumeRequestContent(ObjectUpdate, frozen=True, kw_only=True):
    """Changes to a volume. A field that is absent or null stays unchanged."""


class VolumeInfo(Stamped, frozen=True, kw_only=True):
    """A volume."""

    catalog_name: str
    schema_name: str
    name: str
    comment: str | None
    volume_id: str
    volume_type: VolumeType
    storage_location: str | None
    full_name: str


class ListVolumesResponseContent(msgspec.Struct, frozen=True, kw_only=True):
    """A page of volumes. Without a token it is the last page."""

    volumes: list[VolumeInfo]
    next_page_token: str | None


def volume_info(securable: Securable, catalog_name: str, schema_name: str) -> VolumeInfo:
    return VolumeInfo(
        catalog_name=catalog_name,
        schema_name=schema_name,
        name=securable.name,
        comment=securable.doc.comment,
        volume_id=securable.id,
        volume_type="EXTERNAL" if securable.doc.external else "MANAGED",
        storage_location=to_wire_location(securable.doc.location),
        full_name=f"{catalog_name}.{schema_name}.{securable.name}",
        **stamps(securable),
    )


_EXAMPLE: dict[str, Any] = {
    "catalog_name": "sample",
    "schema_name": "sales",
    "name": "invoices",
    "comment": None,
    "volume_id": EXAMPLE_VOLUME_ID,
    "volume_type": "EXTERNAL",
    "storage_location": "file:///data/invoices",
    "full_name": "sample.sales.invoices",
    **EXAMPLE_STAMPS,
}
_INVOICES = {"name": "sample.sales.invoices"}
_MISSING = (CatalogNotFound, NamespaceNotFound, SecurableNotFound)


@routes.post(
    "/volumes",
    operation="createVolume",
    summary="Create a volume.",
    body=CreateVolumeRequestContent,
    answer=VolumeInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken, PlaceTaken),
    example=Example(
        body={
            "catalog_name": "sample",
            "schema_name": "sales",
            "name": "invoices",
            "volume_type": "EXTERNAL",
            "storage_location": "file:///data/invoices",
        },
        answer=_EXAMPLE,
    ),
)
async def create_volume(call: Call[CreateVolumeRequestContent, NoQuery], ports: Ports) -> Answer:
    """Create an external volume at a folder of its owner, or a managed volume, whose folder the catalog assigns."""
    body = call.body
    if (body.volume_type == "EXTERNAL") != bool(body.storage_location):
        problem = "required for an external" if body.volume_type == "EXTERNAL" else "not allowed for a managed"
        raise InvalidInput(f"storage_location is {problem} volume", field="storage_location")
    address = new_address(Kind.VOLUME, body.catalog_name, body.schema_name, body.name)
    location = body.storage_location or None
    created = await volumes.create_volume(ports, errand_of(call, ports), address, Doc(comment=body.comment), location)
    return await answer_with_info(ports, created, volume_info)


@routes.get(
    "/volumes",
    operation="listVolumes",
    summary="List volumes.",
    query=SchemaPaging,
    answer=ListVolumesResponseContent,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        query={"catalog_name": "sample", "schema_name": "sales"},
        answer={"volumes": [_EXAMPLE], "next_page_token": None},
    ),
)
async def list_volumes(call: Call[NoBody, SchemaPaging], ports: Ports) -> Answer:
    """List the volumes of a schema, ordered by name."""
    page = await page_of_schema(ports, call.caller, call.query, Shelf.VOLUME)
    found = [volume_info(item, *(part.name for part in page.above)) for item in only_addressable(page.items)]
    return Answer.json(ListVolumesResponseContent(volumes=found, next_page_token=page.next_token))


@routes.get(
    "/volumes/{name}",
    operation="getVolume",
    summary="Get a volume.",
    answer=VolumeInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_INVOICES, answer=_EXAMPLE),
)
async def get_volume(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one volume."""
    address = address_of(Kind.VOLUME, call.params["name"], field="name")
    catalog, schema, volume = await browse.get(ports, call.caller, address)
    return Answer.json(volume_info(volume, catalog.name, schema.name))


@routes.patch(
    "/volumes/{name}",
    operation="updateVolume",
    summary="Update a volume.",
    body=UpdateVolumeRequestContent,
    answer=VolumeInfo,
    errors=(InvalidInput, NameTaken, *_MISSING),
    example=Example(path=_INVOICES, body={"comment": "Scans."}, answer=_EXAMPLE | {"comment": "Scans."}),
)
async def update_volume(call: Call[UpdateVolumeRequestContent, NoQuery], ports: Ports) -> Answer:
    """Change the comment, the owner or the name. Files stay where they are."""
    address = address_of(Kind.VOLUME, call.params["name"], field="name")
    after = await revise(ports, errand_of(call, ports), address, call.body.revision())
    return await answer_with_info(ports, after, volume_info)


@routes.delete(
    "/volumes/{name}",
    operation="deleteVolume",
    summary="Delete a volume.",
    answer=Nothing,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_INVOICES, answer={}),
)
async def delete_volume(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a volume. The files of a managed volume are deleted later, those of an external volume stay."""
    address = address_of(Kind.VOLUME, call.params["name"], field="name")
    await objects.drop(ports, errand_of(call, ports), address)
    return Answer.json(NOTHING)
