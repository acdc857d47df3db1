"""Races: concurrent drafts have one winner, losers leave nothing behind, and sequence numbers have no gaps."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable

from moorage.core.entries import Draft, Drop, HeadIs, Live, NameFree, Receipt
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger, Stale
from moorage.testing import builders as make


async def head_of(ledger: Ledger, table: SecurableId) -> int | None:
    head = await ledger.head(table, MAIN)
    return None if head is None else head.version


def next_version(table: SecurableId, version: int) -> Draft:
    return make.draft(make.commit(table, version), expects=[HeadIs(table, MAIN, version - 1)])


async def outcomes(ledger: Ledger, drafts: list[Draft]) -> tuple[list[Receipt], list[Stale]]:
    """Append the drafts concurrently. Raises every result that is neither a receipt nor a refusal."""
    results = await asyncio.gather(*map(ledger.append, drafts), return_exceptions=True)
    receipts, refusals = [], []
    for result in results:
        if isinstance(result, Stale):
            refusals.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            receipts.append(result)
    return receipts, refusals


async def until_revision(ledger: Ledger, id: SecurableId, revision: int) -> None:
    """Return as soon as the change can be read: if the store allows it, before the event loop gets the response."""
    while True:
        await asyncio.sleep(0)
        deadline = time.monotonic() + 0.05
        while time.monotonic() < deadline:
            if (await ledger.lineage(id)).chain[-1].revision == revision:
                return


class Races:
    async def test_one_of_twenty_writers_of_a_version_wins(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        receipts, refusals = await outcomes(ledger, [next_version(lake.table, 1) for _ in range(20)])
        assert len(receipts) == 1
        assert [(refusal.expect, refusal.actual) for refusal in refusals] == [(HeadIs(lake.table, MAIN, 0), 1)] * 19
        assert len(await ledger.versions(lake.table, MAIN, first=1)) == 1

    async def test_the_losers_of_a_race_leave_no_reference_cycles(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        gc.collect()
        gc.disable()
        try:
            await outcomes(ledger, [next_version(lake.table, 1) for _ in range(20)])
            await ledger.append(next_version(lake.table, 2))  # the store may keep the last batch until the next one
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            kept = [garbage for garbage in gc.garbage if isinstance(garbage, Draft)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert not kept, "a draft may have megabytes, and the garbage collector runs rarely"

    async def test_one_of_twelve_clients_that_create_a_name_wins(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        tables = [make.table(lake.namespace, name) for name in ("Orders", "orders", "ORDERS") * 4]
        receipts, refusals = await outcomes(
            ledger, [make.draft(table, expects=[make.name_free(table)]) for table in tables]
        )
        assert len(receipts) == 1
        holder = (await ledger.walk(make.path_to("lake", "sea", "orders"))).chain[-1]
        assert {type(refusal.expect) for refusal in refusals} == {NameFree}
        assert [refusal.actual for refusal in refusals] == [holder.id] * 11

    async def test_a_batch_of_three_tables_where_one_fails_leaves_nothing(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b", "c")
        await ledger.append(next_version(lake.tables[2], 1))
        before = await ledger.position()
        job, document = make.job(), make.attached(lake.tables[0], 1, document=b"{}")
        whole = make.draft(
            *[make.commit(table, 1) for table in lake.tables],
            expects=[HeadIs(table, MAIN, 0) for table in lake.tables],
            jobs=[job],
            attachments=[document],
        )
        _, refusals = await outcomes(ledger, [whole])
        assert [refusal.actual for refusal in refusals] == [1]
        assert [await head_of(ledger, table) for table in lake.tables] == [0, 0, 1]
        assert await ledger.position() == before
        assert await ledger.job(job.id) is None
        assert await ledger.document(lake.tables[0], MAIN, 1) is None

    async def test_overlapping_transactions_are_atomic(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, *"abcdef")
        choices = random.Random(7)
        drafts, wanted = [], []
        for _ in range(60):
            tables = choices.sample(lake.tables, 3)
            wanted.append(tables)
            drafts.append(
                make.draft(
                    *[make.commit(table, 1) for table in tables],
                    expects=[HeadIs(table, MAIN, 0) for table in tables],
                )
            )
        results = await asyncio.gather(*map(ledger.append, drafts), return_exceptions=True)
        won = [tables for tables, result in zip(wanted, results, strict=True) if isinstance(result, Receipt)]
        moved = sorted(table for tables in won for table in tables)
        assert 1 <= len(won) <= 2
        assert moved == sorted(set(moved))
        assert [await head_of(ledger, table) for table in lake.tables] == [int(t in moved) for t in lake.tables]

    async def test_many_winners_and_losers_leave_no_gap_in_the_sequence(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, *"abcd")
        before = (await ledger.position()).seq
        seqs = []
        for version in range(1, 6):
            drafts = [next_version(table, version) for table in lake.tables for _ in range(8)]
            random.Random(version).shuffle(drafts)
            receipts, refusals = await outcomes(ledger, drafts)
            assert (len(receipts), len(refusals)) == (4, 28)
            seqs += [receipt.seq for receipt in receipts if receipt.seq is not None]
        assert sorted(seqs) == list(range(before + 1, before + 21))
        assert [entry.seq for entry in await ledger.entries(0)] == list(range(1, before + 21))
        assert [await head_of(ledger, table) for table in lake.tables] == [5, 5, 5, 5]

    async def test_concurrent_drafts_that_build_on_each_other_all_succeed(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        receipts, refusals = await outcomes(ledger, [next_version(lake.table, version) for version in range(1, 30)])
        assert refusals == []
        seqs = [receipt.seq or 0 for receipt in receipts]
        assert seqs == sorted(seqs)
        assert await head_of(ledger, lake.table) == 29

    async def test_no_commit_follows_a_concurrent_drop(self, ledger: Ledger) -> None:
        for n in range(10):
            lake = await make.lake(ledger, catalog_name=f"lake {n}")
            dropping = make.draft(make.drop(lake.catalog), expects=[Live(lake.catalog)])
            drafts = [next_version(lake.table, 1), dropping]
            await outcomes(ledger, drafts if n % 2 else drafts[::-1])
            entries = await ledger.entries((await ledger.position()).seq - 1)
            # A commit may precede the drop in history, but must not follow it.
            assert isinstance(entries[-1].body.changes[0], Drop)

    async def test_a_change_that_is_read_before_its_response_is_applied_once(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        call = asyncio.create_task(make.add(ledger, make.update(lake.table, comment="new")))
        await until_revision(ledger, lake.table, 2)
        path = make.path_to("lake", "sea", "t")
        between = await ledger.walk(path)
        await call
        assert await ledger.walk(path) == between == await ledger.lineage(lake.table)

    async def test_a_rename_that_is_read_before_its_response_leaves_one_name(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "old")
        old, new = make.path_to("lake", "sea", "old"), make.path_to("lake", "sea", "new")
        assert len((await ledger.walk(old)).chain) == 3
        call = asyncio.create_task(make.add(ledger, make.rename(lake.table, lake.namespace, "new")))
        await until_revision(ledger, lake.table, 2)
        assert len((await ledger.walk(new)).chain) == 3
        await call
        assert [len((await ledger.walk(path)).chain) for path in (old, new)] == [2, 3]

    async def test_a_cancelled_call_does_not_withdraw_its_draft(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        before = (await ledger.position()).seq
        calls = [asyncio.ensure_future(ledger.append(next_version(lake.table, n))) for n in range(1, 11)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(result, Receipt) for result in results] == [False, True] * 5
        assert (await ledger.position()).seq == before + 10
        assert await head_of(ledger, lake.table) == 10

    async def test_closing_finishes_what_was_accepted(
        self, ledger: Ledger, open_ledger: Callable[[], Awaitable[Ledger]]
    ) -> None:
        lake = await make.lake(ledger)
        calls = [asyncio.ensure_future(ledger.append(next_version(lake.table, n))) for n in range(1, 101)]
        await asyncio.sleep(0)
        await ledger.close()
        receipts = await asyncio.gather(*calls)
        assert len({receipt.seq for receipt in receipts}) == 100
        again = await open_ledger()
        assert await head_of(again, lake.table) == 100
        await again.close()
