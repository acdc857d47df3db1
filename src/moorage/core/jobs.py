"""Jobs: expensive work that workers lease, each lease with a fence."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from moorage.core.entries import JobState
from moorage.core.ids import Fence, JobId, SecurableId

AUDIT: Final = "audit"
"""Reads the whole feed and checks that it has no gap."""
CHECKPOINT: Final = "checkpoint"
"""Writes a checkpoint of a Delta table, so that readers need not replay a long log."""
COMPACT: Final = "compact"
"""Rewrites the small files of a table into large ones."""
EXPIRE: Final = "expire"
"""Removes old versions of a table, and the files that only they need."""
ORPHANS: Final = "orphans"
"""Deletes files in the folder of a table that no version of it needs."""
STATISTICS: Final = "statistics"
"""Computes the statistics of files of a Delta table that were added without any."""
VACUUM: Final = "vacuum"
"""Deletes the files of versions that an expiry of a Delta table announced as no longer available."""

PIPELINE: Final = "pipeline"
"""Runs a pipeline."""
INGEST: Final = "ingest"
"""Takes files into a table. A client has done it when the job is recorded, so no worker runs it."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every job of one kind."""

    name: str
    is_requestable: bool
    """Whether a caller may request one by its kind alone. Other kinds come from an operation on a table."""
    has_program: bool
    """Whether workers of this release have a program for it. Without one, its jobs wait in the queue."""


JOB_KINDS: Final = {
    kind.name: kind
    for kind in (
        JobKind(name=AUDIT, is_requestable=True, has_program=True),
        JobKind(name=CHECKPOINT, is_requestable=False, has_program=True),
        JobKind(name=COMPACT, is_requestable=False, has_program=True),
        JobKind(name=EXPIRE, is_requestable=False, has_program=True),
        JobKind(name=INGEST, is_requestable=False, has_program=False),
        JobKind(name=ORPHANS, is_requestable=False, has_program=True),
        JobKind(name=PIPELINE, is_requestable=False, has_program=True),
        JobKind(name=STATISTICS, is_requestable=False, has_program=True),
        JobKind(name=VACUUM, is_requestable=False, has_program=True),
    )
}
"""Every kind of job, by its name."""

LEASE_MS = 60_000
_FIRST_RETRY_MS = 5_000
_MAX_RETRY_MS = 15 * 60_000


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job and the state of its current attempt."""

    id: JobId
    kind: str
    subject: SecurableId | None
    dedupe: str | None
    args: dict[str, Any]
    state: JobState
    attempt: int
    attempts: int
    created_at_ms: int
    not_before_ms: int
    worker: str | None
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    error: str | None
    ended_at_ms: int | None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to work on a job. Fences are only ever compared for equality."""

    job: Job
    fence: Fence
    until_ms: int
    token: str | None = None
    """Opens only the table of the job. None if callers are not authenticated, or the job is not about a table."""

    def __repr__(self) -> str:
        """Omits the token, because this text may be logged."""
        return f"Lease({self.job.id} until {self.until_ms})"


def recent_lease_ms(lease_ms: int) -> int:
    """How much is left of a lease that was extended so recently that it is not extended again."""
    return lease_ms * 3 // 4


def retry_delay_ms(attempt: int) -> int:
    """The backoff after the n-th failed attempt: 5 s, 10 s, 20 s, … at most 15 minutes."""
    return int(min(_FIRST_RETRY_MS * 2 ** min(max(attempt - 1, 0), 20), _MAX_RETRY_MS))
