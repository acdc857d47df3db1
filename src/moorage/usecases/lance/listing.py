"""All Lance tables of the catalog, wherever they are."""

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
from moorage.usecases.lance.tables import names_below
from moorage.usecases.ports import Ports

_MOST_SPACES = 1_000
"""One page looks into so many namespaces, and may hold fewer tables than were asked for, or none."""


class _Place(msgspec.Struct, frozen=True):
    """Where a page begins: in a namespace by the keys of its path, after a table by its key."""

    path: tuple[str, ...] = ()
    after: str = ""


async def list_all_tables(
    ports: Ports, caller: Caller, *, token: str | None, limit: int, declared: bool
) -> tuple[list[tuple[str, ...]], str | None]:
    """The paths of Lance tables of all catalogs, and the token that continues.

    A namespace comes before those inside it, so a page token is a place in the tree: what comes or goes
    meanwhile neither repeats nor hides others.
    """
    require(ports.access, caller, Privilege.BROWSE, ())
    scope = f"{caller.id}/lance/all/{declared}"
    text = unseal(ports.page_secret, scope, token)
    place = msgspec.json.decode(text, type=_Place) if text else _Place()
    found: list[tuple[str, ...]] = []
    chain, after = await _resume(ports, place)
    for _ in range(_MOST_SPACES):
        if not chain:
            return found, None
        if ports.access.allow(caller, Privilege.BROWSE, chain):
            names = await names_below(ports, caller, chain, after=after, most=limit - len(found), declared=declared)
            found += [(*(part.name for part in chain), name) for name in names]
        if len(found) == limit:
            return found, _token(ports, scope, chain, name_key(found[-1][-1]))
        chain, after = await _following(ports, chain), ""
    return found, _token(ports, scope, chain, "") if chain else None


def _token(ports: Ports, scope: str, chain: Chain, after: str) -> str:
    path = tuple(name_key(part.name) for part in chain)
    return seal(ports.page_secret, scope, msgspec.json.encode(_Place(path, after)).decode())


async def _resume(ports: Ports, place: _Place) -> tuple[Chain, str]:
    """The namespace of a place and where to go on in it; if it is gone, the one that follows. None: it was the last."""
    if not place.path:
        return await _below(ports, (), ""), ""
    steps = [Step(Shelf.NAMESPACE if depth else Shelf.CATALOG, key) for depth, key in enumerate(place.path)]
    chain = (await ports.ledger.walk(steps)).chain
    if len(chain) == len(steps):
        return chain, place.after
    return await _below(ports, chain, steps[len(chain)].key) or await _beside(ports, chain), ""


async def _following(ports: Ports, chain: Chain) -> Chain:
    """The namespace that comes next: the first inside, else the next beside it or one of those above it."""
    return await _below(ports, chain, "") or await _beside(ports, chain)


async def _beside(ports: Ports, chain: Chain) -> Chain:
    for depth in range(len(chain) - 1, -1, -1):
        if found := await _below(ports, chain[:depth], name_key(chain[depth].name)):
            return found
    return ()


async def _below(ports: Ports, chain: Chain, after: str) -> Chain:
    """The first namespace inside this one, after a key; at the root, the first catalog."""
    parent, shelf = (chain[-1].id, Shelf.NAMESPACE) if chain else (ports.ledger.root, Shelf.CATALOG)
    found = (await ports.ledger.children(parent, shelf, after=after, limit=1)).items
    return (*chain, *found) if found else ()
