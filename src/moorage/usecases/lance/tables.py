"""Lance tables: declare, stage, rename, drop and list."""

from __future__ import annotations

import asyncio

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, Drop, Live, LocationFree, NameFree, RevisionIs, Update
from moorage.core.ids import SecurableId
from moorage.core.locations import assigned_location, external_location, parse_location, require_location
from moorage.core.names import name_key, require_name
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable, Shelf, TableDoc, release_files
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, Chain, reach, reach_parent
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.catalog.staging import create_from_staging_table, find_staging_table_at, prepare_staging_table
from moorage.usecases.lance.lookup import LANCE, client_location, find_table, is_lance, name_taken_error
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

_MIN_PAGE_SIZE = 100
"""The smallest page to read from the ledger: most of its tables may have another format."""


async def declare_table(
    ports: Ports, errand: Errand, address: Address, *, location: str | None, properties: dict[str, str]
) -> Securable:
    """Create a table that has a name and a location, and no version yet."""

    async def prepare(caller: Caller) -> Part:
        above = await _require_free_name(ports, caller, address)
        return await prepare_creation(ports, caller, address, above, location=location, properties=properties)

    return await settle_one(ports, errand, prepare)


async def stage_table(ports: Ports, errand: Errand, address: Address, *, location: str | None) -> str:
    """The location for a table that is written before it is declared. The declaration must name this location.

    A location that the catalog assigns is recorded as a staging table, and purged with its files if it is not declared
    in time. A location that the caller passes, or got from an earlier staging, is only checked here, and again by the
    declaration.
    """

    async def prepare(caller: Caller) -> Part:
        above = await _require_free_name(ports, caller, address)
        return prepare_staging_table(ports, caller, above, address.path[-1])

    if location is None:
        return client_location(await settle_one(ports, errand, prepare))
    above = await _require_free_name(ports, errand.caller, address)
    staging_table = await find_staging_table_at(ports, errand.caller, above, parse_location(location, field="location"))
    return (
        client_location(staging_table)
        if staging_table is not None
        else (await _reachable_location(ports, location)).rstrip("/")
    )


async def _require_free_name(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The ancestors of a free name."""
    above, holder = await find_holder(ports, caller, address)
    if holder is not None:
        raise name_taken_error(address, holder)
    return above


async def find_holder(ports: Ports, caller: Caller, address: Address) -> tuple[Chain, Securable | None]:
    """The ancestors of a name, in which the caller may create, and the object that has the name, if any."""
    require_name(address.path[-1], "id")
    return await reach_parent(ports, caller, address)


async def _reachable_location(ports: Ports, requested: str) -> str:
    location = external_location(ports.roots, requested, field="location")
    await require_reachable(ports, location)
    return location


async def prepare_creation(
    ports: Ports, caller: Caller, address: Address, above: Chain, *, location: str | None, properties: dict[str, str]
) -> Part:
    """The part that creates a table under a free name, below ancestors that were already found.

    The id and location are new or those of its staging table, or the location is external.
    """
    id = fresh.securable_id()
    if location is None:
        assigned = assigned_location(ports.roots, above, "tables", id)
        return new_table_part(caller, address, above, id, assigned, properties, managed=True)
    staging_table = await find_staging_table_at(ports, caller, above, parse_location(location, field="location"))
    if staging_table is not None:
        return from_staging_table(caller, address, above, staging_table, properties)
    return new_table_part(
        caller, address, above, id, await _reachable_location(ports, location), properties, managed=False
    )


def new_table_part(
    caller: Caller,
    address: Address,
    above: Chain,
    id: SecurableId,
    location: str,
    properties: dict[str, str],
    *,
    managed: bool,
) -> Part:
    """The part that creates a table at a free location."""
    parent = above[-1].id
    create = Create(
        id=id,
        kind=Kind.TABLE,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=Doc(properties=properties, location=location, table=TableDoc(format=LANCE, managed=managed)),
        place=location,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(location)),
        changes=(create,),
        done=Done(ids=(id,)),
    )


def from_staging_table(
    caller: Caller, address: Address, above: Chain, staging_table: Securable, properties: dict[str, str]
) -> Part:
    """The part that turns a staging table into the table."""
    return create_from_staging_table(
        staging_table,
        new_table_part(
            caller, address, above, staging_table.id, require_location(staging_table), properties, managed=True
        ),
    )


async def drop_table(ports: Ports, errand: Errand, address: Address, *, keep_files: bool = False) -> Securable:
    """Free the name. The files of a table in the catalog's own storage are deleted after the hold.

    With `keep_files` the catalog releases them, so that they can be registered again.
    """

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MANAGE))[-1]
        return drop_table_part(ports, table, keep_files=keep_files)

    return await settle_one(ports, errand, prepare)


async def rename_table(ports: Ports, errand: Errand, address: Address, to: Address) -> Securable:
    """Rename a table, within its namespace or into another one. No file moves."""

    async def prepare(caller: Caller) -> Part:
        await find_table(ports, caller, address, Privilege.MANAGE)
        return await objects.prepare_rename(ports, caller, address, to, field="new_table_name")

    return await settle_one(ports, errand, prepare)


def drop_table_part(ports: Ports, table: Securable, *, keep_files: bool = False) -> Part:
    return Part(
        expects=(Live(table.id), RevisionIs(table.id, table.revision)),
        changes=(
            *((Update(id=table.id, doc=release_files(table.doc)),) if keep_files else ()),
            Drop(id=table.id, hold_ms=ports.hold_ms),
        ),
        done=Done(ids=(table.id,)),
        before=table,
    )


async def list_tables(
    ports: Ports, caller: Caller, space: Address | None, *, token: str | None, limit: int, declared: bool
) -> tuple[list[str], str | None]:
    """A page of names of Lance tables in a namespace, and the token of the next page. The root has no tables.

    With `declared`, tables without a version are included.
    """
    if space is None:
        return [], None
    chain = await reach(ports, caller, space, Privilege.BROWSE)
    scope = f"{caller.id}/{chain[-1].id}/lance/{declared}"
    after = unseal(ports.page_secret, scope, token)
    names = await table_names(ports, caller, chain, after=after, limit=limit + 1, declared=declared)
    more = len(names) > limit
    return names[:limit], seal(ports.page_secret, scope, name_key(names[limit - 1])) if more else None


async def table_names(
    ports: Ports, caller: Caller, chain: Chain, *, after: str, limit: int, declared: bool
) -> list[str]:
    """The names of Lance tables in one namespace, in order, after a key."""
    names: list[str] = []
    page_limit = max(limit, _MIN_PAGE_SIZE)
    allow = ports.access.allow
    while True:
        listing = await ports.ledger.children(
            chain[-1].id, Shelf.RELATION, after=after, limit=page_limit, kinds=(Kind.TABLE,)
        )
        names += [
            item.name
            for item in listing.items
            if is_lance(item)
            and (declared or item.head is not None)
            and allow(caller, Privilege.BROWSE, (*chain, item))
        ]
        if len(names) >= limit or len(listing.items) < page_limit:
            return names[:limit]
        after = name_key(listing.items[-1].name)
        await asyncio.sleep(0)  # SQLite's calls never yield, so a long list would block all other requests
