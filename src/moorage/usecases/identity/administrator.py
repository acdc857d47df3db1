"""The first administrator: created with the first start that has authentication, and restored by an operator.

Both work on the ledger itself, because no caller can authenticate before. The metastore belongs to the group `admins`
from then on, which is also how a server recognises that its ledger has an administrator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import LOCAL, SYSTEM
from moorage.core.entries import Change, Create, Draft, Drop, Expect, NameFree, RevisionIs, Update
from moorage.core.errors import Busy
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.principals import ADMIN, ADMINS, Principal, doc_of, principal_of
from moorage.core.securables import Kind, Securable, Shelf
from moorage.ledger.port import Ledger, Stale, Step
from moorage.usecases.identity.tokens import new_token_change

_PAGE = 500
_TOP = tuple(shelf for shelf in Shelf if shelf not in (Shelf.METASTORE, Shelf.PRINCIPAL, Shelf.TOKEN))
"""Catalogs, shares, recipients, and whatever else the metastore may contain."""
_BELOW = (
    *(Shelf.NAMESPACE, Shelf.RELATION, Shelf.VOLUME, Shelf.FUNCTION, Shelf.MODEL, Shelf.PIPELINE),
    Shelf.STAGING_TABLE,
)


async def has_administrator(ledger: Ledger) -> bool:
    """Whether authentication was on before."""
    return (await _metastore(ledger)).owner != SYSTEM.id


async def ensure_administrator(ledger: Ledger) -> str | None:
    """Create the first administrator and return its token, or None if the ledger has one.

    Everything that was created without authentication belongs to the administrator afterwards. This comes first: if the
    server stops in between, the next start continues.
    """
    metastore = await _metastore(ledger)
    if metastore.owner != SYSTEM.id:
        return None
    await _adopt(ledger)
    try:
        return await _install(ledger, metastore)
    except Stale:  # another server that was started at the same time has created it
        return None


async def reset_administrator(ledger: Ledger) -> str:
    """Give the administrator a new token, and revoke its other tokens. Creates or activates it if necessary."""
    for _ in range(16):
        try:
            return await _install(ledger, await _metastore(ledger))
        except Stale:
            continue
    raise Busy("servers of this ledger changed its principals 16 times in a row; nothing was done: retry")


async def _metastore(ledger: Ledger) -> Securable:
    return (await ledger.lineage(ledger.root)).chain[-1]


async def _install(ledger: Ledger, metastore: Securable) -> str:
    expects: list[Expect] = [RevisionIs(metastore.id, metastore.revision)]
    changes: list[Change] = []
    await _ensure_principal(ledger, Kind.GROUP, ADMINS, (), expects, changes)
    admin = await _ensure_principal(ledger, Kind.USER, ADMIN, (ADMINS,), expects, changes)
    tokens = [each async for each in _children(ledger, admin, Shelf.TOKEN)]
    changes += [Drop(id=token.id, hold_ms=0, changes_access=True) for token in tokens]
    text, create = new_token_change(admin, "created by the server")
    changes.append(create)
    changes.append(Update(id=metastore.id, doc=metastore.doc, owner=ADMINS))
    await ledger.append(_draft(expects, changes))
    return text


async def _ensure_principal(
    ledger: Ledger, kind: Kind, name: str, groups: tuple[str, ...], expects: list[Expect], changes: list[Change]
) -> SecurableId:
    chain = (await ledger.walk((Step(Shelf.PRINCIPAL, name_key(name)),))).chain
    if not chain:
        id = fresh.securable_id()
        expects.append(NameFree(ledger.root, Shelf.PRINCIPAL, name_key(name)))
        doc = doc_of(Principal(groups=groups))
        changes.append(Create(id=id, kind=kind, parent=ledger.root, name=name, owner=SYSTEM.id, doc=doc))
        return id
    found = chain[0]
    before = principal_of(found)
    after = replace(before, active=True, deleted=False, groups=tuple(dict.fromkeys((*before.groups, *groups))))
    expects.append(RevisionIs(found.id, found.revision))
    if after != before:
        changes.append(Update(id=found.id, doc=doc_of(after, found.doc.comment), changes_access=True))
    return found.id


async def _adopt(ledger: Ledger) -> None:
    """Make the administrator the owner of what the caller of an open server owned."""
    batch: list[Securable] = []
    async for found in _tree(ledger, ledger.root, _TOP):
        if found.owner == LOCAL.id:
            batch.append(found)
        if len(batch) == _PAGE:
            await _transfer(ledger, batch)
            batch = []
            await asyncio.sleep(0)
    await _transfer(ledger, batch)


async def _transfer(ledger: Ledger, batch: list[Securable]) -> None:
    if batch:
        expects: list[Expect] = [RevisionIs(each.id, each.revision) for each in batch]
        await ledger.append(_draft(expects, [Update(id=each.id, doc=each.doc, owner=ADMIN) for each in batch]))


async def _tree(ledger: Ledger, parent: SecurableId, shelves: tuple[Shelf, ...]) -> AsyncIterator[Securable]:
    for shelf in shelves:
        async for child in _children(ledger, parent, shelf):
            yield child
            if child.kind in (Kind.CATALOG, Kind.NAMESPACE, Kind.MODEL):
                below = (Shelf.MODEL_VERSION,) if child.kind is Kind.MODEL else _BELOW
                async for each in _tree(ledger, child.id, below):
                    yield each


async def _children(ledger: Ledger, parent: SecurableId, shelf: Shelf) -> AsyncIterator[Securable]:
    after = ""
    while items := (await ledger.children(parent, shelf, after=after, limit=_PAGE)).items:
        for item in items:
            yield item
        after = name_key(items[-1].name)


def _draft(expects: list[Expect], changes: list[Change]) -> Draft:
    return Draft(
        id=fresh.draft_id(),
        caller=SYSTEM.id,
        api="server",
        request="administrator",
        expects=tuple(expects),
        changes=tuple(changes),
    )
