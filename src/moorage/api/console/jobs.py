"""Jobs: requested by users, carried out by workers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.console.api import Paging, console, levels
from moorage.api.errands import errand_of
from moorage.api.job_info import EXAMPLE_JOB, JobInfo, job_info, job_location_header
from moorage.core.entries import JobState
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    JobEnded,
    JobNotFound,
    KeyReused,
    LeaseLost,
    NamespaceNotFound,
    TableNotFound,
)
from moorage.core.jobs import Job
from moorage.http import Answer, Call, Example, Int64, NoBody, NoQuery
from moorage.usecases.catalog import addresses
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep import jobs
from moorage.usecases.upkeep.compaction import request_job
from moorage.usecases.upkeep.job_views import visible_job

routes = console.section(tags=("jobs",))

_JOB = {"job": EXAMPLE_JOB["id"]}
_FENCE = "b2a7f4c8d1e04f6f9a3c5d7e8f901234"
_RUNNING = EXAMPLE_JOB | {"state": "running", "attempt": 1, "worker": "worker-1"}
Fence = Annotated[str, Meta(min_length=1, max_length=64, description="The fence of the lease.")]


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to enqueue."""

    kind: str
    args: dict[str, Any] = {}


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs. Without a token it is the last page."""

    items: tuple[JobInfo, ...]
    next_page_token: str | None


class JobPaging(Paging, frozen=True, kw_only=True):
    """Which jobs to list, and which page of them."""

    state: Annotated[JobState | None, Meta(description="Only jobs in this state.")] = None
    kind: Annotated[str | None, Meta(description="Only jobs of this kind.")] = None
    subject: Annotated[str | None, Meta(description="Only jobs for the table with this id.")] = None
    newest_first: Annotated[bool, Meta(description="List the newest jobs first.")] = False


class TakeJob(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, and the kinds of jobs that it can do."""

    worker: Annotated[str, Meta(min_length=1, max_length=255)]
    kinds: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    wait_seconds: Annotated[float, Meta(ge=0, le=5, description="How long to wait for a job if none is due.")] = 0.0


class LeaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lease: the worker may act for the job until it ends."""

    job: JobInfo
    fence: str
    until_ms: Int64
    token: Annotated[
        str | None,
        Meta(description="Opens only the table of the job, until the job ends; null without authentication."),
    ] = None


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """The renewal of a lease, with the progress of the work."""

    fence: Fence
    progress: dict[str, Any] | None = None


class RenewedLease(msgspec.Struct, frozen=True, kw_only=True):
    """The new end of the lease."""

    until_ms: Int64


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job."""

    fence: Fence
    result: dict[str, Any] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed. `final` means that another attempt would fail too."""

    fence: Fence
    error: Annotated[str, Meta(max_length=10_000)]
    final: bool = False


async def _shown(call: Call[Any, Any], ports: Ports, job: Job) -> JobInfo:
    """The job as the caller may see it."""
    return job_info(await visible_job(ports, call.caller, job))


@routes.post(
    "/jobs",
    operation="createJob",
    summary="Enqueue a job.",
    stage="public_preview",
    body=NewJob,
    answer=JobInfo,
    status=202,
    errors=(InvalidInput, JobNotFound, KeyReused),
    example=Example(body={"kind": "audit"}, answer=EXAMPLE_JOB),
)
async def create_job(call: Call[NewJob, NoQuery], ports: Ports) -> Answer:
    """Enqueue a job for a worker. While a job of its kind is open, that one is returned."""
    job = await jobs.enqueue(ports, errand_of(call, ports), call.body.kind, call.body.args)
    return Answer.json(job_info(job), 202, (job_location_header(job),))


@routes.get(
    "/jobs",
    operation="listJobs",
    summary="List jobs.",
    stage="public_preview",
    query=JobPaging,
    answer=JobList,
    errors=(InvalidInput,),
    example=Example(query={"state": "queued"}, answer={"items": [EXAMPLE_JOB], "next_page_token": None}),
)
async def list_jobs(call: Call[NoBody, JobPaging], ports: Ports) -> Answer:
    """List jobs in the order of their creation or the newest first, optionally by state, kind and table."""
    query = call.query
    found, token = await jobs.page(
        ports,
        call.caller,
        state=query.state,
        kind=query.kind,
        subject=query.subject,
        newest_first=query.newest_first,
        token=query.page_token,
        limit=page_size(query.max_results),
    )
    items = [await _shown(call, ports, job) for job in found]
    return Answer.json(JobList(items=tuple(items), next_page_token=token))


@routes.get(
    "/jobs/{job}",
    operation="getJob",
    summary="Get a job.",
    stage="public_preview",
    answer=JobInfo,
    errors=(JobNotFound,),
    example=Example(path=_JOB, answer=EXAMPLE_JOB),
)
async def get_job(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one job with its progress, its result or its error."""
    return Answer.json(await _shown(call, ports, await jobs.get(ports, call.caller, call.params["job"])))


