"""Jobs: created by ledger entries, and leased to workers under a fence. Leases are not part of history."""

from __future__ import annotations

import asyncio

import pytest

from moorage import fresh
from moorage.core.entries import FinishJob, HeadIs, JobFree, JobHeld, JobState, NewJob
from moorage.core.ids import Fence, JobId
from moorage.core.jobs import Job, Lease
from moorage.ledger.port import Ledger, Stale
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.testing.ledger_kit.expectations import accepts, to_moorage_error

LEASE_MS = 1000


async def enqueue(ledger: Ledger, *jobs: NewJob) -> None:
    await ledger.append(make.draft(jobs=jobs))


async def take(ledger: Ledger, worker: str = "w", *kinds: str) -> Lease:
    lease = await ledger.lease_job(worker, kinds or ("compact",), fresh.fence(), LEASE_MS)
    assert lease is not None
    return lease


async def take_nothing(ledger: Ledger, *kinds: str) -> bool:
    return await ledger.lease_job("w", kinds or ("compact",), fresh.fence(), LEASE_MS) is None


def succeeded(job: JobId) -> FinishJob:
    return FinishJob(job=job, state=JobState.SUCCEEDED, result={"rows": 3})


class Jobs:
    async def test_a_queued_job_has_all_fields_of_its_draft(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        new = make.job("compact", subject=lake.table, dedupe="d", args={"bins": [1]}, attempts=3, delay_ms=50)
        receipt = await ledger.append(make.draft(jobs=[new]))
        assert receipt.seq == (await ledger.position()).seq
        queued = Job(
            id=new.id,
            kind="compact",
            subject=lake.table,
            dedupe="d",
            args={"bins": [1]},
            state=JobState.QUEUED,
            attempt=0,
            attempts=3,
            created_at_ms=clock.now_ms,
            not_before_ms=clock.now_ms + 50,
            worker=None,
            progress=None,
            result=None,
            error=None,
            ended_at_ms=None,
        )
        assert await ledger.job(new.id) == queued
        assert await ledger.open_job("d") == queued
        assert await ledger.job(fresh.job_id()) is None

    async def test_a_refused_draft_creates_no_job(self, ledger: Ledger) -> None:
        new = make.job()
        with pytest.raises(Stale):
            await ledger.append(make.draft(jobs=[new], expects=[HeadIs(fresh.securable_id(), "main", 1)]))
        assert await ledger.job(new.id) is None

    async def test_a_dedupe_key_has_one_open_job(self, ledger: Ledger) -> None:
        first, second, other = make.job(dedupe="d"), make.job(dedupe="d"), make.job(dedupe="e")
        await enqueue(ledger, first)
        await enqueue(ledger, second, other)
        found = await ledger.open_job("d")
        assert found is not None
        assert found.id == first.id
        assert await ledger.job(second.id) is None
        assert await ledger.job(other.id) is not None

    async def test_two_jobs_with_one_dedupe_key_in_one_draft_become_one(self, ledger: Ledger) -> None:
        await enqueue(ledger, make.job(dedupe="d"), make.job(dedupe="d"))
        assert len(await ledger.jobs()) == 1

    async def test_a_failed_job_free_expectation_names_the_open_job(self, ledger: Ledger) -> None:
        first, second = make.job(dedupe="d"), make.job(dedupe="d")
        await ledger.append(make.draft(jobs=[first], expects=[JobFree("d")]))
        with pytest.raises(Stale) as stale:
            await ledger.append(make.draft(jobs=[second], expects=[JobFree("d")]))
        assert (stale.value.expect, stale.value.actual) == (JobFree("d"), first.id)
        await ledger.append(make.draft(jobs=[make.job(dedupe="e")], expects=[JobFree("e")]))
        await make.add(ledger, succeeded(first.id))
        await ledger.append(make.draft(jobs=[second], expects=[JobFree("d")]))
        assert await ledger.job(second.id) is not None

    async def test_one_of_many_drafts_that_expect_a_free_dedupe_key_wins(self, ledger: Ledger) -> None:
        drafts = [make.draft(jobs=[make.job(dedupe="d")], expects=[JobFree("d")]) for _ in range(20)]
        outcomes = await asyncio.gather(*map(ledger.append, drafts), return_exceptions=True)
        assert sum(isinstance(outcome, Stale) for outcome in outcomes) == 19
        assert len(await ledger.jobs()) == 1

    async def test_jobs_without_a_dedupe_key_are_never_merged(self, ledger: Ledger) -> None:
        await enqueue(ledger, make.job(), make.job())
        assert len(await ledger.jobs()) == 2

    async def test_an_ended_job_frees_its_dedupe_key(self, ledger: Ledger) -> None:
        first, second, third = make.job(dedupe="d"), make.job(dedupe="d"), make.job(dedupe="d")
        await enqueue(ledger, first)
        await make.add(ledger, succeeded(first.id))
        assert await ledger.open_job("d") is None
        await enqueue(ledger, second)
        await ledger.append(make.draft(succeeded(second.id), jobs=[third]))
        found = await ledger.open_job("d")
        assert found is not None
        assert found.id == third.id

    async def test_the_oldest_due_job_is_taken_first(self, ledger: Ledger, clock: Clock) -> None:
        late, early = make.job(delay_ms=20), make.job(delay_ms=10)
        await enqueue(ledger, late, early)
        assert await take_nothing(ledger)
        clock.advance(10)
        assert (await take(ledger)).job.id == early.id
        assert await take_nothing(ledger)
        clock.advance(10)
        assert (await take(ledger)).job.id == late.id

    async def test_a_worker_takes_only_jobs_of_its_kinds(self, ledger: Ledger) -> None:
        await enqueue(ledger, make.job("vacuum"))
        assert await take_nothing(ledger, "compact", "ingest")
        assert await ledger.lease_job("w", (), fresh.fence(), LEASE_MS) is None
        assert (await take(ledger, "w", "compact", "vacuum")).job.kind == "vacuum"

    async def test_a_taken_job_runs_until_its_lease_ends(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger, "worker 7")
        assert (lease.until_ms, lease.job.attempt) == (clock.now_ms + LEASE_MS, 1)
        running = await ledger.job(new.id)
        assert running == lease.job
        assert (running.state, running.worker) == (JobState.RUNNING, "worker 7")
        clock.advance(LEASE_MS)
        queued = await ledger.job(new.id)
        assert queued is not None
        assert (queued.state, queued.worker, queued.attempt) == (JobState.QUEUED, None, 1)

    async def test_an_expired_lease_passes_to_the_next_worker(self, ledger: Ledger, clock: Clock) -> None:
        await enqueue(ledger, make.job())
        first = await take(ledger, "first")
        clock.advance(LEASE_MS - 1)
        assert await take_nothing(ledger)
        clock.advance(1)
        second = await take(ledger, "second")
        assert (second.job.id, second.job.attempt) == (first.job.id, 2)

    async def test_a_paused_worker_that_wakes_late_cannot_act(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        paused = await take(ledger, "paused")
        clock.advance(LEASE_MS)
        other = await take(ledger, "other")
        assert await ledger.renew_lease(new.id, paused.fence, LEASE_MS, {"done": 1}) is None
        assert not await ledger.requeue_job(new.id, paused.fence, 10, "tired")
        await to_moorage_error(ledger, JobHeld(new.id, paused.fence))
        assert await accepts(ledger, JobHeld(new.id, other.fence))
        await make.add(ledger, succeeded(new.id), expects=[JobHeld(new.id, other.fence)])
        await to_moorage_error(ledger, JobHeld(new.id, other.fence))

    async def test_a_late_worker_may_continue_if_no_other_took_the_job(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        clock.advance(10 * LEASE_MS)
        assert await accepts(ledger, JobHeld(new.id, lease.fence))
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, None) == clock.now_ms + LEASE_MS
        assert await take_nothing(ledger)

    async def test_a_renewal_lengthens_the_lease_and_keeps_progress(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        clock.advance(500)
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, {"bins": 2}) == clock.now_ms + LEASE_MS
        clock.advance(900)
        assert await take_nothing(ledger)
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, None) == clock.now_ms + LEASE_MS
        found = await ledger.job(new.id)
        assert found is not None
        assert (found.progress, found.state) == ({"bins": 2}, JobState.RUNNING)

    async def test_a_lease_that_was_just_extended_stays_as_it_is(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        clock.advance(LEASE_MS // 4)
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, None) == lease.until_ms
        assert await ledger.renew_lease(new.id, Fence("another"), LEASE_MS, None) is None
        clock.advance(1)
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, None) == clock.now_ms + LEASE_MS
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, {"bins": 1}) == clock.now_ms + LEASE_MS

    async def test_a_renewal_never_shortens_a_lease(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        assert await ledger.renew_lease(new.id, lease.fence, 10, None) == lease.until_ms
        clock.advance(LEASE_MS - 1)
        assert await take_nothing(ledger)

    async def test_a_returned_job_is_due_after_its_delay(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        assert await ledger.requeue_job(new.id, lease.fence, 300, "the disk was full")
        resting = await ledger.job(new.id)
        assert resting is not None
        assert (resting.state, resting.worker, resting.error) == (JobState.QUEUED, None, "the disk was full")
        assert resting.not_before_ms == clock.now_ms + 300
        assert await take_nothing(ledger)
        clock.advance(300)
        again = await take(ledger)
        assert (again.job.id, again.job.attempt) == (new.id, 2)

    async def test_a_postponed_job_has_used_no_attempt(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        assert await ledger.requeue_job(new.id, lease.fence, 300, "the table is busy", is_failure=False)
        clock.advance(300)
        again = await take(ledger)
        assert (again.job.id, again.job.attempt, again.job.error) == (new.id, 1, "the table is busy")

    async def test_a_worker_that_returned_a_job_no_longer_holds_it(self, ledger: Ledger) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        await ledger.requeue_job(new.id, lease.fence, 300, "tired")
        await to_moorage_error(ledger, JobHeld(new.id, lease.fence))
        assert await ledger.renew_lease(new.id, lease.fence, LEASE_MS, None) is None
        assert not await ledger.requeue_job(new.id, lease.fence, 0, "again")

    async def test_a_finished_job_keeps_its_result(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        lease = await take(ledger)
        clock.advance(5)
        await make.add(ledger, succeeded(new.id), expects=[JobHeld(new.id, lease.fence)])
        ended = await ledger.job(new.id)
        assert ended is not None
        assert (ended.state, ended.result, ended.error) == (JobState.SUCCEEDED, {"rows": 3}, None)
        assert (ended.ended_at_ms, ended.worker) == (clock.now_ms, None)
        clock.advance(10 * LEASE_MS)
        assert await take_nothing(ledger)

    async def test_a_failed_job_keeps_its_error(self, ledger: Ledger) -> None:
        new = make.job()
        await enqueue(ledger, new)
        await make.add(ledger, FinishJob(job=new.id, state=JobState.FAILED, error="out of memory"))
        failed = await ledger.job(new.id)
        assert failed is not None
        assert (failed.state, failed.error, failed.result) == (JobState.FAILED, "out of memory", None)

    async def test_an_open_job_can_be_cancelled_with_or_without_a_holder(self, ledger: Ledger) -> None:
        held, queued = make.job(), make.job("vacuum")
        await enqueue(ledger, held, queued)
        lease = await take(ledger)
        for job in (held.id, queued.id):
            cancel = FinishJob(job=job, state=JobState.CANCELLED)
            await make.add(ledger, cancel, expects=[JobHeld(job, None)])
            await to_moorage_error(ledger, JobHeld(job, None))
        await to_moorage_error(ledger, JobHeld(held.id, lease.fence))
        assert await ledger.renew_lease(held.id, lease.fence, LEASE_MS, None) is None

    async def test_an_ended_job_keeps_its_attempts_and_progress(self, ledger: Ledger, clock: Clock) -> None:
        new = make.job()
        await enqueue(ledger, new)
        first = await take(ledger)
        await ledger.renew_lease(new.id, first.fence, LEASE_MS, {"log": ["one"]})
        await ledger.requeue_job(new.id, first.fence, 0, "tired")
        second = await take(ledger)
        assert second.job.progress == {"log": ["one"]}
        await make.add(ledger, succeeded(new.id), expects=[JobHeld(new.id, second.fence)])
        ended = await ledger.job(new.id)
        assert ended is not None
        assert (ended.attempt, ended.progress, ended.error) == (2, {"log": ["one"]}, None)
        assert await ledger.renew_lease(new.id, second.fence, LEASE_MS, {"late": True}) is None

    async def test_jobs_are_listed_by_table_and_in_both_orders(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        jobs = sorted((make.job(subject=lake.table if n % 2 else None) for n in range(5)), key=lambda job: job.id)
        await enqueue(ledger, *jobs)
        own = [job.id for job in jobs if job.subject == lake.table]
        assert [job.id for job in await ledger.jobs(subject=lake.table)] == own
        newest = [job.id for job in jobs][::-1]
        assert [job.id for job in await ledger.jobs(descending=True)] == newest
        assert [job.id for job in await ledger.jobs(descending=True, after=newest[1], limit=2)] == newest[2:4]
        assert [job.id for job in await ledger.jobs(descending=True, subject=lake.table, limit=1)] == own[-1:]

    async def test_an_unknown_job_is_not_held(self, ledger: Ledger) -> None:
        assert (await to_moorage_error(ledger, JobHeld(fresh.job_id(), None))).actual is None

    async def test_a_queued_job_is_held_by_no_fence(self, ledger: Ledger) -> None:
        new = make.job()
        await enqueue(ledger, new)
        await to_moorage_error(ledger, JobHeld(new.id, Fence("guessed")))

    async def test_jobs_are_listed_by_state_and_kind_in_pages(self, ledger: Ledger) -> None:
        jobs = sorted((make.job(kind) for kind in ("a", "b", "a", "b", "a")), key=lambda job: job.id)
        await enqueue(ledger, *jobs)
        taken = (await take(ledger, "w", "b")).job.id
        ended = next(job.id for job in jobs if job.kind == "a")
        await make.add(ledger, succeeded(ended))

        def ids_of(found: tuple[Job, ...]) -> list[JobId]:
            return [job.id for job in found]

        every = [job.id for job in jobs]
        assert ids_of(await ledger.jobs()) == every
        assert ids_of(await ledger.jobs(after=every[1], limit=2)) == every[2:4]
        assert ids_of(await ledger.jobs(kind="b")) == [job.id for job in jobs if job.kind == "b"]
        assert ids_of(await ledger.jobs(state=JobState.RUNNING)) == [taken]
        assert ids_of(await ledger.jobs(state=JobState.SUCCEEDED)) == [ended]
        queued = [id for id in every if id not in (taken, ended)]
        assert ids_of(await ledger.jobs(state=JobState.QUEUED)) == queued
        assert await ledger.jobs(state=JobState.RUNNING, kind="a") == ()

    async def test_the_due_jobs_are_those_that_run_or_could_be_taken(self, ledger: Ledger, clock: Clock) -> None:
        running, postponed, due, later, ended = (make.job(delay_ms=ms) for ms in (0, 0, 0, 50, 0))
        await enqueue(ledger, running)
        assert (await take(ledger)).job.id == running.id
        await enqueue(ledger, postponed)
        fence = (await take(ledger)).fence
        assert await ledger.requeue_job(postponed.id, fence, 20, "waiting for a writer", is_failure=False)
        await enqueue(ledger, due, later, ended)
        await make.add(ledger, succeeded(ended.id))

        async def found(limit: int = 100) -> list[tuple[JobId, JobState]]:
            return [(job.id, job.state) for job in await ledger.due_jobs(limit=limit)]

        assert await found() == [(running.id, JobState.RUNNING), (due.id, JobState.QUEUED)]
        assert await found(limit=1) == [(running.id, JobState.RUNNING)]
        clock.advance(50)
        assert {id for id, _ in await found()} == {running.id, postponed.id, due.id, later.id}

    async def test_concurrent_workers_take_different_jobs(self, ledger: Ledger) -> None:
        jobs = [make.job() for _ in range(5)]
        await enqueue(ledger, *jobs)
        leases = await asyncio.gather(
            *[ledger.lease_job(f"w{n}", ("compact",), fresh.fence(), LEASE_MS) for n in range(9)]
        )
        taken = [lease.job.id for lease in leases if lease is not None]
        assert sorted(taken) == sorted(job.id for job in jobs)
