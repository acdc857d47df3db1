"""Walks over the objects of the catalog, read page by page. They check no access: their callers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.securables import Securable, Shelf
from moorage.usecases.catalog.addresses import Chain, find_by_id
from moorage.usecases.catalog.paging import MAX_PAGE_SIZE
from moorage.usecases.ports import Ports


async def children(
    ports: Ports, parent: SecurableId, shelf: Shelf, *, after: str = "", page_size: int = MAX_PAGE_SIZE
) -> AsyncGenerator[Securable, None]:
    """The live children of an object on one shelf, in the order of their names, beginning after a name."""
    while True:
        items = (await ports.ledger.children(parent, shelf, after=after, limit=page_size)).items
        for item in items:
            yield item
        if len(items) < page_size:
            return
        after = name_key(items[-1].name)


async def objects_on(ports: Ports, shelf: Shelf) -> AsyncGenerator[Chain, None]:
    """The live objects on one shelf of all catalogs and namespaces, each below its ancestors.

    Each is read when it is asked for, because a walk over everything may pause for long.
    """
    after = ""
    while ids := await ports.ledger.ids_on(shelf, after=after):
        for id in ids:
            if chain := await find_by_id(ports.ledger, id):
                yield chain
        after = ids[-1]
        await asyncio.sleep(0)  # reads of SQLite do not suspend, so other requests would wait for the whole walk
