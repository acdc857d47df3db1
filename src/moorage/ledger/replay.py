"""A catalog from its feed alone: told again to an empty ledger, history makes the same catalog.

What no entry tells is not made: receipts, leases, reports, documents, bytes that wait to be published,
what was noted as published, and secrets. All of it can be lost (core: facts and notes).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Protocol

from moorage.core.entries import Draft, Entry
from moorage.core.errors import Damaged, InvalidInput
from moorage.ledger.port import Ledger


class OpenEmpty(Protocol):
    """Opens a store that holds nothing yet. `first` is the draft that it begins with."""

    async def __call__(self, *, clock_ms: Callable[[], int], first: Callable[[], Draft]) -> Ledger: ...


class _Then:
    """The clock of the past."""

    at_ms = 0

    def __call__(self) -> int:
        return self.at_ms


async def replay(source: Ledger, open_empty: OpenEmpty) -> int:
    """Make the catalog of a ledger again in an empty store; how many entries it took.

    Numbers, times, ids, revisions and callers are those of the source. The new ledger is closed at the end:
    its clock stood still at each entry's time.
    """
    clock = _Then()
    target: Ledger | None = None
    count = 0
    try:
        async for entry in _feed(source):
            clock.at_ms = entry.at_ms
            if target is None:
                target = await open_empty(clock_ms=clock, first=partial(draft_of, entry))
                if [found.draft for found in await target.entries(0, limit=2)] != [entry.draft]:
                    raise InvalidInput("the store holds a ledger already: choose an empty one")
            receipt = await target.append(draft_of(entry))  # the first is there by now: sent again, it answers alike
            if (receipt.seq, receipt.at_ms) != (entry.seq, entry.at_ms):
                raise Damaged(f"entry {entry.seq} became entry {receipt.seq}: the feed is not whole")
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
    """The draft that became this entry, without what it relied on: that held, or there would be no entry."""
    return Draft(
        id=entry.draft,
        caller=entry.caller,
        api=entry.api,
        request=entry.request,
        changes=entry.story.changes,
        jobs=entry.story.jobs,
    )
