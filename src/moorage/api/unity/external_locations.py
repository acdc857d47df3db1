"""External locations: folders in object stores, each with the credential that opens it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import require_addressable, require_new_name
from moorage.api.unity.shapes import (
    EXAMPLE_ID,
    EXAMPLE_STAMPS,
    NOTHING,
    ForceQuery,
    Location,
    Name,
    Nothing,
    Paging,
    Stamped,
    Text,
    stamps,
    to_wire_location,
)
from moorage.core.errors import InvalidInput, NameTaken, NotEmpty, PlaceTaken, SecurableNotFound, Unavailable
from moorage.core.revisions import Revision
from moorage.core.securables import Securable, Shelf
from moorage.core.storage_credentials import location_of
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse
from moorage.usecases.ports import Ports
from moorage.usecases.storage import external_locations
from moorage.usecases.storage.external_locations import GivenLocation, credential_names, external_location

routes = unity.section(tags=("external locations",))

Unchecked = Annotated[bool, Meta(description="Do not list the folder with the credential first.")]


class CreateExternalLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A new external location."""

    name: Name
    url: Location
    credential_name: Annotated[str, Meta(description="The name of the credential that opens the folder.")]
    comment: Text | None = None
    skip_validation: Unchecked | None = None


class UpdateExternalLocation(msgspec.Struct, frozen=True, kw_only=True):
    """What to change. Absent fields stay as they are."""

    url: Location | None = None
    credential_name: str | None = None
    comment: Text | None = None
    owner: str | None = None
    new_name: Name | None = None
    skip_validation: Unchecked | None = None


class ExternalLocationInfo(Stamped, frozen=True, kw_only=True):
    """An external location."""

    name: str
    id: str
    url: str | None
    credential_name: str | None
    credential_id: str
    comment: str | None


class ListExternalLocationsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of external locations."""

    external_locations: list[ExternalLocationInfo]
    next_page_token: str | None


async def _infos(ports: Ports, *locations: Securable) -> list[ExternalLocationInfo]:
    names = await credential_names(ports, locations)
    found = []
    for each in locations:
        details = location_of(each)
        found.append(
            ExternalLocationInfo(
                name=each.name,
                id=each.id,
                url=to_wire_location(details.url),
                credential_name=names.get(details.credential),
                credential_id=details.credential,
                comment=each.doc.comment,
                **stamps(each),
            )
        )
    return found


_EXAMPLE: dict[str, Any] = {
    "name": "archive",
    "id": EXAMPLE_ID,
    "url": "s3://archive/tables",
    "credential_name": "vault",
    "credential_id": EXAMPLE_ID,
    "comment": "Old orders.",
    **EXAMPLE_STAMPS,
}
_ARCHIVE = {"name": "archive"}


@routes.post(
    "/external-locations",
    operation="createExternalLocation",
    summary="Create an external location.",
    body=CreateExternalLocation,
    answer=ExternalLocationInfo,
    errors=(InvalidInput, NameTaken, PlaceTaken, SecurableNotFound, Unavailable),
    example=Example(
        body={
            "name": "landing",
            "url": "s3://landing/raw",
            "credential_name": "vault",
            "comment": "Old orders.",
            "skip_validation": True,
        },
        answer=_EXAMPLE | {"name": "landing", "url": "s3://landing/raw"},
    ),
)
async def create_location(call: Call[CreateExternalLocation, NoQuery], ports: Ports) -> Answer:
    """Create an external location. Its credential opens the folder, and every table in it, from now on."""
    body = call.body
    given = GivenLocation(url=body.url, credential=body.credential_name, is_checked=not body.skip_validation)
    made = await external_locations.create_location(
        ports, errand_of(call, ports), require_addressable(body.name), given, body.comment
    )
    return Answer.json((await _infos(ports, made))[0])


@routes.get(
    "/external-locations",
    operation="listExternalLocations",
    summary="List external locations.",
    query=Paging,
    answer=ListExternalLocationsResponse,
    errors=(InvalidInput,),
    example=Example(answer={"external_locations": [_EXAMPLE], "next_page_token": None}),
)
async def list_locations(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the external locations, ordered by name."""
    query = call.query
    page = await browse.page(
        ports, call.caller, None, Shelf.EXTERNAL_LOCATION, token=query.page_token, limit=query.limit
    )
    found = await _infos(ports, *page.items)
    return Answer.json(ListExternalLocationsResponse(external_locations=found, next_page_token=page.next_token))


@routes.get(
    "/external-locations/{name}",
    operation="getExternalLocation",
    summary="Get an external location.",
    answer=ExternalLocationInfo,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_ARCHIVE, answer=_EXAMPLE),
)
async def get_location(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one external location."""
    found = await browse.get(ports, call.caller, external_location(call.params["name"]))
    return Answer.json((await _infos(ports, found[-1]))[0])


@routes.patch(
    "/external-locations/{name}",
    operation="updateExternalLocation",
    summary="Update an external location.",
    body=UpdateExternalLocation,
    answer=ExternalLocationInfo,
    errors=(InvalidInput, SecurableNotFound, NameTaken, NotEmpty, PlaceTaken, Unavailable),
    example=Example(path=_ARCHIVE, body={"comment": "Old orders."}, answer=_EXAMPLE),
)
async def update_location(call: Call[UpdateExternalLocation, NoQuery], ports: Ports) -> Answer:
    """Change an external location. Its folder can change while no object has files in it."""
    body = call.body
    new_name = require_new_name(body.new_name)
    revision = Revision(comment=body.comment, owner=body.owner, new_name=new_name)
    given = GivenLocation(url=body.url, credential=body.credential_name, is_checked=not body.skip_validation)
    after = await external_locations.change_location(
        ports, errand_of(call, ports), call.params["name"], revision, given
    )
    return Answer.json((await _infos(ports, after))[0])


@routes.delete(
    "/external-locations/{name}",
    operation="deleteExternalLocation",
    summary="Delete an external location.",
    query=ForceQuery,
    answer=Nothing,
    errors=(InvalidInput, SecurableNotFound, NotEmpty),
    example=Example(path=_ARCHIVE, answer={}),
)
async def delete_location(call: Call[NoBody, ForceQuery], ports: Ports) -> Answer:
    """Delete an external location. No file is deleted. With force, objects in it cannot be used afterwards."""
    await external_locations.delete_location(ports, errand_of(call, ports), call.params["name"], force=call.query.force)
    return Answer.json(NOTHING)
