"""Time slices of the kernel: requests go before the checks of large documents, where the kernel can do that."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.processes.pool import ProcessPool
from moorage.testing.server import ServerProcess
from tests.processes import jobs

VERSION = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
HAS_SLICES = sys.platform == "linux" and VERSION >= (6, 12) and Path("/proc/self/sched").exists()
pytestmark = pytest.mark.skipif(not HAS_SLICES, reason="this kernel has no time slices that a thread can choose")


def slice_ns(process: int | str) -> int:
    found = re.search(r"^se\.slice\s*:\s*(\d+)", Path(f"/proc/{process}/sched").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_requests_go_before_work_in_processes(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert slice_ns(server.pid) == 100_000 < slice_ns("self")


async def test_work_in_processes_waits_for_others() -> None:
    pool = ProcessPool()
    try:
        _, _, process = await pool.run(jobs.described, b"", name="a")
        assert slice_ns(process) == 20_000_000 > slice_ns("self")
    finally:
        pool.close()


def test_programs_that_a_process_starts_have_the_usual_slice() -> None:
    code = (
        "import subprocess; from moorage.processes.time_slices import ask_for_time_slice; ask_for_time_slice(0.0001);"
        "print(subprocess.run(['cat', '/proc/self/sched'], capture_output=True, text=True, check=True).stdout)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f": {slice_ns('self'):>20}" in next(line for line in found.splitlines() if line.startswith("se.slice"))
