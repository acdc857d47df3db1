"""Tables that live where their owner put them, and views: what the catalog knows of them is all there is."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Live
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable
from moorage.usecases import trunk
from moorage.usecases.addresses import Address, look, require_found
from moorage.usecases.places import brought_place, holding
from moorage.usecases.ports import Ports
from moorage.usecases.revise import Revision, revise_found
from moorage.usecases.settle import Part

RETENTION_DAYS = "retention_days"
"""In a table's details: for how many days its history is kept; absent, the server decides."""


async def get_relation(ports: Ports, caller: Caller, address: Address) -> tuple[Securable, ...]:
    """A table or view with its ancestors: Unity calls both tables."""
    chain = await _find_relation(ports, address)
    require(ports.access, caller, Privilege.BROWSE, chain)
    return chain


async def prepare_external(ports: Ports, caller: Caller, address: Address, doc: Doc, location: str) -> Part:
    """A table whose files stay where they are and remain their owner's, also when it is dropped."""
    place = brought_place(ports, location)
    return holding(await trunk.prepare_create(ports, caller, address, doc), place)


async def prepare_view(
    ports: Ports, caller: Caller, address: Address, doc: Doc, depends_on: tuple[Address, ...]
) -> Part:
    """A view over tables, views and functions, all of which must exist."""
    part = await trunk.prepare_create(ports, caller, address, doc)
    needed = []
    for each in depends_on:
        chain = await _find_relation(ports, each)
        require(ports.access, caller, Privilege.BROWSE, chain)
        needed.append(Live(chain[-1].id))
    return replace(part, expects=(*part.expects, *needed))


async def prepare_revise_table(ports: Ports, caller: Caller, address: Address, revision: Revision) -> Part:
    """Describe a table or view anew, or rename it. The properties of a managed table are its log's."""
    chain = await _find_relation(ports, address)
    table = chain[-1].doc.table
    if revision.properties is not None and table is not None and table.managed:
        raise InvalidInput(
            f"the properties of '{address}' are part of its history; commit a change of its metadata instead",
            field="properties",
        )
    return await revise_found(ports, caller, chain, revision)


async def prepare_drop_table(ports: Ports, caller: Caller, address: Address) -> Part:
    """Drop a table or view. Only the files of a managed table go, after the hold."""
    kind = (await _find_relation(ports, address))[-1].kind
    return await trunk.prepare_drop(ports, caller, Address(kind, address.path))


async def _find_relation(ports: Ports, address: Address) -> tuple[Securable, ...]:
    """Whatever bears the name, if a table is asked for: tables and views stand on one shelf."""
    found = (await look(ports.ledger, address)).chain
    is_view = address.kind is Kind.TABLE and len(found) == len(address.path) and found[-1].kind is Kind.VIEW
    require_found(Address(Kind.VIEW, address.path) if is_view else address, found)
    return found
