"""A job on the wire, the same in every API, and the URL to poll it at."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.core.entries import JobState
from moorage.core.jobs import Job
from moorage.http import Int64
from moorage.http.answers import Header


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its current attempt."""

    id: str
    kind: str
    subject: str | None
    args: dict[str, Any]
    state: JobState
    attempt: Int64
    attempts: Int64
    created_at_ms: Int64
    not_before_ms: Int64
    worker: str | None
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    error: str | None
    ended_at_ms: Int64 | None


def job_info(job: Job) -> JobInfo:
    return JobInfo(**{field: getattr(job, field) for field in JobInfo.__struct_fields__})


def job_location_header(job: Job) -> Header:
    """The `Location` header: the URL at which the job can be polled."""
    return (b"location", f"/api/moorage/v1/jobs/{job.id}".encode())


EXAMPLE_JOB: dict[str, Any] = {
    "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11",
    "kind": "audit",
    "subject": None,
    "args": {},
    "state": "queued",
    "attempt": 0,
    "attempts": 5,
    "created_at_ms": 1794737732278,
    "not_before_ms": 1794737732278,
    "worker": None,
    "progress": None,
    "result": None,
    "error": None,
    "ended_at_ms": None,
}
