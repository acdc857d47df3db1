"""Purging what was dropped: announced first, then files, then rows, in slices.

Every step may be repeated by anybody: files are deleted before the rows that name them, so a crash
in between only means that they are deleted again.
"""

from __future__ import annotations

from moorage import fresh
from moorage.core.callers import SYSTEM
from moorage.core.entries import Change, Draft, Drop, Erase, Expect, Purge, RevisionIs
from moorage.core.ids import SecurableId
from moorage.core.securables import Kind, Securable
from moorage.ledger.port import Stale
from moorage.usecases.ports import Ports

_SLICE = 500
_HOLDS_FILES = frozenset({Kind.TABLE, Kind.VOLUME, Kind.STAGE})


async def purge_due(ports: Ports) -> int:
    """Purge what is due, one root after another; how many objects went."""
    erased = 0
    for root in await ports.ledger.due_for_purge():
        if await _announce(ports, root):
            erased += await _erase_tree(ports, root.id)
    return erased


async def _announce(ports: Ports, root: Securable) -> bool:
    """Nobody can undrop it from here on. False: somebody brought it back at the last moment."""
    if root.purged:
        return True
    forget = (Drop(id=root.id, hold_ms=0),) if root.is_live else ()  # a stage that never became a table
    return await _append(ports, (RevisionIs(root.id, root.revision),), (*forget, Purge(id=root.id)))


async def _erase_tree(ports: Ports, root: SecurableId) -> int:
    erased = 0
    path = [root]
    while path:
        below = await ports.ledger.below(path[-1], _SLICE)
        leaves = [child.securable for child in below if child.is_leaf]
        if leaves:
            erased += await _erase(ports, leaves)
        elif below:
            path.append(below[0].securable.id)
        else:
            own = (await ports.ledger.lineage(path.pop())).chain
            erased += await _erase(ports, [own[-1]]) if own else 0
    return erased


async def _erase(ports: Ports, doomed: list[Securable]) -> int:
    for securable in doomed:
        await _delete_files(ports, securable)
    # Another server may be at the same slice: the revision of its first object tells who was first.
    first = doomed[0]
    change = Erase(ids=tuple(securable.id for securable in doomed))
    return len(doomed) if await _append(ports, (RevisionIs(first.id, first.revision),), (change,)) else 0


async def _delete_files(ports: Ports, securable: Securable) -> None:
    doc = securable.doc
    is_external = doc.table is not None and not doc.table.managed
    if securable.kind in _HOLDS_FILES and doc.location is not None and not is_external:
        await ports.storage.delete_all(doc.location)


async def _append(ports: Ports, expects: tuple[Expect, ...], changes: tuple[Change, ...]) -> bool:
    try:
        await ports.ledger.append(
            Draft(
                id=fresh.draft_id(),
                caller=SYSTEM.id,
                api="chores",
                request="purge",
                expects=expects,
                changes=changes,
            )
        )
    except Stale:
        return False
    return True
