"""The feed: every entry, in order, from any point on."""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Entry
from moorage.core.privileges import Privilege
from moorage.usecases.ports import Ports


async def entries(
    ports: Ports, caller: Caller, after: int, *, limit: int = 100, wait_s: float = 0.0
) -> tuple[Entry, ...]:
    """The entries after a sequence number; with a wait, not empty before it has passed."""
    require(ports.access, caller, Privilege.FOLLOW, ())
    found = await ports.ledger.entries(after, limit=limit)
    if not found and wait_s > 0 and await ports.ledger.wait_past(after, wait_s):
        found = await ports.ledger.entries(after, limit=limit)
    return found