@routes.post(
    "/jobs:take",
    operation="takeJob",
    summary="Lease the next job.",
    stage="public_preview",
    body=TakeJob,
    answer=LeaseInfo,
    patient=True,
    also={204: "No job is due."},
    keyed=False,
    errors=(InvalidInput,),
    example=Example(
        body={"worker": "worker-1", "kinds": ["audit"]},
        answer={"job": _RUNNING, "fence": _FENCE, "until_ms": 1794737792278, "token": None},
    ),
)
async def lease_job(call: Call[TakeJob, NoQuery], ports: Ports) -> Answer:
    """Lease the oldest job that is due, with a new fence. The status is 204 if no job is due."""
    body = call.body
    lease = await jobs.take(ports, call.caller, body.worker, body.kinds, wait_s=body.wait_seconds)
    if lease is None:
        return Answer.empty()
    info = LeaseInfo(job=job_info(lease.job), fence=lease.fence, until_ms=lease.until_ms, token=lease.token)
    return Answer.json(info)


@routes.post(
    "/jobs/{job}:renew",
    operation="renewJob",
    summary="Renew a lease.",
    stage="public_preview",
    body=Renewal,
    answer=RenewedLease,
    keyed=False,
    errors=(InvalidInput, JobNotFound, LeaseLost),
    example=Example(
        path=_JOB, body={"fence": _FENCE, "progress": {"entries": 5000}}, answer={"until_ms": 1794737852278}
    ),
)
async def renew_job(call: Call[Renewal, NoQuery], ports: Ports) -> Answer:
    """Extend the lease and report the progress. After LEASE_LOST the worker must stop: it no longer has the job."""
    until_ms = await jobs.renew(ports, call.caller, call.params["job"], call.body.fence, call.body.progress)
    return Answer.json(RenewedLease(until_ms=until_ms))


@routes.post(
    "/jobs/{job}:succeed",
    operation="succeedJob",
    summary="Finish a job.",
    stage="public_preview",
    body=Success,
    answer=JobInfo,
    errors=(InvalidInput, JobNotFound, JobEnded, LeaseLost, KeyReused),
    example=Example(
        path=_JOB,
        body={"fence": _FENCE, "result": {"entries": 9000}},
        answer=EXAMPLE_JOB | {"state": "succeeded", "result": {"entries": 9000}, "ended_at_ms": 1794737799999},
    ),
)
async def succeed_job(call: Call[Success, NoQuery], ports: Ports) -> Answer:
    """End a job with its result. The fence must be that of the newest lease."""
    job = await jobs.succeed(ports, errand_of(call, ports), call.params["job"], call.body.fence, call.body.result)
    return Answer.json(job_info(job))


@routes.post(
    "/jobs/{job}:fail",
    operation="failJob",
    summary="Report a failed attempt.",
    stage="public_preview",
    body=Failure,
    answer=JobInfo,
    errors=(InvalidInput, JobNotFound, JobEnded, LeaseLost, KeyReused),
    example=Example(
        path=_JOB,
        body={"fence": _FENCE, "error": "the connection was lost"},
        answer=EXAMPLE_JOB | {"attempt": 1, "error": "the connection was lost"},
    ),
)
async def fail_job(call: Call[Failure, NoQuery], ports: Ports) -> Answer:
    """Return a job to the queue after a failed attempt. It is due again after a delay, until no attempts are left."""
    body = call.body
    job = await jobs.fail(ports, errand_of(call, ports), call.params["job"], body.fence, body.error, final=body.final)
    return Answer.json(job_info(job))


