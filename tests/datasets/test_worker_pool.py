"""pylance runs in worker processes: if one fails, the server continues, and the table is unchanged."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import psutil
import pyarrow as pa
import pytest

from moorage.core.errors import (
    Forbidden,
    InvalidInput,
    MoorageError,
    SecurableNotFound,
    Unavailable,
    VersionNotFound,
    VersionTaken,
)
from moorage.datasets import rows
from moorage.datasets.messages import Manifest, StagedManifest
from moorage.datasets.rows import Merge, WriteMode, Written
from moorage.datasets.worker_pool import WorkerDied, WorkerPool
from tests.api.house import until
from tests.datasets import jobs
from tests.datasets.lines import Lines, stream_of

THREE = stream_of({"a": [1, 2, 3]})


@pytest.fixture(scope="module")
def worker_pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(workers=2, waiting=2)
    yield pool
    pool.close()


@pytest.fixture
def location(tmp_path: Path) -> str:
    return f"file://{tmp_path}/table"


async def test_written_rows_become_a_version_of_the_catalog(worker_pool: WorkerPool, location: str) -> None:
    lines = Lines()
    written = await worker_pool.run(lines, location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    assert written == Written(version=1, inserted=3)
    assert list(lines.kept) == [(None, 1)]
    assert await worker_pool.run(lines, location, rows.count, "a > 1", branch=None, version=None) == 2


class Overtaken(Lines):
    """Another writer adds rows as the requested version, once."""

    def __init__(self, worker_pool: WorkerPool, location: str, stream: bytes) -> None:
        super().__init__()
        self._others = worker_pool, location, stream

    async def add(self, staged: StagedManifest) -> Manifest:
        if staged.version == 2 and (None, 2) not in self.kept:
            worker_pool, location, stream = self._others
            inside = Lines()
            inside.kept = self.kept
            await worker_pool.run(inside, location, rows.write, stream, branch=None, mode=WriteMode.APPEND)
        return await super().add(staged)


async def test_a_write_that_loses_a_race_is_rebased(worker_pool: WorkerPool, location: str) -> None:
    lines = Overtaken(worker_pool, location, THREE)
    await worker_pool.run(lines, location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    written = await worker_pool.run(lines, location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    assert written.version == 3
    assert await worker_pool.run(lines, location, rows.count, None, branch=None, version=None) == 9


async def test_a_merge_that_loses_a_race_sees_the_rows_of_the_winner(worker_pool: WorkerPool, location: str) -> None:
    lines = Overtaken(worker_pool, location, stream_of({"a": [4]}))
    await worker_pool.run(lines, location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    how = Merge(
        on=("a",),
        update_matched=True,
        update_filter=None,
        insert_unmatched=True,
        delete_unmatched=False,
        delete_filter=None,
        timeout=None,
        use_index=True,
    )
    merged = await worker_pool.run(lines, location, rows.merge, stream_of({"a": [3, 4, 5]}), how, branch=None)
    assert merged == Written(version=3, inserted=1, updated=2)
    assert await worker_pool.run(lines, location, rows.count, None, branch=None, version=None) == 5


@pytest.mark.parametrize("why", [Unavailable("the database is unavailable"), VersionNotFound("there is none")])
async def test_a_write_that_lost_a_race_to_an_unreadable_version_changed_nothing(
    worker_pool: WorkerPool, location: str, why: MoorageError
) -> None:
    class Lost(Lines):
        async def add(self, staged: StagedManifest) -> Manifest:
            raise VersionTaken(f"version {staged.version} is taken")

        async def at(self, branch: str | None, version: int) -> Manifest:
            raise why

    with pytest.raises(MoorageError) as raised:
        await worker_pool.run(Lost(), location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    assert type(raised.value) is (Unavailable if isinstance(why, Unavailable) else VersionTaken)


async def test_the_caller_gets_the_catalogs_error(worker_pool: WorkerPool, location: str) -> None:
    class Closed(Lines):
        async def add(self, staged: StagedManifest) -> Manifest:
            raise Forbidden(f"version {staged.version} is not for you", field="version")

    with pytest.raises(Forbidden, match="not for you") as refused:
        await worker_pool.run(Closed(), location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    assert refused.value.field == "version"


async def test_an_unexpected_error_of_the_catalog_is_raised_and_the_worker_continues(
    worker_pool: WorkerPool, location: str
) -> None:
    class Faulty(Lines):
        async def add(self, staged: StagedManifest) -> Manifest:
            raise LookupError(f"version {staged.version}")

    for _ in range(3):
        with pytest.raises(LookupError, match="version 1"):
            await worker_pool.run(Faulty(), location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    workers = {await worker_pool.run(Lines(), location, jobs.process_id) for _ in range(4)}
    assert len(workers) <= 2


async def test_a_missing_version_branch_or_column_is_a_distinct_error(worker_pool: WorkerPool, location: str) -> None:
    lines = Lines()
    with pytest.raises(VersionNotFound, match="no version yet"):
        await worker_pool.run(lines, location, rows.count, None, branch=None, version=None)
    await worker_pool.run(lines, location, rows.write, THREE, branch=None, mode=WriteMode.APPEND)
    with pytest.raises(VersionNotFound, match="no version 7"):
        await worker_pool.run(lines, location, rows.count, None, branch=None, version=7)
    with pytest.raises(SecurableNotFound, match="branch 'dev'"):
        await worker_pool.run(lines, location, rows.count, None, branch="dev", version=None)
    with pytest.raises(SecurableNotFound, match="No field named nope") as refused:
        await worker_pool.run(lines, location, rows.count, "nope > 1", branch=None, version=None)
    assert refused.value.details["kind"] == "column"


async def test_a_table_that_refers_to_files_outside_its_location_is_not_read(
    worker_pool: WorkerPool, location: str, tmp_path: Path
) -> None:
    theirs = lance.write_dataset(pa.table({"secret": [1]}), tmp_path / "theirs")
    theirs.tags.create("first", 1)
    clone = theirs.shallow_clone(location, "first")
    manifest = next((tmp_path / "table" / "_versions").glob("*.manifest"))
    lines = Lines()
    lines.kept[None, clone.version] = Manifest(version=clone.version, manifest_path=str(manifest).lstrip("/"))
    with pytest.raises(Forbidden, match="outside its location"):
        await worker_pool.run(lines, location, rows.count, None, branch=None, version=None)


@pytest.mark.parametrize("body", [b"", b"rows", THREE[:40], b"\xff" * 100])
async def test_a_body_that_is_not_arrow_is_refused(worker_pool: WorkerPool, location: str, body: bytes) -> None:
    with pytest.raises(InvalidInput, match="body") as refused:
        await worker_pool.run(Lines(), location, rows.write, body, branch=None, mode=WriteMode.APPEND)
    assert refused.value.field == "body"


async def test_a_worker_that_aborts_does_not_stop_the_pool(worker_pool: WorkerPool, location: str) -> None:
    with pytest.raises(WorkerDied, match="exit code -6 during abort"):
        await worker_pool.run(Lines(), location, jobs.abort)
    assert await worker_pool.run(Lines(), location, jobs.process_id) > 0


async def test_a_worker_that_exceeds_its_memory_limit_fails(worker_pool: WorkerPool, location: str) -> None:
    with pytest.raises(RuntimeError, match="MemoryError"):
        await worker_pool.run(Lines(), location, jobs.reserve, 2**40)


async def test_the_memory_limit_of_a_worker_can_be_set(location: str) -> None:
    small = WorkerPool(workers=1, memory_gb=2)
    assert await small.run(Lines(), location, jobs.reserve, 2**28) == 2**28
    with pytest.raises(RuntimeError, match="MemoryError"):
        await small.run(Lines(), location, jobs.reserve, 2**31)
    small.close()


async def test_a_panic_is_reported_as_an_error(worker_pool: WorkerPool, location: str) -> None:
    with pytest.raises(RuntimeError, match="a panic in Rust"):
        await worker_pool.run(Lines(), location, jobs.panic)


async def test_a_cancelled_job_stops_its_worker(worker_pool: WorkerPool, location: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    asking = asyncio.create_task(worker_pool.run(Lines(), location, jobs.hang, str(note)))

    async def is_at_work() -> bool:
        return note.exists() and bool(note.read_text())

    async def is_gone() -> bool:
        return not psutil.pid_exists(int(note.read_text()))

    await until(is_at_work)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(is_gone)


async def test_a_full_queue_refuses_more_jobs(worker_pool: WorkerPool, location: str, tmp_path: Path) -> None:
    hanging = [
        asyncio.create_task(worker_pool.run(Lines(), location, jobs.hang, str(tmp_path / str(n)))) for n in range(4)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="too many"):
        await worker_pool.run(Lines(), location, jobs.process_id)
    for each in hanging:
        each.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_a_worker_that_is_killed_while_it_starts_is_started_once_more(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a terminal reaches a process that has no session of its own yet."""
    started = list[subprocess.Popen[bytes]]()
    popen = subprocess.Popen

    def kill_the_first(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        process = popen(*args, **kwargs)
        if not started:
            process.send_signal(signal.SIGINT)
        started.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", kill_the_first)
    pool = WorkerPool(workers=1)
    try:
        assert await pool.run(Lines(), location, jobs.process_id) == started[1].pid
    finally:
        pool.close()
    assert [process.poll() is None for process in started] == [False, True]
