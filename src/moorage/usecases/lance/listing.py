"""The list of Lance tables in all catalogs and namespaces."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.securables import Shelf
from moorage.ledger.port import Step
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.lance.tables import table_names
from moorage.usecases.ports import Ports

_MAX_NAMESPACES = 1_000
"""The maximum number of namespaces that one page reads. A page may have fewer tables than requested, or none."""


class _Cursor(msgspec.Struct, frozen=True):
    """Where a page begins: the name keys of a namespace's path, and the key of the table before the page."""

    path: tuple[str, ...] = ()
    after: str = ""


async def list_all_tables(
    ports: Ports, caller: Caller, *, token: str | None, limit: int, declared: bool
) -> tuple[list[tuple[str, ...]], str | None]:
    """A page of paths of Lance tables in all catalogs, and the token of the next page.

    A namespace is listed before its children, so a page token is a position in the tree: tables that are created or
    dropped between two pages neither repeat nor hide other tables.
    """
    require(ports.access, caller, Privilege.BROWSE, ())
    scope = f"{caller.id}/lance/all/{declared}"
    text = unseal(ports.page_secret, scope, token)
    cursor = msgspec.json.decode(text, type=_Cursor) if text else _Cursor()
    found: list[tuple[str, ...]] = []
    chain, after = await _resume(ports, cursor)
    for _ in range(_MAX_NAMESPACES):
        if not chain:
            return found, None
        if ports.access.allow(caller, Privilege.BROWSE, chain):
            names = await table_names(ports, caller, chain, after=after, limit=limit - len(found), declared=declared)
            found += [(*(part.name for part in chain), name) for name in names]
        if len(found) == limit:
            return found, _page_token(ports, scope, chain, name_key(found[-1][-1]))
        chain, after = await _next_namespace(ports, chain), ""
    return found, _page_token(ports, scope, chain, "") if chain else None


def _page_token(ports: Ports, scope: str, chain: Chain, after: str) -> str:
    path = tuple(name_key(part.name) for part in chain)
    return seal(ports.page_secret, scope, msgspec.json.encode(_Cursor(path, after)).decode())


async def _resume(ports: Ports, cursor: _Cursor) -> tuple[Chain, str]:
    """The namespace of a cursor, or the next one if it was dropped, and the key to continue after. Empty at the end."""
    if not cursor.path:
        return await _first_child(ports, (), ""), ""
    steps = [Step(Shelf.NAMESPACE if depth else Shelf.CATALOG, key) for depth, key in enumerate(cursor.path)]
    chain = (await ports.ledger.walk(steps)).chain
    if len(chain) == len(steps):
        return chain, cursor.after
    return await _first_child(ports, chain, steps[len(chain)].key) or await _next_sibling(ports, chain), ""


async def _next_namespace(ports: Ports, chain: Chain) -> Chain:
    """The next namespace in tree order: the first child, else the next sibling of it or of an ancestor."""
    return await _first_child(ports, chain, "") or await _next_sibling(ports, chain)


async def _next_sibling(ports: Ports, chain: Chain) -> Chain:
    for depth in range(len(chain) - 1, -1, -1):
        if found := await _first_child(ports, chain[:depth], name_key(chain[depth].name)):
            return found
    return ()


async def _first_child(ports: Ports, chain: Chain, after: str) -> Chain:
    """The first child namespace after a key; at the root, the first catalog after a key."""
    parent, shelf = (chain[-1].id, Shelf.NAMESPACE) if chain else (ports.ledger.root, Shelf.CATALOG)
    found = (await ports.ledger.children(parent, shelf, after=after, limit=1)).items
    return (*chain, *found) if found else ()
