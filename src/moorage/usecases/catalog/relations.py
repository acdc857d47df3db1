"""Tables that live where their owner put them, and views: what the catalog knows of them is all there is."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Live
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, find, look, require_found
from moorage.usecases.catalog.places import brought_place
from moorage.usecases.catalog.revisions import Revision, revise_found
from moorage.usecases.iceberg.descriptions import has_metadata, prepare_revision
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part

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
    return objects.holding(await objects.prepare_create(ports, caller, address, doc), place)


async def prepare_view(
    ports: Ports, caller: Caller, address: Address, doc: Doc, depends_on: tuple[Address, ...]
) -> Part:
    """A view over tables, views and functions, all of which must exist."""
    part = await objects.prepare_create(ports, caller, address, doc)
    needed = []
    for each in depends_on:
        chain = await _find_relation(ports, each)
        require(ports.access, caller, Privilege.BROWSE, chain)
        needed.append(Live(chain[-1].id))
    return replace(part, expects=(*part.expects, *needed))


async def prepare_revise_table(ports: Ports, caller: Caller, address: Address, revision: Revision) -> Part:
    """Describe a table or view anew, or rename it. The properties of a managed table are its log's."""
    chain = await _find_relation(ports, address)
    return await _prepare_revision(ports, caller, address, chain, revision)


async def prepare_set_properties(
    ports: Ports, caller: Caller, address: Address, properties: Mapping[str, str], remove: tuple[str, ...]
) -> Part:
    """Set and remove properties of a table or view, wherever they are kept."""
    chain = await find(ports.ledger, address)
    said = objects.Description(set_properties=properties, remove_properties=remove)
    revision = Revision(properties=objects.described(chain[-1].doc, said).properties)
    return await _prepare_revision(ports, caller, address, chain, revision)


async def _prepare_revision(
    ports: Ports, caller: Caller, address: Address, chain: tuple[Securable, ...], revision: Revision
) -> Part:
    table = chain[-1].doc.table
    if has_metadata(chain[-1]) and (revision.properties is not None or revision.comment is not None):
        return await prepare_revision(ports, caller, chain, revision)
    if revision.properties is not None and table is not None and table.managed:
        raise InvalidInput(
            f"the properties of '{address}' are part of its history; commit a change of its metadata instead",
            field="properties",
        )
    return await revise_found(ports, caller, chain, revision)


async def prepare_drop_table(ports: Ports, caller: Caller, address: Address) -> Part:
    """Drop a table or view. Only the files of a managed table go, after the hold."""
    kind = (await _find_relation(ports, address))[-1].kind
    return await objects.prepare_drop(ports, caller, Address(kind, address.path))


async def _find_relation(ports: Ports, address: Address) -> tuple[Securable, ...]:
    """Whatever bears the name, if a table is asked for: tables and views stand on one shelf."""
    found = (await look(ports.ledger, address)).chain
    is_view = address.kind is Kind.TABLE and len(found) == len(address.path) and found[-1].kind is Kind.VIEW
    require_found(Address(Kind.VIEW, address.path) if is_view else address, found)
    return found
