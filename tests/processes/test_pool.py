"""Large documents are checked in other processes: each may end at any time, and none outlives the server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from moorage.core.errors import InvalidInput, Unavailable
from moorage.processes.pool import ProcessPool
from tests.api.house import until
from tests.processes import jobs


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool()
    yield pool
    pool.close()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


async def test_a_process_starts_with_the_first_work_and_is_used_again(pool: ProcessPool) -> None:
    before = children()
    size, name, first = await pool.run(jobs.described, b"x" * 3_000_000, name="a")
    assert (size, name) == (3_000_000, "a")
    assert children() - before == {first}
    assert await pool.run(jobs.described, b"", name="b") == (0, "b", first)
    assert not await pool.run(jobs.loads_arrow, b""), "checks of commits need no Arrow"


async def test_an_error_of_the_catalog_is_raised_as_it_is(pool: ProcessPool) -> None:
    with pytest.raises(InvalidInput, match="3 bytes are too many") as raised:
        await pool.run(jobs.refuse, b"xyz", "file")
    assert raised.value.field == "file"


async def test_another_error_names_the_function_and_shows_its_traceback(pool: ProcessPool) -> None:
    with pytest.raises(RuntimeError, match=r"divide failed in its process:\n(?s:.*)ZeroDivisionError"):
        await pool.run(jobs.divide, b"")


async def test_the_work_of_a_killed_process_is_done_again(pool: ProcessPool, tmp_path: Path) -> None:
    _, _, first = await pool.run(jobs.described, b"", name="a")
    assert await pool.run(jobs.die_once, b"", tmp_path / "note") != first


async def test_work_that_kills_every_process_fails_and_the_next_work_succeeds(pool: ProcessPool) -> None:
    with pytest.raises(Unavailable, match=r"during die, with the exit codes \[-9, -9\]"):
        await pool.run(jobs.die, b"")
    assert (await pool.run(jobs.described, b"", name="a"))[1] == "a"


async def test_work_that_was_sent_in_part_leaves_nothing_for_the_next_work(pool: ProcessPool) -> None:
    not_bytes: Any = "text"
    with pytest.raises(TypeError):
        await pool.run(jobs.described, not_bytes, name="a")
    assert (await pool.run(jobs.described, b"xyz", name="b"))[:2] == (3, "b")


async def test_work_fails_while_no_process_can_start_and_the_next_work_succeeds(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the machine has no memory for one. Nothing was changed, so the client may retry."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/no/such/python")
        with pytest.raises(Unavailable, match="no process could be started"):
            await pool.run(jobs.described, b"", name="a")
    assert (await pool.run(jobs.described, b"", name="a"))[1] == "a"


async def test_a_process_that_was_killed_while_it_had_no_work_is_replaced(pool: ProcessPool) -> None:
    _, _, first = await pool.run(jobs.described, b"", name="a")
    os.kill(first, signal.SIGKILL)
    assert (await pool.run(jobs.described, b"", name="b"))[2] != first


async def test_a_process_without_work_ends_and_leaves_nothing() -> None:
    pool = ProcessPool(idle_seconds=0.2)
    _, _, first = await pool.run(jobs.described, b"", name="a")

    async def is_gone() -> bool:
        return not psutil.pid_exists(first)

    await until(is_gone)
    assert (await pool.run(jobs.described, b"", name="b"))[2] != first
    pool.close()


async def test_a_process_that_refused_its_last_work_leaves_nothing() -> None:
    before, pool = children(), ProcessPool(idle_seconds=0.2)
    with pytest.raises(InvalidInput):
        await pool.run(jobs.refuse, b"", "file")
    (process,) = children() - before

    async def is_gone() -> bool:
        return not psutil.pid_exists(process)

    await until(is_gone)
    pool.close()


async def test_two_processes_work_at_a_time(tmp_path: Path) -> None:
    pool = ProcessPool()
    notes = [tmp_path / str(n) for n in range(3)]
    asked = [asyncio.create_task(pool.run(jobs.hang, b"", note)) for note in notes]

    async def two_are_at_work() -> bool:
        return sum(note.exists() and bool(note.read_text()) for note in notes) == 2

    await until(two_are_at_work)
    await asyncio.sleep(0.2)
    assert await two_are_at_work()
    workers = {int(note.read_text()) for note in notes if note.exists()}
    pool.close()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in answers} <= {Unavailable, asyncio.CancelledError}

    async def are_gone() -> bool:
        return not workers & children()

    await until(are_gone)
    with pytest.raises(Unavailable, match="stopping"):
        await pool.run(jobs.described, b"", name="a")


_SERVER = """
import asyncio, sys, time
from moorage.processes.pool import ProcessPool
from tests.processes import jobs
pool = ProcessPool()
print(asyncio.run(pool.run(jobs.described, b"", name="a"))[2], flush=True)
time.sleep(60)
"""


def test_a_process_does_not_outlive_a_killed_server() -> None:
    with subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        worker = psutil.Process(int(server.stdout.readline()))
        assert worker.is_running()
        server.kill()
    deadline = time.monotonic() + 30
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
