"""Rebuilds a catalog from its feed: replayed into an empty ledger, the entries make the same catalog.

Data outside the feed is not rebuilt: receipts, leases, reports, documents, bytes to be published,
published versions, and secrets. Losing any of it is safe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Protocol

from moorage.core.entries import Draft, Entry
from moorage.core.errors import Damaged, InvalidInput
from moorage.ledger.port import Ledger


class OpenEmpty(Protocol):
    """Opens an empty store. `first` makes its first draft."""

    async def __call__(self, *, clock_ms: Callable[[], int], first: Callable[[], Draft]) -> Ledger: ...


class _EntryClock:
    """A clock that shows the time of the entry being replayed."""

    at_ms = 0

    def __call__(self) -> int:
        return self.at_ms


async def replay(source: Ledger, open_empty: OpenEmpty) -> int:
    """Rebuild the catalog of a ledger in an empty store, and return the number of entries.

    Numbers, times, ids, revisions and callers are those of the source. The new ledger is closed at the end,
    because its clock shows the time of the last entry.
    """
    clock = _EntryClock()
    target: Ledger | None = None
    count = 0
    try:
        async for entry in _feed(source):
            clock.at_ms = entry.at_ms
            if target is None:
                target = await open_empty(clock_ms=clock, first=partial(draft_of, entry))
                if [found.draft for found in await target.entries(0, limit=2)] != [entry.draft]:
                    raise InvalidInput("the store already holds a ledger: choose an empty one")
            receipt = await target.append(draft_of(entry))  # the first one is already written: its append is a replay
            if (receipt.seq, receipt.at_ms) != (entry.seq, entry.at_ms):
                raise Damaged(f"entry {entry.seq} became entry {receipt.seq}: the feed is incomplete")
            count += 1
    finally:
        if target is not None:
            await target.close()
    return count


async def _feed(source: Ledger) -> AsyncIterator[Entry]:
    seq = 0
    while page := await source.entries(seq):
        for entry in page:
            yield entry
            seq = entry.seq


def draft_of(entry: Entry) -> Draft:
    """The draft of this entry, without its expectations: they held, or the entry would not exist."""
    return Draft(
        id=entry.draft,
        caller=entry.caller,
        api=entry.api,
        request=entry.request,
        changes=entry.body.changes,
        jobs=entry.body.jobs,
    )
