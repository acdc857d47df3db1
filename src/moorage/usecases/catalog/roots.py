"""Catalogs and schemas with a storage root of their own, below which their managed objects are stored."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Create
from moorage.core.errors import InvalidInput
from moorage.core.places import scheme_of
from moorage.core.securables import Doc, Kind, Securable
from moorage.storage.port import Delegation
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.places import OURS, parse_place
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

STORAGE_ROOT: Final = "storage_root"
"""In the details of a catalog or schema: the root as its owner gave it. The location below it is its own."""

_FOLDERS: Final = {Kind.CATALOG: "catalogs", Kind.NAMESPACE: "schemas"}


def requested_root(store: Delegation | None, location: str | None) -> str | None:
    """The root that a namespace requests by a location in the object store; any other location is only a property."""
    if location is None or store is None or scheme_of(location) != "s3":
        return None
    if not store.holds(parse_place(location, field="location")):
        raise InvalidInput(
            f"location: {location!r} is outside the locations of this server: {', '.join(store.locations)}",
            field="location",
        )
    return location


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
    root = None if storage_root is None else parse_place(storage_root, field="storage_root")
    part = await objects.prepare_create(ports, caller, address, doc, field=field)
    create = part.changes[0]
    if root is None or not isinstance(create, Create):
        return part
    location = f"{root}{OURS}/{_FOLDERS[address.kind]}/{create.id}/"
    rooted = replace(doc, location=location, details={**doc.details, STORAGE_ROOT: root})
    return replace(part, changes=(replace(create, doc=rooted),))
