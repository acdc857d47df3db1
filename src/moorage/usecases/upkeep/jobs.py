"""The job queue: enqueue, take, renew, finish, cancel.

A job is a fact, written by the entry that causes it. Its lease is a note. Every effect of a job expects
`JobHeld(job, fence)`, so a worker that lost its lease without noticing has no effect.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import SYSTEM, Caller
from moorage.core.entries import ENDED, Done, FinishJob, JobFree, JobHeld, JobState, Live, NewJob
from moorage.core.errors import InvalidInput, JobEnded, JobNotFound, LeaseLost, TableNotFound
from moorage.core.ids import Fence, JobId, SecurableId, is_id
from moorage.core.job_tokens import JobToken, job_token_key, new_job_token
from moorage.core.jobs import COMPACT, JOB_KINDS, LEASE_MS, VACUUM, Job, Lease, retry_delay_ms
from moorage.core.privileges import Privilege
from moorage.core.quiet import PATIENCE_MS
from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Prepare, settle
from moorage.usecases.upkeep.lineage_index import index_lineage
from moorage.usecases.upkeep.quiet import must_wait

_SHORTEST_WAIT_SECONDS: Final = 0.03
_LONGEST_WAIT_SECONDS: Final = 1.0


async def enqueue(ports: Ports, errand: Errand, kind: str, args: dict[str, Any]) -> Job:
    """Enqueue a job of a kind that callers may request. While such a job is open, return that one."""
    require(ports.access, errand.caller, Privilege.START_JOBS, ())
    requestable = sorted(each.name for each in JOB_KINDS.values() if each.is_requestable)
    if kind not in requestable:
        raise InvalidInput(f"kind is one of {', '.join(requestable)}, not {kind!r}", field="kind")

    async def prepare(_: Caller) -> list[Part]:
        return [await prepare_job(ports, NewJob(id=fresh.job_id(), kind=kind, dedupe=kind, args=args))]

    return await settle_job(ports, errand, prepare)


async def prepare_job(ports: Ports, new: NewJob) -> Part:
    """The part that creates a job, or refers to the open job with the same dedupe key."""
    if new.dedupe is None:
        raise TypeError(f"a {new.kind} job has no dedupe key")
    found = await ports.ledger.open_job(new.dedupe)
    if found is not None:
        return Part(done=Done(ids=(found.id,)))
    return Part(expects=(JobFree(new.dedupe),), jobs=(new,), done=Done(ids=(new.id,)))


async def settle_job(ports: Ports, errand: Errand, prepare: Prepare) -> Job:
    """Settle the creation of one job, and return the job as it is now."""
    settled = await settle(ports, errand, prepare)
    return await _job(ports, settled.done.ids[0])


async def get(ports: Ports, caller: Caller, id: str) -> Job:
    """One job, for a caller that may see its table, or all jobs."""
    require(ports.access, caller, Privilege.BROWSE, ())
    job = await _job(ports, id)
    if not await _may(ports, caller, Privilege.BROWSE, job):
        raise _absent(id)
    return job


async def _job(ports: Ports, id: str) -> Job:
    job = await ports.ledger.job(JobId(id)) if is_id(id) else None
    if job is None:
        raise _absent(id)
    return job


def _absent(id: str) -> JobNotFound:
    return JobNotFound(f"no job has the id '{id}'", id=id)


async def _may(ports: Ports, caller: Caller, privilege: Privilege, job: Job) -> bool:
    """Whether the caller may do this to the job: workers may to all jobs, others if they may to its table."""
    allow = ports.access.allow
    if allow(caller, Privilege.WORK, ()) or (privilege is Privilege.BROWSE and allow(caller, Privilege.FOLLOW, ())):
        return True
    chain = (await ports.ledger.lineage(job.subject)).chain if job.subject is not None else ()
    return bool(chain) and allow(caller, privilege, chain)


async def _require_control(ports: Ports, caller: Caller, id: str) -> None:
    """Refuse a caller that may neither run jobs nor change the table of this one."""
    if not ports.access.allow(caller, Privilege.WORK, ()):
        job = await get(ports, caller, id)
        if not await _may(ports, caller, Privilege.MODIFY, job):
            require(ports.access, caller, Privilege.WORK, ())


async def page(
    ports: Ports,
    caller: Caller,
    *,
    state: JobState | None = None,
    kind: str | None = None,
    subject: str | None = None,
    newest_first: bool = False,
    token: str | None = None,
    limit: int = 100,
) -> tuple[tuple[Job, ...], str | None]:
    """A page of jobs in the order of their creation, or the newest first."""
    require(ports.access, caller, Privilege.BROWSE, ())
    scope = f"{caller.id}/jobs/{state}/{kind}/{subject}/{newest_first}"
    after = unseal(ports.page_secret, scope, token)
    shown: list[Job] = []
    while True:
        found = await ports.ledger.jobs(
            state=state,
            kind=kind,
            subject=None if subject is None else SecurableId(subject),
            after=after,
            limit=limit + 1,
            descending=newest_first,
        )
        for job in found[:limit]:
            after = job.id
            if await _may(ports, caller, Privilege.BROWSE, job):
                shown.append(job)
                if len(shown) == limit:
                    break
        more = len(found) > limit or (bool(found) and after != found[-1].id)
        if not more or len(shown) == limit:
            return tuple(shown), seal(ports.page_secret, scope, after) if more else None
        await asyncio.sleep(0)


async def take(
    ports: Ports, caller: Caller, worker: str, kinds: tuple[str, ...], *, wait_s: float = 0.0
) -> Lease | None:
    """Lease the oldest job that is due, with a new fence. If no job is due, wait up to `wait_s` for one."""
    require(ports.access, caller, Privilege.WORK, ())
    if not kinds:
        raise InvalidInput("kinds is empty; list the kinds of jobs that this worker can do", field="kinds")
    deadline = time.monotonic() + wait_s
    while True:
        seq = (await ports.ledger.position()).seq if wait_s else 0
        lease = await _take_now(ports, worker, kinds)
        left_s = deadline - time.monotonic()
        if lease is not None:
            return await _with_token(ports, caller, lease)
        if left_s <= 0:
            return None
        # A new entry may be a new job. Jobs also become due by time, so the wait is short in any case.
        await ports.ledger.wait_for_entry_after(seq, min(left_s, _LONGEST_WAIT_SECONDS))
        # With many entries per second, each waiting worker asks only a few times per second.
        await asyncio.sleep(min(left_s, _SHORTEST_WAIT_SECONDS))


async def _with_token(ports: Ports, caller: Caller, lease: Lease) -> Lease:
    """The lease with a token for the table of its job, so that the worker need not use its own token for it."""
    job = lease.job
    chain = await find_by_id(ports.ledger, job.subject) if job.subject is not None else ()
    if not ports.access.authenticates or not chain or chain[-1].kind is not Kind.TABLE:
        return lease
    token = JobToken(job.id, lease.fence, caller.id, caller.token)
    return replace(lease, token=new_job_token(job_token_key(ports.page_secret), token))


async def _take_now(ports: Ports, worker: str, kinds: tuple[str, ...]) -> Lease | None:
    while (lease := await ports.ledger.lease_job(worker, kinds, fresh.fence(), LEASE_MS)) is not None:
        if lease.job.attempt > lease.job.attempts:
            await _give_up(ports, lease)
        elif not await _postpone_until_quiet(ports, lease):
            break
    return lease


async def _postpone_until_quiet(ports: Ports, lease: Lease) -> bool:
    """Return a job to the queue if it would make writers of its table fail. Returns whether it was."""
    job = lease.job
    chain = await find_by_id(ports.ledger, job.subject) if job.kind == COMPACT and job.subject is not None else ()
    if not chain or not ports.formats.of(chain[-1]).is_rewritten_in_quiet:
        return False
    waiting = await must_wait(ports, chain[-1], job)
    if waiting is None:
        return False
    errand = Errand(caller=SYSTEM, api="chores", request="jobs")
    await postpone(ports, errand, job.id, lease.fence, waiting.until_ms, waiting.reason)
    return True


async def _give_up(ports: Ports, lease: Lease) -> None:
    """Fail a job whose leases all expired: if it crashes its workers, it would crash the next one too."""
    job = lease.job
    error = f"none of {job.attempts} attempts finished; the last reported error is: {job.error or 'none'}"

    async def prepare(_: Caller) -> list[Part]:
        now = await ports.ledger.job(job.id)
        if now is None or now.state in ENDED:
            return [Part()]  # it ended in the meantime
        change = FinishJob(job=job.id, state=JobState.FAILED, error=error)
        return [Part(expects=(JobHeld(job.id, lease.fence),), changes=(change,))]

    await settle(ports, Errand(caller=SYSTEM, api="chores", request="jobs"), prepare)


async def renew(ports: Ports, caller: Caller, id: str, fence: str, progress: dict[str, Any] | None) -> int:
    """Extend the lease and return its new end; LeaseLost if another worker has the job or it has ended."""
    require(ports.access, caller, Privilege.WORK, ())
    until_ms = await ports.ledger.renew_lease(JobId(id), Fence(fence), LEASE_MS, progress)
    if until_ms is None:
        await get(ports, caller, id)
        raise LeaseLost(f"job '{id}' was leased to another worker or has ended; stop working on it", id=id)
    return until_ms


async def succeed(ports: Ports, errand: Errand, id: str, fence: str, result: dict[str, Any]) -> Job:
    require(ports.access, errand.caller, Privilege.WORK, ())
    if is_id(id):
        await index_lineage(ports, JobId(id), result)
    return await _finish(
        ports, errand, id, Fence(fence), FinishJob(job=JobId(id), state=JobState.SUCCEEDED, result=result)
    )


async def fail(ports: Ports, errand: Errand, id: str, fence: str, error: str, *, final: bool = False) -> Job:
    """Report a failed attempt. The job is due again after a delay, unless this was its last attempt."""
    require(ports.access, errand.caller, Privilege.WORK, ())
    job = await get(ports, errand.caller, id)
    if final or job.attempt >= job.attempts:
        change = FinishJob(job=job.id, state=JobState.FAILED, error=error)
        return await _finish(ports, errand, id, Fence(fence), change)

    async def prepare(_: Caller) -> list[Part]:
        if not await ports.ledger.requeue_job(job.id, Fence(fence), retry_delay_ms(job.attempt), error):
            raise LeaseLost(f"job '{id}' was leased to another worker or has ended; stop working on it", id=id)
        return [Part(done=Done(ids=(id,)))]

    await settle(ports, errand, prepare)
    return await get(ports, errand.caller, id)


async def postpone(ports: Ports, errand: Errand, id: str, fence: str, until_ms: int, reason: str) -> Job:
    """Return a job to the queue that cannot run yet. The attempt does not count. After six hours it is cancelled."""
    require(ports.access, errand.caller, Privilege.WORK, ())
    job = await _job(ports, id)
    if ports.now_ms() - job.created_at_ms > PATIENCE_MS:
        change = FinishJob(job=job.id, state=JobState.CANCELLED, error=f"gave up {reason}")
        return await _finish(ports, errand, id, Fence(fence), change)
    delay_ms = min(max(until_ms - ports.now_ms(), 0), PATIENCE_MS)
    if not await ports.ledger.requeue_job(job.id, Fence(fence), delay_ms, reason, is_failure=False):
        raise LeaseLost(f"job '{id}' was leased to another worker or has ended; stop working on it", id=id)
    return await _job(ports, id)


async def cancel(ports: Ports, errand: Errand, id: str) -> Job:
    """Cancel a job, also while a worker has it. The worker receives LeaseLost with its next request."""
    await _require_control(ports, errand.caller, id)
    return await _finish(ports, errand, id, None, FinishJob(job=JobId(id), state=JobState.CANCELLED))


async def retry(ports: Ports, errand: Errand, id: str) -> Job:
    """Enqueue a job that ended again, as a new job. While an equal job is open, return that one."""
    await _require_control(ports, errand.caller, id)

    async def prepare(caller: Caller) -> list[Part]:
        job = await get(ports, caller, id)
        if job.state not in ENDED:
            return [Part(done=Done(ids=(job.id,)))]
        again = NewJob(
            id=fresh.job_id(),
            kind=job.kind,
            subject=job.subject,
            dedupe=job.dedupe or f"{job.kind}/{job.id}",
            args=job.args,
            attempts=job.attempts,
            # Until then, clients may use the files. A user who cancels and retries the job does not shorten that.
            delay_ms=max(0, job.not_before_ms - ports.now_ms()) if job.kind == VACUUM else 0,
        )
        part = await prepare_job(ports, again)
        if job.subject is None:
            return [part]
        await _require_live(ports, job.subject)
        return [replace(part, expects=(Live(job.subject), *part.expects))]

    return await settle_job(ports, errand, prepare)


async def _require_live(ports: Ports, table: SecurableId) -> None:
    chain = (await ports.ledger.lineage(table)).chain
    if not chain or not all(each.is_live for each in chain):
        raise TableNotFound(f"the table of this job no longer exists (id {table})", id=table)


async def _finish(ports: Ports, errand: Errand, id: str, fence: Fence | None, change: FinishJob) -> Job:
    decided = False

    async def prepare(caller: Caller) -> list[Part]:
        nonlocal decided
        job = await get(ports, caller, id)
        if job.state in ENDED:
            raise JobEnded(f"job '{id}' has already {job.state}", id=id, state=str(job.state))
        if decided:  # the job is open, but the expectation failed: the fence is outdated
            raise LeaseLost(f"job '{id}' was leased to another worker; the result of this one is discarded", id=id)
        decided = True
        return [Part(expects=(JobHeld(job.id, fence),), changes=(change,), done=Done(ids=(id,)))]

    await settle(ports, errand, prepare)
    return await get(ports, errand.caller, id)
