"""Catalogs and schemas with a storage root of their own, below which their managed objects live."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Create
from moorage.core.errors import InvalidInput
from moorage.core.places import scheme_of
from moorage.core.securables import Doc, Kind
from moorage.storage.s3_account import S3Account
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.places import OURS, parse_place
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part

STORAGE_ROOT = "storage_root"
"""In the details of a catalog or schema: the root as its owner gave it. The location below it is its own."""

_SHELVES = {Kind.CATALOG: "catalogs", Kind.NAMESPACE: "schemas"}


def asked_root(s3: S3Account | None, location: str | None) -> str | None:
    """The root that a namespace asks for by a location in the object store; one elsewhere is only a remark."""
    if location is None or s3 is None or scheme_of(location) != "s3":
        return None
    if not s3.holds(parse_place(location, field="location")):
        held = ", ".join(s3.places)
        raise InvalidInput(
            f"location: {location!r} lies in none of the places of this server: {held}", field="location"
        )
    return location


async def prepare_rooted(
    ports: Ports, caller: Caller, address: Address, doc: Doc, storage_root: str | None, *, field: str = "name"
) -> Part:
    """A new catalog or schema. A root may serve several, so each gets a folder in it, named by its id."""
    root = None if storage_root is None else parse_place(storage_root, field="storage_root")
    part = await objects.prepare_create(ports, caller, address, doc, field=field)
    create = part.changes[0]
    if root is None or not isinstance(create, Create):
        return part
    location = f"{root}{OURS}/{_SHELVES[address.kind]}/{create.id}/"
    rooted = replace(doc, location=location, details={**doc.details, STORAGE_ROOT: root})
    return replace(part, changes=(replace(create, doc=rooted),))
