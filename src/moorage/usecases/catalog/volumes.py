"""Volumes: folders of files that are not tables."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.ids import SecurableId
from moorage.core.locations import assigned_location, external_location
from moorage.core.securables import Doc, Securable
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, reach_parent
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one


async def create_volume(ports: Ports, errand: Errand, address: Address, doc: Doc, requested: str | None) -> Securable:
    """Create a volume at the requested location, or without one at a location that the catalog assigns."""

    async def prepare(caller: Caller) -> Part:
        if requested is not None:
            location = external_location(ports.roots, requested)
            external = replace(doc, external=True)
            return objects.with_location(await objects.prepare_create(ports, caller, address, external), location)
        part = await objects.prepare_create(ports, caller, address, doc)
        above, _ = await reach_parent(ports, caller, address)
        location = assigned_location(ports.roots, above, "volumes", SecurableId(part.done.ids[0]))
        await require_reachable(ports, location)
        return objects.with_location(part, location)

    return await settle_one(ports, errand, prepare)
