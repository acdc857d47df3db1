"""Keys for the files of an Iceberg table, for clients that have no key of their own. Each opens one table."""

from __future__ import annotations

from typing import NamedTuple

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.errors import Forbidden, TableNotFound, Unsupported
from moorage.core.ids import SecurableId
from moorage.core.locations import scheme_of
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind
from moorage.core.vended import Vended
from moorage.usecases.catalog.addresses import Address, Chain, find_by_id
from moorage.usecases.catalog.staging import find_staged_name, is_staged_by, require_staged_by
from moorage.usecases.iceberg.lookup import find_relation, is_iceberg
from moorage.usecases.ports import Ports

_NOT_VENDED = (
    "the object store of this server issues no keys that open one table only, so the server vends none; "
    "let the server sign requests (X-Iceberg-Access-Delegation: remote-signing), or give the client a key of its own"
)


class VendedTable(NamedTuple):
    """A key, and the locations that it opens."""

    key: Vended
    locations: tuple[str, ...]


async def vend_for_id(ports: Ports, caller: Caller, id: str) -> VendedTable | None:
    """A key for a table that the caller may read, or for a table that it staged; None if the server vends none for it.

    A request that created or loaded the table has its id. By its name it could be another table by now.
    """
    chain = await find_by_id(ports.ledger, SecurableId(id))
    if not chain:
        return None
    try:
        _require_read(ports, caller, chain)
        return await _vend(ports, caller, chain)
    except (Forbidden, Unsupported):
        return None


async def vend_for_name(ports: Ports, caller: Caller, address: Address) -> VendedTable | None:
    """The same for the table of a name. None if its files need no key; Unsupported if the server vends none for it."""
    try:
        chain = await find_relation(ports, caller, address, Privilege.READ)
    except TableNotFound:
        staged = await find_staged_name(ports, caller, address)
        if staged is None:
            raise
        chain = (staged,)
    if all(scheme_of(each) == "file" for each in chain[-1].locations):
        return None
    return await _vend(ports, caller, chain)


def _require_read(ports: Ports, caller: Caller, chain: Chain) -> None:
    if chain[-1].kind is Kind.STAGING_TABLE:
        require_staged_by(chain[-1], caller)
    else:
        require(ports.access, caller, Privilege.READ, chain)


def _may_write(ports: Ports, caller: Caller, chain: Chain) -> bool:
    if chain[-1].kind is Kind.STAGING_TABLE:
        return is_staged_by(chain[-1], caller) and not caller.is_read_only
    return is_iceberg(chain[-1]) and ports.access.allow(caller, Privilege.MODIFY, chain)


async def _vend(ports: Ports, caller: Caller, chain: Chain) -> VendedTable:
    """A key for all locations of a table: older snapshots have their files in former ones."""
    locations = chain[-1].locations
    store = await ports.stores.find(locations[0])
    if store is None:
        raise Unsupported(f"the files of '{chain[-1].name}' are at {locations}, where this server vends no keys")
    if not await store.vends():
        raise Unsupported(_NOT_VENDED)
    held = tuple(each for each in locations if store.allows(each))
    return VendedTable(await store.vend(held, writes=_may_write(ports, caller, chain)), held)
