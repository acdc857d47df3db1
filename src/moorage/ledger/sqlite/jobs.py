"""Job leases: notes, written on the writer's connection."""

from __future__ import annotations

import sqlite3
from typing import Any, cast

from moorage.core.ids import Fence, JobId
from moorage.core.jobs import Lease, recent_lease_ms
from moorage.ledger import rows
from moorage.ledger.sqlite import queries
from moorage.ledger.sqlite.writer import Note


def lease_job(worker: str, kinds: tuple[str, ...], fence: Fence, lease_ms: int) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> Lease | None:
        placeholders = ",".join("?" * len(kinds))
        row = db.execute(
            f"{queries.JOB} where job.state = 'open' and job.run_at <= ? and job.kind in ({placeholders}) "
            "and coalesce(lease.until_ms, 0) <= ? and coalesce(lease.not_before_ms, 0) <= ? "
            "order by job.run_at, job.id limit 1",
            (now_ms, *kinds, now_ms, now_ms),
        ).fetchone()
        if row is None:
            return None
        db.execute(
            "insert into lease (job, fence, worker, until_ms, attempt) values (?, ?, ?, ?, 1) "
            "on conflict do update set fence = excluded.fence, "
            "worker = excluded.worker, until_ms = excluded.until_ms, attempt = attempt + 1",
            (row[0], fence, worker, now_ms + lease_ms),
        )
        taken = db.execute(f"{queries.JOB} where job.id = ?", (row[0],)).fetchone()
        return Lease(job=rows.job(taken, now_ms), fence=fence, until_ms=now_ms + lease_ms)

    return note


def renew_lease(job: JobId, fence: Fence, lease_ms: int, progress: dict[str, Any] | None) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> int | None:
        if progress is None:
            recent = (job, fence, now_ms + recent_lease_ms(lease_ms))
            kept = db.execute("select until_ms from lease where job = ? and fence = ? and until_ms >= ?", recent)
            if (row := kept.fetchone()) is not None:
                return cast(int, row[0])
        renewed = db.execute(
            "update lease set until_ms = max(until_ms, ?), progress = coalesce(?, progress) "
            "where job = ? and fence = ? returning until_ms",
            (now_ms + lease_ms, None if progress is None else rows.encode(progress), job, fence),
        ).fetchall()
        return cast(int, renewed[0][0]) if renewed else None

    return note


def requeue_job(job: JobId, fence: Fence, delay_ms: int, error: str, *, is_failure: bool) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> bool:
        changed = db.execute(
            "update lease set until_ms = 0, not_before_ms = ?, fence = '', error = ?, attempt = attempt - ? "
            "where job = ? and fence = ?",
            (now_ms + delay_ms, error, 0 if is_failure else 1, job, fence),
        ).rowcount
        return changed == 1

    return note
