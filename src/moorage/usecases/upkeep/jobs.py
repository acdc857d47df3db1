"""The queue of heavy work: enqueue, take, keep alive, finish, cancel.

A job is a fact, written by the entry that causes it; its lease is a note. Every effect of a job carries
`JobHeld(job, fence)`, so a worker that slept through its lease cannot act when it wakes.
"""

from __future__ import annotations

from typing import Any

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import SYSTEM, Caller
from moorage.core.entries import ENDED, Done, FinishJob, JobFree, JobHeld, JobState, NewJob
from moorage.core.errors import InvalidInput, JobEnded, JobNotFound, LeaseLost
from moorage.core.ids import Fence, JobId, is_id
from moorage.core.jobs import JOB_KINDS, LEASE_MS, Job, Lease, retry_delay_ms
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Prepare, settle


async def enqueue(ports: Ports, errand: Errand, kind: str, args: dict[str, Any]) -> Job:
    """A new job of a kind that somebody may ask for by hand; while one is open, that one."""
    require(ports.access, errand.caller, Privilege.FOLLOW, ())
    requestable = sorted(each.name for each in JOB_KINDS.values() if each.is_requestable)
    if kind not in requestable:
        raise InvalidInput(f"kind is one of {', '.join(requestable)}, not {kind!r}", field="kind")

    async def prepare(_: Caller) -> list[Part]:
        return [await prepare_job(ports, NewJob(id=fresh.job_id(), kind=kind, dedupe=kind, args=args))]

    return await settle_job(ports, errand, prepare)


async def prepare_job(ports: Ports, new: NewJob) -> Part:
    """The part that makes a job, or points at the open one of the same purpose."""
    if new.dedupe is None:
        raise TypeError(f"a {new.kind} job without a purpose")
    open_one = await ports.ledger.open_job(new.dedupe)
    if open_one is not None:
        return Part(done=Done(ids=(open_one.id,)))
    return Part(expects=(JobFree(new.dedupe),), jobs=(new,), done=Done(ids=(new.id,)))


async def settle_job(ports: Ports, errand: Errand, prepare: Prepare) -> Job:
    """Settle the making of one job; the job as it is now."""
    settled = await settle(ports, errand, prepare)
    return await _job(ports, settled.done.ids[0])


async def get(ports: Ports, caller: Caller, id: str) -> Job:
    require(ports.access, caller, Privilege.BROWSE, ())
    return await _job(ports, id)


async def _job(ports: Ports, id: str) -> Job:
    job = await ports.ledger.job(JobId(id)) if is_id(id) else None
    if job is None:
        raise JobNotFound(f"no job has the id '{id}'", id=id)
    return job


async def page(
    ports: Ports,
    caller: Caller,
    *,
    state: JobState | None = None,
    kind: str | None = None,
    token: str | None = None,
    limit: int = 100,
) -> tuple[tuple[Job, ...], str | None]:
    """Jobs in the order of their making."""
    require(ports.access, caller, Privilege.BROWSE, ())
    scope = f"{caller.id}/jobs/{state}/{kind}"
    after = unseal(ports.page_secret, scope, token)
    found = await ports.ledger.jobs(state=state, kind=kind, after=after, limit=limit + 1)
    more = len(found) > limit
    return found[:limit], seal(ports.page_secret, scope, found[limit - 1].id) if more else None


async def take(ports: Ports, caller: Caller, worker: str, kinds: tuple[str, ...]) -> Lease | None:
    """Lease the oldest job that is due, with a fresh fence; None if there is none."""
    require(ports.access, caller, Privilege.WORK, ())
    if not kinds:
        raise InvalidInput("kinds is empty: say what this worker can do", field="kinds")
    while (lease := await ports.ledger.lease_job(worker, kinds, fresh.fence(), LEASE_MS)) is not None:
        if lease.job.attempt <= lease.job.attempts:
            break
        await _give_up(ports, lease)
    return lease


async def _give_up(ports: Ports, lease: Lease) -> None:
    """End a job whose workers all fell silent: what kills its worker would kill the next one too."""
    job = lease.job
    error = f"none of {job.attempts} attempts came to an end; the last error was: {job.error or 'none told'}"

    async def prepare(_: Caller) -> list[Part]:
        now = await ports.ledger.job(job.id)
        if now is None or now.state in ENDED:
            return [Part()]  # cancelled at this very moment
        change = FinishJob(job=job.id, state=JobState.FAILED, error=error)
        return [Part(expects=(JobHeld(job.id, lease.fence),), changes=(change,))]

    await settle(ports, Errand(caller=SYSTEM, api="chores", request="jobs"), prepare)


async def renew(ports: Ports, caller: Caller, id: str, fence: str, progress: dict[str, Any] | None) -> int:
    """Keep the lease alive; the new end of it, or LeaseLost."""
    require(ports.access, caller, Privilege.WORK, ())
    until_ms = await ports.ledger.renew_lease(JobId(id), Fence(fence), LEASE_MS, progress)
    if until_ms is None:
        await get(ports, caller, id)
        raise LeaseLost(f"job '{id}' was taken by somebody else or has ended; stop working on it", id=id)
    return until_ms


async def succeed(ports: Ports, errand: Errand, id: str, fence: str, result: dict[str, Any]) -> Job:
    require(ports.access, errand.caller, Privilege.WORK, ())
    return await _finish(
        ports, errand, id, Fence(fence), FinishJob(job=JobId(id), state=JobState.SUCCEEDED, result=result)
    )


async def fail(ports: Ports, errand: Errand, id: str, fence: str, error: str, *, final: bool = False) -> Job:
    """An attempt failed: the job rests and is due again later, unless that was the last one."""
    require(ports.access, errand.caller, Privilege.WORK, ())
    job = await get(ports, errand.caller, id)
    if final or job.attempt >= job.attempts:
        change = FinishJob(job=job.id, state=JobState.FAILED, error=error)
        return await _finish(ports, errand, id, Fence(fence), change)

    async def prepare(_: Caller) -> list[Part]:
        if not await ports.ledger.requeue_job(job.id, Fence(fence), retry_delay_ms(job.attempt), error):
            raise LeaseLost(f"job '{id}' was taken by somebody else or has ended; stop working on it", id=id)
        return [Part(done=Done(ids=(id,)))]

    await settle(ports, errand, prepare)
    return await get(ports, errand.caller, id)


async def cancel(ports: Ports, errand: Errand, id: str) -> Job:
    """End a job whoever holds it; its worker hears LeaseLost at its next word."""
    require(ports.access, errand.caller, Privilege.WORK, ())
    return await _finish(ports, errand, id, None, FinishJob(job=JobId(id), state=JobState.CANCELLED))


async def _finish(ports: Ports, errand: Errand, id: str, fence: Fence | None, change: FinishJob) -> Job:
    decided = False

    async def prepare(caller: Caller) -> list[Part]:
        nonlocal decided
        job = await get(ports, caller, id)
        if job.state in ENDED:
            raise JobEnded(f"job '{id}' has already {job.state}", id=id, state=str(job.state))
        if decided:  # the job is open, yet the expectation failed: the fence is an old one
            raise LeaseLost(f"job '{id}' was taken by somebody else; what this worker did does not count", id=id)
        decided = True
        return [Part(expects=(JobHeld(job.id, fence),), changes=(change,), done=Done(ids=(id,)))]

    await settle(ports, errand, prepare)
    return await get(ports, errand.caller, id)
