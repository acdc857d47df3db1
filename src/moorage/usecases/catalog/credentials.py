"""What a client needs to reach the files of an object: their location, and a key that opens it and nothing else.

Files on local disk need no key. Every request is authorised; only the keys are cached, for half of their lifetime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.access.port import require_in_area
from moorage.core.callers import Caller
from moorage.core.errors import Forbidden, InvalidInput, SecurableNotFound, TableNotFound, Unavailable, Unsupported
from moorage.core.locations import external_location, parse_location, scheme_of
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind
from moorage.core.vended import StoreSettings, Vended
from moorage.usecases.catalog.addresses import Address, Chain, reach_by_id
from moorage.usecases.catalog.models import READY, STATUS, reach_version
from moorage.usecases.catalog.staging import require_staged_by
from moorage.usecases.catalog.write_access import record_write_access
from moorage.usecases.ports import Ports


class FileAccess(NamedTuple):
    """The location of files, and the key that opens it. Without a key, none is needed."""

    location: str
    key: Vended | None = None
    store: StoreSettings | None = None
    """Where the S3 store of the key is."""


async def for_table(ports: Ports, caller: Caller, id: str, *, write: bool) -> FileAccess:
    """Access to a table, or to a staging table for the caller that staged it."""
    chain = await reach_table(ports, caller, id, write=write)
    if chain[-1].kind is Kind.STAGING_TABLE:
        require_staged_by(chain[-1], caller)
    elif write:
        await record_write_access(ports, chain[-1].id)
    return await _access_to(ports, chain, write=write)


async def reach_table(ports: Ports, caller: Caller, id: str, *, write: bool) -> Chain:
    """The table or staging table of an id, for a caller that may read or write its files."""
    try:
        chain = await reach_by_id(ports, caller, id, _privilege(write=write))
    except SecurableNotFound:
        raise TableNotFound(f"no table has the id '{id}'", id=id) from None
    if chain[-1].kind not in (Kind.TABLE, Kind.STAGING_TABLE):
        raise InvalidInput(f"table_id: '{id}' is the id of a {chain[-1].kind}", field="table_id")
    return chain


def _privilege(*, write: bool) -> Privilege:
    return Privilege.MODIFY if write else Privilege.READ


async def for_volume(ports: Ports, caller: Caller, id: str, *, write: bool) -> FileAccess:
    chain = await reach_by_id(ports, caller, id, _privilege(write=write), kind=Kind.VOLUME)
    return await _access_to(ports, chain, write=write)


async def for_model_version(ports: Ports, caller: Caller, address: Address, number: int, *, write: bool) -> FileAccess:
    """Access to a version of a model. Its files are written before it is ready, and not changed afterwards."""
    chain = await reach_version(ports, caller, address, number, _privilege(write=write))
    if write and chain[-1].doc.details.get(STATUS) == READY:
        raise InvalidInput(
            f"version {number} of model '{address}' is finalized, so its files do not change; create another version",
            field="operation",
        )
    return await _access_to(ports, chain, write=write)


async def for_path(
    ports: Ports, caller: Caller, url: str, *, write: bool, creates: bool = False, field: str = "url"
) -> FileAccess:
    """Access to a folder. `creates`: the client is about to create a table there.

    In a folder of an object, the privileges on the object decide. A folder with objects in it is refused, because its
    key would open all of them.
    """
    location = parse_location(url, field=field)
    holder = None if scheme_of(location) == "file" else await ports.ledger.location_holder(location)
    found = () if holder is None else (await ports.ledger.lineage(holder)).chain
    # No two locations overlap. So in the folder of a dropped object there is no other one, but beside it there may be.
    is_around = holder is not None and not (found and any(map(location.startswith, found[-1].locations)))
    chain = found if all(part.is_live for part in found) else ()
    if not chain or not ports.access.allow(caller, _privilege(write=write), chain):
        # First the error of a folder without objects: it does not tell a caller without privileges that there is one.
        needed = Privilege.WRITE_FILES if write else Privilege.READ_FILES
        area = await ports.stores.area_of(location)
        require_in_area(ports.access, caller, Privilege.CHOOSE_LOCATION if creates else needed, area)
        if chain:
            raise Forbidden(f"{caller.name} may not use '{url}': files of an object are there that it may not use")
    if is_around:
        raise Forbidden(f"'{url}' contains folders of objects; ask for a folder of one object, or one without any")
    if chain and chain[-1].kind is Kind.STAGING_TABLE:
        require_staged_by(chain[-1], caller)
    if write and chain and chain[-1].kind is Kind.MODEL:
        raise Forbidden(f"'{url}' is in the folder of a model; ask for a key of one of its versions")
    if scheme_of(location) == "file":
        return FileAccess(location)
    if not chain:
        external_location(ports.roots, url, field=field)
    return await open_locations(ports, (location,), write=write)


async def _access_to(ports: Ports, chain: Chain, *, write: bool) -> FileAccess:
    locations = chain[-1].locations
    if not locations:
        raise InvalidInput(f"{chain[-1].kind} '{chain[-1].name}' has no files", field="table_id")
    return await open_locations(ports, locations, write=write)


async def open_locations(ports: Ports, locations: Sequence[str], *, write: bool) -> FileAccess:
    """Access to all locations of one object: files of older versions are in former ones.

    Raises Unsupported if the store issues no keys that open these locations only.
    """
    location = locations[0]
    if scheme_of(location) == "file":
        return FileAccess(location)
    store = await ports.stores.find(location)
    if store is None:
        allowed = await ports.stores.locations()
        raise Unsupported(
            f"this server vends no credentials for '{location}': it is outside the object stores that the server may "
            f"use ({', '.join(allowed) or 'none'})"
        )
    if not await store.vends():
        raise Unsupported(
            f"this server vends no credentials for '{location}': its object store issues no keys that open one folder "
            "only. Give the client a key of its own; Iceberg's clients can use remote signing"
        )
    held = [each for each in locations if store.allows(each)]
    return FileAccess(location, await store.vend(held, writes=write), store.settings)


async def for_changed(ports: Ports, locations: Sequence[str]) -> FileAccess:
    """Access for the response of a request that was carried out: it must not fail now, so it may have no key."""
    try:
        return await open_locations(ports, locations, write=True)
    except (Unsupported, Unavailable):
        return FileAccess(locations[0])
