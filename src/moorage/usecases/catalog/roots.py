"""Catalogs and schemas with a storage root of their own, below which their managed objects are stored."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from moorage.access.port import require_in_area
from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.locations import CATALOG_FOLDER, parse_location, scheme_of
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable
from moorage.storage.port import ObjectStores
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.catalog.staging import creation_in
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

STORAGE_ROOT: Final = "storage_root"
"""In the details of a catalog or schema: the root as its owner gave it. The location below it belongs to the object."""

_FOLDERS: Final = {Kind.CATALOG: "catalogs", Kind.NAMESPACE: "schemas"}
_TO_ALLOW: Final = {
    "s3": "Add it to --s3-locations",
    "file": "Set --external-folder to a folder that contains it",
}


async def requested_root(stores: ObjectStores, location: str | None) -> str | None:
    """The root that a namespace requests by a location in an object store; any other location is only a property."""
    if location is None or scheme_of(location) == "file":
        return None
    allowed = await stores.locations()
    if not any(scheme_of(each) == scheme_of(location) for each in allowed):
        return None
    if await stores.find(parse_location(location, field="location")) is None:
        raise _outside("location", location, allowed)
    return location


def _outside(field: str, location: str, allowed: tuple[str, ...]) -> InvalidInput:
    """The error for a root that this server may not use. It names the setting that would allow it."""
    hint = _TO_ALLOW.get(scheme_of(location))
    return InvalidInput(
        f"{field} {location!r} is outside the allowed locations ({', '.join(allowed)}). "
        f"{f'{hint} or choose' if hint else 'Choose'} a folder below them.",
        field=field,
    )


async def create_rooted(
    ports: Ports, errand: Errand, address: Address, doc: Doc, storage_root: str | None, *, field: str = "name"
) -> Securable:
    """Create a catalog or schema. A root may serve several, so each gets a folder in it, named by its id."""
    return await settle_one(
        ports, errand, lambda caller: _prepare(ports, caller, address, doc, storage_root, field=field)
    )


async def _prepare(
    ports: Ports, caller: Caller, address: Address, doc: Doc, storage_root: str | None, *, field: str
) -> Part:
    if storage_root is None:
        return await objects.prepare_create(ports, caller, address, doc, field=field)
    root = parse_location(storage_root, field=STORAGE_ROOT)
    part = await objects.prepare_create(ports, caller, address, doc, field=field)
    create = creation_in(part.changes)
    # Refused here and not when the first table is created: by then clients may rely on the catalog.
    try:
        await require_reachable(ports, root)
    except InvalidInput:
        areas = {each: await ports.stores.area_of(each) for each in await ports.stores.locations()}
        known = [each for each, area in areas.items() if ports.access.reveals(caller, area)]
        raise _outside(STORAGE_ROOT, storage_root, (*ports.storage.locations, *known)) from None
    require_in_area(ports.access, caller, Privilege.STORE_MANAGED, await ports.stores.area_of(root))
    location = f"{root}{CATALOG_FOLDER}/{_FOLDERS[address.kind]}/{create.id}/"
    rooted = replace(doc, location=location, details={**doc.details, STORAGE_ROOT: root})
    return replace(part, changes=(replace(create, doc=rooted),))
