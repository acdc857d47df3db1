"""Which due work the server enqueues by itself."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.autopilot import FUTILE_PAUSE_MS, PAUSE_MS, QUEUED_PER_WORKER, Due, has_room, next_job
from moorage.core.entries import JobState
from moorage.core.health import Finding, Problem
from moorage.core.ids import JobId
from moorage.core.jobs import Job

NOW_MS = 1_800_000_000_000
SMALL = Finding(
    problem=Problem.SMALL_FILES, severity=0.9, reason="many small files", work="compact", advice="compact the table"
)
OLD = Finding(problem=Problem.OLD_VERSIONS, severity=0.5, reason="old versions", work="expire", advice="expire")
KINDS = ("compact", "expire")


def job(kind: str = "compact", state: JobState = JobState.SUCCEEDED, *, ago_ms: int = 0, **more: Any) -> Job:
    ended = None if state in (JobState.QUEUED, JobState.RUNNING) else NOW_MS - ago_ms
    given = {"worker": None, "result": None, "args": {}, **more}
    return Job(
        id=JobId("j"),
        kind=kind,
        subject=None,
        dedupe=None,
        state=state,
        attempt=1,
        attempts=5,
        created_at_ms=NOW_MS - ago_ms,
        not_before_ms=0,
        progress=None,
        error=None,
        ended_at_ms=ended,
        **given,
    )


def due(*findings: Finding, jobs: tuple[Job, ...] = ()) -> str | None:
    found = next_job(findings, 10, jobs, KINDS, now_ms=NOW_MS)
    return None if found is None else found.kind


def test_the_most_severe_due_work_comes_first_with_its_reason() -> None:
    assert next_job((SMALL, OLD), 5, (), KINDS, now_ms=NOW_MS) == Due("compact", "many small files", 5)


def test_nothing_is_due_for_a_healthy_table() -> None:
    assert due() is None


def test_a_kind_without_a_program_for_the_format_is_not_enqueued() -> None:
    assert next_job((OLD,), 50, (), ("compact",), now_ms=NOW_MS) is None


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
def test_a_table_has_one_open_job_at_a_time(state: JobState) -> None:
    assert due(SMALL, OLD, jobs=(job("expire", state),)) is None


@pytest.mark.parametrize("state", list(PAUSE_MS))
def test_a_table_rests_after_a_job_of_the_same_kind(state: JobState) -> None:
    assert due(SMALL, jobs=(job(state=state, ago_ms=PAUSE_MS[state] - 1),)) is None
    assert due(SMALL, jobs=(job(state=state, ago_ms=PAUSE_MS[state]),)) == "compact"


def test_other_work_does_not_wait_for_a_rest() -> None:
    assert due(SMALL, OLD, jobs=(job(ago_ms=1),)) == "expire"


def test_a_table_rests_longer_after_a_job_without_a_benefit() -> None:
    futile = {"before": {"files": 9}, "after": {"files": 9}}
    assert due(SMALL, jobs=(job(ago_ms=FUTILE_PAUSE_MS - 1, result=futile),)) is None
    useful = {"before": {"files": 9}, "after": {"files": 1}}
    assert due(SMALL, jobs=(job(ago_ms=FUTILE_PAUSE_MS - 1, result=useful),)) == "compact"


def test_a_table_does_not_rest_after_a_dry_run() -> None:
    assert due(OLD, jobs=(job("expire", ago_ms=1, args={"dry_run": True}),)) == "expire"


def test_the_queue_is_limited_by_the_number_of_workers() -> None:
    queued = [job(state=JobState.QUEUED)] * QUEUED_PER_WORKER
    assert has_room("compact", queued[1:])
    assert not has_room("compact", queued)
    running = [job(state=JobState.RUNNING, worker=name) for name in ("a", "b")]
    assert has_room("compact", queued + running)
    assert not has_room("compact", queued * 2 + running)


def test_jobs_that_no_worker_can_run_leave_room_for_those_of_other_kinds() -> None:
    assert has_room("checkpoint", [job("compact", JobState.QUEUED)] * QUEUED_PER_WORKER)


def test_a_vacuum_that_waits_delays_no_other_job() -> None:
    assert due(SMALL, jobs=(job("vacuum", JobState.QUEUED),)) == "compact"
