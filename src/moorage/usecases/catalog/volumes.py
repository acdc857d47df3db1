"""Volumes: folders of files that are no tables."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, find_parent
from moorage.usecases.catalog.places import brought_place, given_place, require_reachable
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part


async def prepare_volume(ports: Ports, caller: Caller, address: Address, doc: Doc, location: str | None) -> Part:
    """A volume at a place of its owner's, or without a location at one that the catalog gives."""
    if location is not None:
        place = brought_place(ports, location)
        return objects.holding(await objects.prepare_create(ports, caller, address, replace(doc, external=True)), place)
    part = await objects.prepare_create(ports, caller, address, doc)
    above, _ = await find_parent(ports.ledger, address)
    place = given_place(ports, above, "volumes", SecurableId(part.done.ids[0]))
    await require_reachable(ports, place)
    return objects.holding(part, place)
