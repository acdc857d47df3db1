"""Drafts that no store can write, and drafts that are sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moorage import fresh
from moorage.core.entries import Done, Draft, HeadIs, Receipt
from moorage.core.errors import MoorageError, OutcomeUnknown, Unavailable
from moorage.core.securables import MAIN, Shelf
from moorage.ledger.port import Ledger
from moorage.testing import builders as make
from moorage.testing.builders import Clock, Lake

# Each violates a constraint of the database that no expectation covers, as a faulty use case would.
POISONS: dict[str, Callable[[Lake], Draft]] = {
    "an id twice": lambda lake: make.draft(make.table(lake.namespace, "p", id=lake.table)),
    "a name twice": lambda lake: make.draft(make.table(lake.namespace, "t")),
    "a name twice in one draft": lambda lake: make.draft(
        make.table(lake.namespace, "p"), make.table(lake.namespace, "P")
    ),
    "a version twice": lambda lake: make.draft(make.commit(lake.table, 0)),
    "a location twice": lambda lake: make.draft(
        make.table(lake.namespace, "p", path="s3://b/p"), make.table(lake.namespace, "q", path="s3://b/p")
    ),
    "a number too large": lambda lake: make.draft(make.commit(lake.table, 2**63)),
    "an outcome that is not valid Unicode": lambda lake: make.draft(
        make.catalog(lake.catalog, "p"), key=make.idempotency_key("p"), outcome=Done(ids=("\ud800",))
    ),
}


class Failures:
    @pytest.mark.parametrize("kind", POISONS)
    async def test_a_poisoned_draft_fails_alone(self, ledger: Ledger, kind: str) -> None:
        lake = await make.lake(ledger, "t", "other")
        poison = POISONS[kind](lake)
        other = lake.tables[1]
        good = [
            make.draft(make.commit(other, version), expects=[HeadIs(other, MAIN, version - 1)])
            for version in range(1, 11)
        ]
        before = (await ledger.position()).seq
        results = await asyncio.gather(*map(ledger.append, [*good[:5], poison, *good[5:]]), return_exceptions=True)
        failure = results.pop(5)
        assert isinstance(failure, MoorageError)
        assert not isinstance(failure, OutcomeUnknown)
        assert all(isinstance(result, Receipt) for result in results)
        entries = await ledger.entries(before)
        assert [entry.draft for entry in entries] == [draft.id for draft in good]
        assert [entry.seq for entry in entries] == list(range(before + 1, before + 11))

    async def test_a_poisoned_draft_leaves_the_ledger_usable(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        for poison in POISONS.values():
            with pytest.raises(MoorageError):
                await ledger.append(poison(lake))
        receipt = await make.add(ledger, make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)])
        assert receipt.seq == (await ledger.position()).seq == 3
        assert len((await ledger.children(lake.namespace, Shelf.RELATION)).items) == 1

    async def test_a_retried_draft_gets_its_first_receipt(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        draft = make.draft(
            make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)], outcome=Done(versions=(1,))
        )
        first = await ledger.append(draft)
        clock.advance(10)
        await make.add(ledger, make.commit(lake.table, 2))
        again = await ledger.append(draft)
        assert again == Receipt(seq=first.seq, at_ms=first.at_ms, outcome=draft.outcome, replayed=True)
        assert (await ledger.position()).seq == (first.seq or 0) + 1

    async def test_concurrent_copies_of_a_draft_are_applied_once(self, ledger: Ledger) -> None:
        draft = make.draft(make.catalog(ledger.root, "c"))
        receipts = await asyncio.gather(*[ledger.append(draft) for _ in range(5)])
        assert sorted(receipt.replayed for receipt in receipts) == [False, True, True, True, True]
        assert {receipt.seq for receipt in receipts} == {2}

    async def test_a_note_that_cannot_be_written_fails_alone(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        note = ledger.record_published(lake.table, MAIN, 2**63)
        results = await asyncio.gather(note, make.add(ledger, make.commit(lake.table, 1)), return_exceptions=True)
        assert isinstance(results[0], MoorageError)
        assert isinstance(results[1], Receipt)

    async def test_a_closed_ledger_accepts_nothing(self, ledger: Ledger) -> None:
        await ledger.close()
        await ledger.close()
        with pytest.raises(Unavailable):
            await make.add(ledger, make.catalog(ledger.root, "late"))
        with pytest.raises(Unavailable):
            await ledger.lease_job("w", ("compact",), fresh.fence(), 1000)
