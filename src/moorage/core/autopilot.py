"""Which due work the server enqueues by itself: under limits, and never twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from moorage.core.entries import ENDED, JobState
from moorage.core.health import Finding, due_work
from moorage.core.jobs import JOB_KINDS, VACUUM, Job

_HOUR_MS: Final = 60 * 60 * 1000
PAUSE_MS: Final = {
    JobState.SUCCEEDED: _HOUR_MS,
    JobState.FAILED: 6 * _HOUR_MS,
    JobState.CANCELLED: 24 * _HOUR_MS,
}
"""How long a table rests after a job of the same kind ended. Who cancelled a job does not want the next one soon."""
FUTILE_PAUSE_MS: Final = 24 * _HOUR_MS
"""The pause after a job that left as many files as it found: the next one would do no better."""
QUEUED_PER_WORKER: Final = 4


class Due(msgspec.Struct, frozen=True):
    """A job to enqueue, and why."""

    kind: str
    reason: str
    score: int


def next_job(
    found: Sequence[Finding], score: int, jobs: Iterable[Job], kinds: Iterable[str], *, now_ms: int
) -> Due | None:
    """The job that a table needs most; None if nothing is due, or the table has an open job, or rests after one.

    `jobs` are the last jobs for the table, `kinds` those that exist for its format.
    """
    last = list(jobs)
    # A vacuum waits for hours until it may delete, and disturbs no other job.
    if any(job.state not in ENDED and job.kind != VACUUM for job in last):
        return None
    known = {kind for kind in kinds if kind in JOB_KINDS and JOB_KINDS[kind].has_program}
    for kind, reasons in due_work(found).items():
        if kind in known and not _is_resting(kind, last, now_ms):
            return Due(kind, "; ".join(each.reason for each in reasons), score)
    return None


def _is_resting(kind: str, jobs: Iterable[Job], now_ms: int) -> bool:
    for job in jobs:
        is_dry = bool(job.args.get("dry_run"))
        if job.kind == kind and not is_dry and job.ended_at_ms is not None and job.state in PAUSE_MS:
            pause_ms = FUTILE_PAUSE_MS if is_futile(job) else PAUSE_MS[job.state]
            if now_ms < job.ended_at_ms + pause_ms:
                return True
    return False


def is_futile(job: Job) -> bool:
    """Whether a job succeeded without a benefit: the table has the same figures as before."""
    result: dict[str, Any] = job.result or {}
    before, after = result.get("before"), result.get("after")
    return job.state is JobState.SUCCEEDED and isinstance(before, dict) and before == after


def has_room(kind: str, due: Iterable[Job]) -> bool:
    """Whether another job of a kind may be enqueued: a few wait for each worker, and a few if no worker is at work.

    `due` are the jobs that workers have or could take now. Jobs of other kinds do not count: where no worker has Spark,
    compactions wait forever, and checkpoints must not wait with them.
    """
    jobs = list(due)
    workers = {job.worker for job in jobs if job.worker}
    waiting = sum(job.kind == kind and job.state is JobState.QUEUED for job in jobs)
    return waiting < QUEUED_PER_WORKER * max(len(workers), 1)
