"""Tables and views that the catalog only records, and revisions of tables and views of every format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Live
from moorage.core.errors import InvalidInput
from moorage.core.ids import Seq
from moorage.core.locations import external_location
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Kind, Securable
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, Chain, Missing, missing_step, reach
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

RETENTION_DAYS: Final = "retention_days"
"""In a table's details: for how many days its history is kept; absent, the server's default."""
VIEW_DEFINITION: Final = "view_definition"
"""In a view's details: its SQL in the first of its dialects, for APIs that return only one."""
ROUTINE: Final = "routine"
"""In a function's details: everything but its name and comment, as the Unity API describes it."""


async def get_relation(ports: Ports, caller: Caller, address: Address, *, since: Seq | None = None) -> Chain:
    """A table or view with its ancestors: Unity calls both tables."""
    return await reach_relation(ports, caller, address, Privilege.BROWSE, since=since)


async def reach_relation(
    ports: Ports,
    caller: Caller,
    address: Address,
    privilege: Privilege,
    *,
    missing: Missing = missing_step,
    since: Seq | None = None,
) -> Chain:
    """The table of a name, or the view that holds it: tables and views share one shelf. `since`: see `reach`."""
    kinds = (Kind.VIEW,) if address.kind is Kind.TABLE else ()
    return await reach(ports, caller, address, privilege, kinds=kinds, missing=missing, since=since)


async def create_view(
    ports: Ports, errand: Errand, address: Address, doc: Doc, depends_on: tuple[Address, ...]
) -> Securable:
    """Create a view over tables, views and functions, all of which must exist."""

    async def prepare(caller: Caller) -> Part:
        part = await objects.prepare_create(ports, caller, address, doc)
        needed = []
        for each in depends_on:
            chain = await get_relation(ports, caller, each)
            needed.append(Live(chain[-1].id))
        return replace(part, expects=(*part.expects, *needed))

    return await settle_one(ports, errand, prepare)


async def prepare_external(ports: Ports, caller: Caller, address: Address, doc: Doc, requested: str) -> Part:
    """The creation of a table at a location of its owner. The catalog never deletes its files."""
    location = external_location(ports.roots, requested)
    return objects.with_location(await objects.prepare_create(ports, caller, address, doc), location)


async def revise_table(ports: Ports, errand: Errand, address: Address, revision: Revision) -> Securable:
    """Change the description, owner or name of a table or view."""

    async def prepare(caller: Caller) -> Part:
        chain = await reach_relation(ports, caller, address, Privilege.MODIFY)
        return await _prepare_revision(ports, caller, chain, revision)

    return await settle_one(ports, errand, prepare)


async def prepare_set_properties(
    ports: Ports, caller: Caller, address: Address, properties: Mapping[str, str], remove: tuple[str, ...]
) -> Part:
    """Set and remove properties of a table or view, in its record or in its metadata."""
    chain = await reach(ports, caller, address, Privilege.MODIFY)
    change = objects.Description(set_properties=properties, remove_properties=remove)
    revision = Revision(properties=objects.apply_description(chain[-1].doc, change).properties)
    return await _prepare_revision(ports, caller, chain, revision)


async def _prepare_revision(ports: Ports, caller: Caller, chain: Chain, revision: Revision) -> Part:
    table = chain[-1].doc.table
    if revision.properties is not None or revision.comment is not None:
        part = await ports.formats.of(chain[-1]).revise(ports, caller, chain, revision)
        if part is not None:
            return part
    if revision.properties is not None and table is not None and table.managed:
        name = ".".join(part.name for part in chain)
        raise InvalidInput(
            f"the properties of '{name}' are part of its history; commit a change of its metadata instead",
            field="properties",
        )
    return await revise_found(ports, caller, chain, revision)


async def drop_table(ports: Ports, errand: Errand, address: Address) -> Securable:
    """Drop a table or view. Only the files of a managed table are deleted, when its hold has ended."""

    async def prepare(caller: Caller) -> Part:
        kind = (await reach_relation(ports, caller, address, Privilege.MANAGE))[-1].kind
        return await objects.prepare_drop(ports, caller, Address(kind, address.path))

    return await settle_one(ports, errand, prepare)
