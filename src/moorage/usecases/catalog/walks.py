"""Walks over the objects of the catalog, read page by page. They check no access: their callers do."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.securables import Securable, Shelf
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.catalog.paging import MAX_PAGE_SIZE
from moorage.usecases.ports import Ports

_PAGE = 100
"""A walk over everything may pause for long, so it holds few records that can be outdated."""


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
    """The objects on one shelf of all catalogs and namespaces, each below its ancestors."""
    async for catalog in children(ports, ports.ledger.root, Shelf.CATALOG, page_size=_PAGE):
        async for chain in _below(ports, (catalog,), shelf):
            yield chain


async def _below(ports: Ports, above: Chain, shelf: Shelf) -> AsyncGenerator[Chain, None]:
    async for item in children(ports, above[-1].id, shelf, page_size=_PAGE):
        yield (*above, item)
    async for namespace in children(ports, above[-1].id, Shelf.NAMESPACE, page_size=_PAGE):
        async for chain in _below(ports, (*above, namespace), shelf):
            yield chain