class Postponement(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job cannot run yet, and when it may be taken again."""

    fence: Fence
    until_ms: Int64
    reason: Annotated[str, Meta(min_length=1, max_length=10_000)]


@routes.post(
    "/jobs/{job}:postpone",
    operation="postponeJob",
    summary="Return a job that cannot run yet.",
    stage="public_preview",
    body=Postponement,
    answer=JobInfo,
    keyed=False,
    errors=(InvalidInput, JobNotFound, JobEnded, LeaseLost),
    example=Example(
        path=_JOB,
        body={"fence": _FENCE, "until_ms": 1794737799999, "reason": "waiting for 'ann'"},
        answer=EXAMPLE_JOB | {"not_before_ms": 1794737799999, "error": "waiting for 'ann'"},
    ),
)
async def postpone_job(call: Call[Postponement, NoQuery], ports: Ports) -> Answer:
    """Return a job to the queue with the reason why it waits. The attempt does not count."""
    body = call.body
    id, errand = call.params["job"], errand_of(call, ports)
    return Answer.json(job_info(await jobs.postpone(ports, errand, id, body.fence, body.until_ms, body.reason)))


@routes.post(
    "/jobs/{job}:cancel",
    operation="cancelJob",
    summary="Cancel a job.",
    stage="public_preview",
    answer=JobInfo,
    errors=(JobNotFound, JobEnded, KeyReused),
    example=Example(path=_JOB, answer=EXAMPLE_JOB | {"state": "cancelled", "ended_at_ms": 1794737799999}),
)
async def cancel_job(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Cancel a job, also while a worker has it. The worker receives LEASE_LOST with its next request."""
    job = await jobs.cancel(ports, errand_of(call, ports), call.params["job"])
    return Answer.json(await _shown(call, ports, job))


@routes.post(
    "/jobs/{job}:retry",
    operation="retryJob",
    summary="Run a job that ended again.",
    stage="public_preview",
    answer=JobInfo,
    status=202,
    errors=(JobNotFound, TableNotFound, KeyReused),
    example=Example(path=_JOB, answer=EXAMPLE_JOB),
)
async def retry_job(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Enqueue a new job like one that ended. While that job or an equal one is open, it is returned."""
    job = await jobs.retry(ports, errand_of(call, ports), call.params["job"])
    return Answer.json(await _shown(call, ports, job), 202, (job_location_header(job),))


@routes.post(
    "/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/jobs",
    operation="createTableJob",
    summary="Enqueue a job about a table.",
    stage="public_preview",
    body=NewJob,
    answer=JobInfo,
    status=202,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound, JobNotFound, KeyReused),
    example=Example(
        path={"catalog": "sample", "namespace": "sales", "table": "orders"},
        body={"kind": "compact", "args": {"target_file_size_mb": 64}},
        answer=EXAMPLE_JOB | {"kind": "compact", "args": {"target_file_size_mb": 64}},
    ),
)
async def create_table_job(call: Call[NewJob, NoQuery], ports: Ports) -> Answer:
    """Enqueue `checkpoint`, `compact`, `expire` or `orphans` for a table.

    While such a job is open, that one is returned. The options of `compact` are `target_file_size_mb`, `sort_by`,
    `zorder_by`, `where`, `purge`, `full` and `beside_writers`, those of `expire` are `older_than_days` and `keep_last`,
    and those of `orphans` are `older_than_days` and `dry_run`. A `checkpoint` has none. A compaction waits for writers
    that change rows, unless it has `beside_writers`.
    """
    space = addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))
    table = addresses.table(space, call.params["table"])
    job = await request_job(ports, errand_of(call, ports), table, call.body.kind, call.body.args)
    return Answer.json(job_info(job), 202, (job_location_header(job),))
