"""Lance tables: declared, registered, described, listed, let go."""

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
from moorage.usecases.catalog.staging import created_from_staging, find_stage_at, staging
from moorage.usecases.lance.lookup import LANCE, find_table, is_lance, location_of, taken
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

_FEWEST = 100
"""So many are looked at together, even if fewer are wanted: most may be tables of another format."""


async def declare_table(
    ports: Ports, errand: Errand, address: Address, *, location: str | None, properties: dict[str, str]
) -> Securable:
    """Create a table that has a name and a location, and no version yet."""

    async def prepare(caller: Caller) -> Part:
        above = await _require_room(ports, caller, address)
        return await prepare_creation(ports, caller, address, above, location=location, properties=properties)

    return await settle_one(ports, errand, prepare)


async def stage_table(ports: Ports, errand: Errand, address: Address, *, location: str | None) -> str:
    """Where a table may be written before it is declared, which then has to happen with this location.

    A place of our own is remembered: what nobody declares in time is purged, with its files. One that the caller
    brings, or was given before, is only looked at, and again by the declaration.
    """

    async def prepare(caller: Caller) -> Part:
        above = await _require_room(ports, caller, address)
        return staging(ports, caller, above, address.path[-1])

    if location is None:
        return location_of(await settle_one(ports, errand, prepare))
    above = await _require_room(ports, errand.caller, address)
    stage = await find_stage_at(ports, errand.caller, above, parse_location(location, field="location"))
    return location_of(stage) if stage is not None else (await _brought_place(ports, location)).rstrip("/")


async def _require_room(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The ancestors of a name that is free."""
    above, holder = await find_room(ports, caller, address)
    if holder is not None:
        raise taken(address, holder)
    return above


async def find_room(ports: Ports, caller: Caller, address: Address) -> tuple[Chain, Securable | None]:
    """The ancestors of a name, in which the caller may create, and whatever bears it now."""
    require_name(address.path[-1], "id")
    return await reach_parent(ports, caller, address)


async def _brought_place(ports: Ports, location: str) -> str:
    place = external_location(ports.roots, location, field="location")
    await require_reachable(ports, place)
    return place


async def prepare_creation(
    ports: Ports, caller: Caller, address: Address, above: Chain, *, location: str | None, properties: dict[str, str]
) -> Part:
    """The same below ancestors that were found already, under a name that is free.

    Its id and its place are new, or were given out when it was staged, or it brings the place.
    """
    id = fresh.securable_id()
    if location is None:
        place = assigned_location(ports.roots, above, "tables", id)
        return new_table_part(caller, address, above, id, place, properties, managed=True)
    stage = await find_stage_at(ports, caller, above, parse_location(location, field="location"))
    if stage is not None:
        return from_staging_table(caller, address, above, stage, properties)
    return new_table_part(caller, address, above, id, await _brought_place(ports, location), properties, managed=False)


def new_table_part(
    caller: Caller,
    address: Address,
    above: Chain,
    id: SecurableId,
    place: str,
    properties: dict[str, str],
    *,
    managed: bool,
) -> Part:
    """A new table at a place that nobody holds."""
    parent = above[-1].id
    create = Create(
        id=id,
        kind=Kind.TABLE,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=Doc(properties=properties, location=place, table=TableDoc(format=LANCE, managed=managed)),
        place=place,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(place)),
        changes=(create,),
        done=Done(ids=(id,)),
    )


def from_staging_table(
    caller: Caller, address: Address, above: Chain, stage: Securable, properties: dict[str, str]
) -> Part:
    """A stage becomes the table."""
    return created_from_staging(
        stage, new_table_part(caller, address, above, stage.id, require_location(stage), properties, managed=True)
    )


async def drop_table(ports: Ports, errand: Errand, address: Address, *, keep_files: bool = False) -> Securable:
    """Free the name. The files of a table in the catalog's own storage are deleted after the hold.

    With `keep_files` the catalog releases them, so that they can be registered again.
    """

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MANAGE))[-1]
        return dropping_table(ports, table, keep_files=keep_files)

    return await settle_one(ports, errand, prepare)


async def rename_table(ports: Ports, errand: Errand, address: Address, to: Address) -> Securable:
    """Give a table another name, here or in another namespace. No file moves."""

    async def prepare(caller: Caller) -> Part:
        await find_table(ports, caller, address, Privilege.MANAGE)
        return await objects.prepare_rename(ports, caller, address, to, field="new_table_name")

    return await settle_one(ports, errand, prepare)


def dropping_table(ports: Ports, table: Securable, *, keep_files: bool = False) -> Part:
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
    """Names of Lance tables in a namespace, and the token that continues. At the root there are none.

    `declared`: those that have no version yet, too.
    """
    if space is None:
        return [], None
    chain = await reach(ports, caller, space, Privilege.BROWSE)
    scope = f"{caller.id}/{chain[-1].id}/lance/{declared}"
    after = unseal(ports.page_secret, scope, token)
    names = await names_below(ports, caller, chain, after=after, most=limit + 1, declared=declared)
    more = len(names) > limit
    return names[:limit], seal(ports.page_secret, scope, name_key(names[limit - 1])) if more else None


async def names_below(
    ports: Ports, caller: Caller, chain: Chain, *, after: str, most: int, declared: bool
) -> list[str]:
    """The names of at most so many Lance tables of one namespace, in order, after a key."""
    names: list[str] = []
    asked = max(most, _FEWEST)
    allow = ports.access.allow
    while True:
        listing = await ports.ledger.children(
            chain[-1].id, Shelf.RELATION, after=after, limit=asked, kinds=(Kind.TABLE,)
        )
        names += [
            item.name
            for item in listing.items
            if is_lance(item)
            and (declared or item.head is not None)
            and allow(caller, Privilege.BROWSE, (*chain, item))
        ]
        if len(names) >= most or len(listing.items) < asked:
            return names[:most]
        after = name_key(listing.items[-1].name)
        await asyncio.sleep(0)  # SQLite keeps nobody waiting, so all others would wait for the end of the list
