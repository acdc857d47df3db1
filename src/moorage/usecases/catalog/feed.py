"""The feed: every entry in order, from any sequence number on."""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Entry
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.usecases.ports import Ports


async def entries(
    ports: Ports, caller: Caller, after: int, *, limit: int = 100, wait_s: float = 0.0
) -> tuple[Entry, ...]:
    """The entries after a sequence number. If there are none, wait up to `wait_s` for the next one."""
    require(ports.access, caller, Privilege.FOLLOW, ())
    found = await ports.ledger.entries(after, limit=limit)
    if found:
        return found
    await _require_known(ports, after)
    if wait_s > 0 and await ports.ledger.wait_for_entry_after(after, wait_s):
        found = await ports.ledger.entries(after, limit=limit)
    return found


async def _require_known(ports: Ports, seq: int) -> None:
    """Refuse a number that the ledger has not reached: the client would miss the entries that get these numbers."""
    last = (await ports.ledger.position()).seq
    if seq > last:
        raise InvalidInput(
            f"the ledger ends at entry {last}, so entry {seq} is of another ledger or was lost in a restore; "
            "read the feed again from the beginning",
            field="after",
        )
