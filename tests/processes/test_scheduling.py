"""Requests go before the checks of large documents, where the kernel can do that."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from moorage.client import Client
from moorage.processes.pool import ProcessPool
from moorage.processes.scheduling import background_threads
from moorage.testing.server import ServerProcess
from tests.processes import jobs

VERSION = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
HAS_SLICES = sys.platform == "linux" and VERSION >= (6, 12) and Path("/proc/self/sched").exists()
pytestmark = pytest.mark.skipif(not HAS_SLICES, reason="this kernel has no time slices that a thread can choose")


def slice_ns(process: int | str) -> int:
    found = re.search(r"^se\.slice\s*:\s*(\d+)", Path(f"/proc/{process}/sched").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def policy(process: int) -> int:
    """Without the flag that new threads and processes get the usual slice."""
    return os.sched_getscheduler(process) & ~os.SCHED_RESET_ON_FORK


def priority(process: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, process)


def test_requests_go_before_work_in_processes(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert slice_ns(server.pid) == 100_000 < slice_ns("self")


async def test_work_in_processes_waits_for_others() -> None:
    pool = ProcessPool()
    try:
        _, _, process = await pool.run(jobs.described, b"", name="a")
        assert slice_ns(process) == 20_000_000 > slice_ns("self")
        assert policy(process) == os.SCHED_BATCH
        assert priority(process) == priority(0) + 5  # not twice, because a thread with that priority has started it
    finally:
        pool.close()


def test_threads_that_compute_wait_for_the_event_loop() -> None:
    with background_threads(1, name="test") as threads:
        thread = threads.submit(threading.get_native_id).result()
        assert slice_ns(thread) == 20_000_000
        assert policy(thread) == os.SCHED_BATCH
        assert priority(thread) == priority(0) + 5
    assert policy(0) == os.SCHED_OTHER


def test_the_threads_of_a_server_are_such_threads(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, Client(server.url) as client:
        client.catalogs.create("lake")
        client.namespaces.create("lake", ["sea"])
        table = {"name": "boats", "schema": {"type": "struct", "fields": []}}
        httpx.post(f"{server.url}/iceberg/v1/lake/namespaces/sea/tables", json=table).raise_for_status()
        httpx.get(f"{server.url}/api/moorage/v1/catalogs/lake/namespaces/sea/tables/boats/health").raise_for_status()
        threads = {int(each) for each in os.listdir(f"/proc/{server.pid}/task")} - {server.pid}
        assert os.SCHED_BATCH in {policy(each) for each in threads}
        assert policy(server.pid) == os.SCHED_OTHER


def test_programs_that_the_server_starts_have_the_usual_slice() -> None:
    code = (
        "import subprocess; from moorage.processes.scheduling import serve_requests; serve_requests();"
        "print(subprocess.run(['cat', '/proc/self/sched'], capture_output=True, text=True, check=True).stdout)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f": {slice_ns('self'):>20}" in next(line for line in found.splitlines() if line.startswith("se.slice"))
