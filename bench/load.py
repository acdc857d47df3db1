"""Loads a real server with wrk, and measures the CPU time of the server's processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import msgspec
import psutil

from moorage.testing.postgres import free_port

_SCHEDULED = 2
"""Combined with a process id, it identifies the clock of that process's CPU time: see clock_getcpuclockid(3)."""
_UPDATE = """
local n = 0
request = function()
  n = n + 1
  local path = "/api/moorage/v1/catalogs/bench/namespaces/n" .. (n % 256)
  return wrk.format("PATCH", path, {["Content-Type"] = "application/json"}, '{"set_properties":{"v":"' .. n .. '"}}')
end
"""


class Load(msgspec.Struct, frozen=True):
    """The results of one run of wrk."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    failed: int


class Server:
    """A server's process. `beside` is a process whose children work for it, such as PostgreSQL's."""

    def __init__(self, pid: int, url: str, first_answer_s: float = 0.0, beside: int | None = None) -> None:
        self.url = url
        self.first_answer_s = first_answer_s
        self._pid = self.pid = pid
        self._beside = beside

    def cpu_seconds(self) -> float:
        return _cpu(self._pid) + _cpu_of_ended_children(self._pid) + self.cpu_seconds_beside()

    def cpu_seconds_beside(self) -> float:
        if self._beside is None:
            return 0.0
        helpers = psutil.Process(self._beside).children()
        return sum(_cpu(helper.pid) for helper in helpers) + _cpu_of_ended_children(self._beside)

    def run(self, callers: int, path: str = "/", *, script: Path | None = None, seconds: int = 4) -> Load:
        command = ["wrk", "-t1", f"-c{callers}", f"-d{seconds}", "--latency", *(["-s", str(script)] if script else [])]
        before = self.cpu_seconds()
        shown = subprocess.run([*command, self.url + path], check=True, capture_output=True, text=True).stdout
        cpu = self.cpu_seconds() - before
        requests = int(_find(r"(\d+) requests in", shown))
        return Load(
            per_second=float(_find(r"Requests/sec:\s+([\d.]+)", shown)),
            p50_ms=_ms(_find(r"\n\s+50%\s+(\S+)", shown)),
            p99_ms=_ms(_find(r"\n\s+99%\s+(\S+)", shown)),
            cpu_us=cpu / requests * 1e6,
            failed=int(_find(r"Non-2xx or 3xx responses: (\d+)|($)", shown) or 0),
        )


def serving(data: Path, *arguments: str, beside: int | None = None) -> AbstractContextManager[Server]:
    port = free_port()
    moorage = str(Path(sys.executable).with_name("moorage"))
    return running([moorage, "serve", "--data", str(data), "--port", str(port), *arguments], port, beside=beside)


def answering_fixed_bytes() -> AbstractContextManager[Server]:
    port = free_port()
    return running([sys.executable, "-m", "bench.floor", str(port)], port)


@contextmanager
def running(
    command: list[str],
    port: int,
    *,
    beside: int | None = None,
    ready: str = "/readyz",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[Server]:
    """Starts a server in a folder, and yields it when the path `ready` returns 200."""
    url = f"http://127.0.0.1:{port}"
    started = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, cwd=folder)
    try:
        while not _answers(url + ready):
            if process.poll() is not None:
                raise RuntimeError(f"the server exited with {process.returncode} before it was ready")
            time.sleep(0.01)
        yield Server(process.pid, url, time.monotonic() - started, beside)
    finally:
        process.terminate()
        process.wait(30)


def fill(url: str) -> None:
    """Creates the catalog and the namespaces that the load script updates."""
    with httpx.Client(base_url=f"{url}/api/moorage/v1", timeout=30) as http:
        http.post("/catalogs", json={"name": "bench"}).raise_for_status()
        for n in range(256):
            http.post("/catalogs/bench/namespaces", json={"path": [f"n{n}"]}).raise_for_status()


def update_script(folder: Path) -> Path:
    script = folder / "update.lua"
    script.write_text(_UPDATE, encoding="ascii")
    return script


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == 200
    except httpx.TransportError:
        return False


def _cpu(pid: int) -> float:
    """Returns the CPU seconds of all threads of a process. Its clock counts nanoseconds, /proc only hundredths."""
    try:
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    except OSError:  # the process has just ended, as PostgreSQL's autovacuum workers do
        return 0.0


def _cpu_of_ended_children(pid: int) -> float:
    """Returns the CPU seconds of ended children. Iceberg's server, for example, starts a program for each file."""
    spent = psutil.Process(pid).cpu_times()
    return float(spent.children_user + spent.children_system)


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"the output of wrk does not match {pattern!r}:\n{text}")
    return found[1] or ""


def _ms(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}[unit]
