"""The feed: every draft that became history, once, in order, with a clock that never goes backwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from moorage.core.entries import (
    MAX_CHANGES,
    MAX_DRAFT_BYTES,
    Change,
    Entry,
    EntryBody,
    FinishJob,
    JobState,
    Live,
)
from moorage.core.errors import DraftTooLarge
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger, Stale
from moorage.testing import builders as make
from moorage.testing.builders import HOUR_MS, Clock

NEVER = SecurableId("00000000-0000-7000-8000-000000000000")


class Feed:
    async def test_an_entry_contains_the_whole_draft(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        job = make.job(subject=lake.table, dedupe="d", args={"n": 1}, delay_ms=5)
        changes: tuple[Change, ...] = (
            make.table(lake.namespace, "other", path="s3://bucket/other"),
            make.update(lake.table, owner=make.BOB, properties={"k": "v"}),
            make.published_commit(lake.table, 1, details={"x": [1]}),
            make.raise_floor(lake.table, 1),
            make.commit(lake.table, 4, ref="dev"),
            make.drop_versions(lake.table, 0, 1),
            make.drop_line(lake.table, "dev"),
            make.rename(lake.table, lake.namespace, "renamed"),
            make.drop(lake.table),
            make.undrop(lake.table, "t"),
        )
        draft = make.draft(*changes, jobs=[job], caller=make.BOB)
        receipt = await ledger.append(draft)
        assert receipt.seq is not None
        assert await ledger.entries(receipt.seq - 1) == (
            Entry(
                seq=receipt.seq,
                at_ms=clock.now_ms,
                access_seq=receipt.seq,
                draft=draft.id,
                caller=make.BOB,
                api="test",
                request="a test",
                body=EntryBody(changes=changes, jobs=(job,)),
            ),
        )
        end = (make.drop(lake.catalog), make.purge(lake.catalog), make.erase(lake.table, lake.namespace))
        finish = FinishJob(job=job.id, state=JobState.FAILED, error="no reason", result={"left": 3})
        await make.add(ledger, *end, finish)
        assert (await ledger.entries(receipt.seq))[0].body == EntryBody(changes=(*end, finish))

    async def test_entries_are_numbered_from_one_without_gaps(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        for version in range(1, 4):
            await make.add(ledger, make.commit(lake.table, version))
            with pytest.raises(Stale):
                await make.add(ledger, make.commit(lake.table, 9), expects=[Live(NEVER)])
        assert [entry.seq for entry in await ledger.entries(0)] == [1, 2, 3, 4, 5]
        assert (await ledger.position()).seq == 5

    async def test_entries_are_read_in_pages(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        for version in range(1, 6):
            await make.add(ledger, make.commit(lake.table, version))
        assert [entry.seq for entry in await ledger.entries(2, limit=3)] == [3, 4, 5]
        assert await ledger.entries(7) == ()

    async def test_a_wait_for_an_existing_entry_returns_immediately(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 1))
        assert await ledger.wait_for_entry_after((await ledger.position()).seq - 1, 0)

    async def test_a_wait_without_a_new_entry_times_out(self, ledger: Ledger) -> None:
        started = time.monotonic()
        assert not await ledger.wait_for_entry_after((await ledger.position()).seq, 0.05)
        assert not await ledger.wait_for_entry_after((await ledger.position()).seq + 5, 0)
        assert time.monotonic() - started < 2

    async def test_all_waiting_callers_see_the_next_entry(self, ledger: Ledger) -> None:
        seq = (await ledger.position()).seq
        waits = [asyncio.create_task(ledger.wait_for_entry_after(seq, 20)) for _ in range(3)]
        too_far = asyncio.create_task(ledger.wait_for_entry_after(seq + 1, 0.3))
        await asyncio.sleep(0.01)
        started = time.monotonic()
        await make.lake(ledger)
        assert await asyncio.gather(*waits) == [True] * 3
        assert time.monotonic() - started < 5
        assert not await too_far

    async def test_time_never_goes_backwards(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        times = [(await ledger.position()).at_ms]
        for version, jump in enumerate((HOUR_MS, -24 * HOUR_MS, 0, 1000 * HOUR_MS, -2000 * HOUR_MS, 5), 1):
            clock.advance(jump)
            receipt = await make.add(ledger, make.commit(lake.table, version))
            assert receipt.at_ms == (await ledger.position()).at_ms
            times.append(receipt.at_ms)
        start = times[0]
        far = start + 977 * HOUR_MS
        assert times == [start, start + HOUR_MS, start + HOUR_MS, start + HOUR_MS, far, far, far]
        assert [entry.at_ms for entry in await ledger.entries(1)] == times

    async def test_holds_and_keys_expire_by_the_clock_of_the_ledger(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.drop(lake.table, hold_ms=HOUR_MS))
        await ledger.append(make.draft(key=make.idempotency_key("k", lifetime_ms=HOUR_MS)))
        clock.advance(2 * HOUR_MS)
        other = make.catalog(ledger.root, "other")
        await make.add(ledger, other)
        clock.advance(-2 * HOUR_MS)
        assert [one.id for one in await ledger.due_for_purge()] == [lake.table]
        assert await ledger.receipt(make.ANN, "k") is None

    async def test_a_draft_may_have_a_thousand_changes(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        changes = [make.commit(lake.table, version) for version in range(1, MAX_CHANGES + 1)]
        await make.add(ledger, *changes)
        head = await ledger.head(lake.table, MAIN)
        assert head is not None
        assert head.version == MAX_CHANGES

    async def test_a_draft_with_more_than_a_thousand_changes_is_refused(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        before = await ledger.position()
        changes = [make.commit(lake.table, version) for version in range(1, MAX_CHANGES + 2)]
        words = f"at most {MAX_CHANGES} changes and jobs, this one has {MAX_CHANGES + 1}"
        with pytest.raises(DraftTooLarge, match=words):
            await make.add(ledger, *changes)
        with pytest.raises(DraftTooLarge, match=words):
            await ledger.append(make.draft(*changes[:-1], jobs=[make.job()]))
        assert await ledger.position() == before

    async def test_a_draft_of_more_than_sixteen_megabytes_is_refused(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        before = await ledger.position()
        half = b"x" * (MAX_DRAFT_BYTES // 2)
        heavy = make.attached(lake.table, 1, document=half, staged=half)
        with pytest.raises(DraftTooLarge, match="16 MB"):
            await ledger.append(make.draft(make.commit(lake.table, 1), attachments=[heavy]))
        with pytest.raises(DraftTooLarge, match="16 MB"):
            await make.add(ledger, make.update(lake.table, comment="x" * MAX_DRAFT_BYTES))
        assert await ledger.position() == before

    async def test_a_reopened_ledger_has_everything_that_was_written(
        self, ledger: Ledger, open_ledger: Callable[[], Awaitable[Ledger]], clock: Clock
    ) -> None:
        lake = await make.lake(ledger)
        await ledger.append(make.draft(make.commit(lake.table, 1), key=make.idempotency_key("k")))
        known = (await ledger.position(), await ledger.entries(0), await ledger.lineage(lake.table))
        kept = (await ledger.receipt(make.ANN, "k"), await ledger.page_secret(), ledger.root)
        await ledger.close()
        clock.advance(-HOUR_MS)
        again = await open_ledger()
        assert (await again.position(), await again.entries(0), await again.lineage(lake.table)) == known
        assert (await again.receipt(make.ANN, "k"), await again.page_secret(), again.root) == kept
        receipt = await make.add(again, make.commit(lake.table, 2))
        assert (receipt.seq, receipt.at_ms) == (known[0].seq + 1, known[0].at_ms)
        await again.close()
