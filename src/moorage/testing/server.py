"""A real server in a process of its own, which a test may stop, kill and start again on the same data."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from moorage.testing.postgres import free_port

PATIENCE_SECONDS = 30.0
_PORTS_TO_TRY = 5

# A proxy from the environment cannot reach our own loopback address.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServerProcess:
    """`moorage serve` on a folder or a database. Use it as a context: it is killed when the test is over."""

    def __init__(self, data: Path, *, database: str | None = None, flags: Sequence[str] = ()) -> None:
        self.data = data
        self.log = data.with_name(f"{data.name}.log")
        self._flags = (*(("--database", database) if database else ()), *flags)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def start(self) -> Self:
        """Run until /readyz says yes. After a kill the old port is free again, yet a new one is as good."""
        for _ in range(_PORTS_TO_TRY):
            self.port = free_port()
            self._spawn()
            if self._is_ready_in_time():
                return self
            self.kill()
            if "in use" not in self.words():  # somebody took the port between our look and our listening
                break
        raise AssertionError(f"the server did not become ready; it said:\n{self.words()}")

    def stop(self) -> int:
        """Ask it to stop, as an operator would; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: it gets to finish nothing."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        """Kill it and start it again on the same data."""
        self.kill()
        return self.start()

    def words(self) -> str:
        """Everything that it has logged so far."""
        return self.log.read_text() if self.log.exists() else ""

    def cpu_seconds(self) -> float:
        """What the process has used so far, in user and system mode."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    def _spawn(self) -> None:
        command = [sys.executable, "-m", "moorage.cli.main", "serve"]
        settings = ["--data", str(self.data), "--port", str(self.port), "--chores-interval-seconds", "0.2"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *settings, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def _is_ready_in_time(self) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            with contextlib.suppress(OSError), _direct.open(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
            time.sleep(0.02)
        return False

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None, "the server was not started"
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(timeout=PATIENCE_SECONDS)
        self._process = None
        return code
