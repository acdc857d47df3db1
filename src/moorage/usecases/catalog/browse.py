"""Read the catalog: one object, or a page of a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.errors import AlreadyPurged
from moorage.core.ids import Seq
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.securables import SHELF_OF, Kind, Securable, Shelf
from moorage.ledger.port import LATEST
from moorage.usecases.catalog.addresses import Address, reach, reach_found
from moorage.usecases.catalog.paging import MAX_PAGE_SIZE, seal, unseal
from moorage.usecases.ports import Ports

_MAX_READS = 50
"""The reads for one page. Only a caller that may see hardly any of many thousand objects gets a shorter page."""


class Page(msgspec.Struct, frozen=True):
    """A page of a list, in the order of its names. `next_token` is None on the last page."""

    items: tuple[Securable, ...]
    next_token: str | None
    seq: int
    above: tuple[Securable, ...] = ()
    """The parent of the listed objects below its ancestors, outermost first."""


async def get(ports: Ports, caller: Caller, address: Address) -> tuple[Securable, ...]:
    """One live object with its ancestors, outermost first."""
    return await reach(ports, caller, address, Privilege.BROWSE)


async def names_above(ports: Ports, securable: Securable) -> tuple[str, ...]:
    """The names of an object's ancestors as the catalog spells them, whatever case a request used."""
    chain = (await ports.ledger.lineage(securable.parent)).chain
    if not chain:
        raise AlreadyPurged(f"{securable.kind} '{securable.name}' has been purged since")
    return tuple(part.name for part in chain)


async def page(
    ports: Ports,
    caller: Caller,
    parent: Address | None,
    shelf: Shelf,
    *,
    kinds: tuple[Kind, ...] = (),
    token: str | None = None,
    limit: int = 100,
) -> Page:
    """The next objects on a shelf of a parent (None: the metastore).

    A token continues after a name, so objects created or dropped between two pages neither repeat nor hide others.
    """
    if parent is None:
        return await page_below(ports, caller, (), shelf, kinds=kinds, token=token, limit=limit, since=caller.seq)
    found = await reach_found(ports, caller, parent, Privilege.BROWSE, since=caller.seq)
    since = found.position.seq
    return await page_below(ports, caller, found.chain, shelf, kinds=kinds, token=token, limit=limit, since=since)


async def pages(
    ports: Ports,
    caller: Caller,
    parent: Address | None,
    shelf: Shelf,
    *,
    kinds: tuple[Kind, ...] = (),
    token: str | None,
    limit: int,
) -> AsyncIterator[Page]:
    """The page that a token continues with. Without a token every page, for clients that do not follow tokens."""
    whole = token is None
    while True:
        size = MAX_PAGE_SIZE if whole else limit
        found = await page(ports, caller, parent, shelf, kinds=kinds, token=token, limit=size)
        yield found
        token = found.next_token
        if token is None or not whole:
            return
        await asyncio.sleep(0)  # SQLite never yields to the event loop: other requests would wait for the whole list


async def page_below(
    ports: Ports,
    caller: Caller,
    chain: tuple[Securable, ...],
    shelf: Shelf,
    *,
    kinds: tuple[Kind, ...] = (),
    token: str | None = None,
    limit: int = 100,
    since: Seq | None = None,
) -> Page:
    """`page` for a parent that was already found, at the position `since` if it is given."""
    require(ports.access, caller, Privilege.BROWSE, chain)
    parent_id = chain[-1].id if chain else ports.ledger.root
    scope = f"{caller.id}/{parent_id}/{shelf}/{','.join(kinds)}"
    after = unseal(ports.page_secret, scope, token)
    visible, after, seq = await _read_visible(ports, caller, chain, shelf, kinds, after, limit, since)
    return Page(tuple(visible), seal(ports.page_secret, scope, after) if after else None, seq, chain)


async def _read_visible(
    ports: Ports,
    caller: Caller,
    chain: tuple[Securable, ...],
    shelf: Shelf,
    kinds: tuple[Kind, ...],
    after: str,
    limit: int,
    since: Seq | None,
) -> tuple[list[Securable], str, int]:
    """The next objects that the caller may see, the key that the next page continues after, and the ledger position."""
    parent_id = chain[-1].id if chain else ports.ledger.root
    allow = ports.access.allow
    visible: list[Securable] = []
    reads = 0
    while True:
        reads += 1
        listing = await ports.ledger.children(parent_id, shelf, after=after, limit=limit + 1, kinds=kinds, since=since)
        items, after = listing.items, ""
        for item in items[:limit]:
            if allow(caller, Privilege.BROWSE, (*chain, item)):
                visible.append(item)
                if len(visible) == limit:
                    after = name_key(item.name) if item is not items[-1] else ""
                    return visible, after, listing.position.seq
        if len(items) > limit:
            after = name_key(items[limit - 1].name)
        if not after or reads == _MAX_READS:
            return visible, after, listing.position.seq
        await asyncio.sleep(0)  # SQLite never yields to the event loop: other requests would wait for the whole list


async def list_dropped(
    ports: Ports, caller: Caller, parent: Address | None, kind: Kind, *, token: str | None = None, limit: int = 100
) -> Page:
    """Objects that can still be undropped, the most recently dropped first."""
    if parent is None:
        require(ports.access, caller, Privilege.INSPECT, ())
    chain = () if parent is None else await reach(ports, caller, parent, Privilege.INSPECT)
    parent_id = chain[-1].id if chain else ports.ledger.root
    scope = f"{caller.id}/{parent_id}/dropped {kind}"
    at_ms, _, id = unseal(ports.page_secret, scope, token).partition("/")
    after = (int(at_ms), id) if id else LATEST
    listing = await ports.ledger.dropped(parent_id, SHELF_OF[kind], after=after, limit=limit + 1)
    items, next_token = listing.items, None
    if len(items) > limit:
        last = items[limit - 1]
        next_token = seal(ports.page_secret, scope, f"{last.dropped_at_ms}/{last.id}")
    return Page(tuple(item for item in items[:limit] if item.kind is kind), next_token, listing.position.seq)
