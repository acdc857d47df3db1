"""Lists of the objects of one kind in all schemas of all catalogs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable, Shelf
from moorage.ledger.port import Step
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.catalog.walks import children
from moorage.usecases.ports import Ports

SCHEMAS_PER_PAGE = 1000
"""A page ends after this many schemas, even if it is not full: most of them may have no object of the kind."""


class _Position(msgspec.Struct, frozen=True, array_like=True):
    """The last object of a page, by the keys of its names. Without an object, the schema was listed to its end."""

    catalog: str
    schema: str
    item: str | None


class PageOfChains(msgspec.Struct, frozen=True):
    """Objects with their catalog and schema, ordered by these names; `next_token` is None at the end."""

    chains: tuple[Chain, ...]
    next_token: str | None


async def page_everywhere(ports: Ports, caller: Caller, shelf: Shelf, *, token: str | None, limit: int) -> PageOfChains:
    """The next objects on one shelf of all schemas that the caller can browse.

    A token continues after a name, so objects that are created or dropped meanwhile cause no duplicates and no gaps.
    """
    require(ports.access, caller, Privilege.BROWSE, ())
    scope = f"{caller.id}/everywhere/{shelf}"
    text = unseal(ports.page_secret, scope, token)
    start = msgspec.json.decode(text, type=_Position) if text else _Position("", "", None)
    found: list[Chain] = []
    last = start
    count = 0
    async for above in _schemas_from(ports, caller, start):
        if count == SCHEMAS_PER_PAGE:
            return PageOfChains(tuple(found), seal(ports.page_secret, scope, _text(last)))
        count += 1
        catalog, schema = (name_key(part.name) for part in above)
        after = start.item or "" if (catalog, schema) == (start.catalog, start.schema) else ""
        async for item in children(ports, above[-1].id, shelf, after=after):
            if not ports.access.allow(caller, Privilege.BROWSE, (*above, item)):
                continue
            if len(found) == limit:
                return PageOfChains(tuple(found), seal(ports.page_secret, scope, _text(last)))
            found.append((*above, item))
            last = _Position(catalog, schema, name_key(item.name))
        last = _Position(catalog, schema, None)
    return PageOfChains(tuple(found), None)


async def _schemas_from(ports: Ports, caller: Caller, start: _Position) -> AsyncIterator[Chain]:
    """Each schema below its catalog, beginning with that of the position if it was not listed to its end."""
    if start.catalog:
        steps = (Step(Shelf.CATALOG, start.catalog), Step(Shelf.NAMESPACE, start.schema))
        chain = (await ports.ledger.walk(steps)).chain
        if len(chain) == len(steps) and start.item is not None and _allows(ports, caller, chain):
            yield chain
        if chain:
            async for found in _schemas_of(ports, caller, chain[0], after=start.schema):
                yield found
    async for catalog in children(ports, ports.ledger.root, Shelf.CATALOG, after=start.catalog):
        async for found in _schemas_of(ports, caller, catalog, after=""):
            yield found


async def _schemas_of(ports: Ports, caller: Caller, catalog: Securable, *, after: str) -> AsyncIterator[Chain]:
    if _allows(ports, caller, (catalog,)):
        async for schema in children(ports, catalog.id, Shelf.NAMESPACE, after=after):
            if _allows(ports, caller, (catalog, schema)):
                yield (catalog, schema)


def _allows(ports: Ports, caller: Caller, chain: Chain) -> bool:
    return ports.access.allow(caller, Privilege.BROWSE, chain)


def _text(position: _Position) -> str:
    return msgspec.json.encode(position).decode()
