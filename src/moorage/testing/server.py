"""A real server in its own process, which a test may stop, kill and restart on the same data."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

COMMAND = (sys.executable, "-m", "moorage.cli.main")
PATIENCE_SECONDS = 60.0

# A proxy from the environment cannot reach the loopback address of this machine.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def clean_environment(**extra: str) -> dict[str, str]:
    """Return the environment without Moorage settings, and without a proxy for the loopback address."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    return {**others, "NO_PROXY": "127.0.0.1", **extra}


class ServerProcess:
    """`moorage serve` on a folder or a database. Use it as a context manager: it is killed at the end of the test."""

    def __init__(
        self,
        data: Path,
        *,
        database: str | None = None,
        flags: Sequence[str] = (),
        verb: str = "serve",
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        authority: Path | None = None,
    ) -> None:
        """`authority`: the certificate that a server with TLS is verified by."""
        self.data = data
        self.log = data.with_name(f"{data.name}.log")
        self._output = data.with_name(f"{data.name}.out")
        self._command = (*command, verb, "--data", str(data), "--chores-interval-seconds", "0.2")
        self._authority = authority
        self._flags = (*(("--database", database) if database else ()), *flags)
        self._environment = clean_environment(**(environment or {}))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._authority else 'http'}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> Self:
        """Start the server and wait for /readyz. After `stop` or `kill`, it reuses its port if that is still free."""
        if not self._launch() and self.port and "in use" in self.words():
            self.port = 0
            self._launch()
        if self._process is None:
            raise AssertionError(f"the server did not become ready; its log:\n{self.words()}")
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the server as an operator would, and return its exit code."""
        return self._signal_and_wait(number)

    def kill(self) -> None:
        """Send SIGKILL, so that the server can finish nothing."""
        self._signal_and_wait(signal.SIGKILL)

    def restart(self) -> Self:
        """Kill the server and start it on the same data."""
        self.kill()
        return self.start()

    def words(self) -> str:
        """Return everything that the server has logged so far."""
        return self.log.read_text() if self.log.exists() else ""

    def errors(self) -> list[str]:
        """Return the lines of the log with level error."""
        return [line for line in self.words().splitlines() if '"level":"error"' in line]

    def output(self) -> str:
        """Return everything that the process has printed so far. A server prints nothing."""
        return self._output.read_text() if self._output.exists() else ""

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far, in user and system mode."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process

    def _launch(self) -> bool:
        with self.log.open("ab") as log, self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._command, "--port", str(self.port), *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=self._environment,
            )
        if not self._is_ready_in_time():
            self.kill()
            return False
        return True

    def _is_ready_in_time(self) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._running().poll() is None:
            with contextlib.suppress(OSError, psutil.Error):
                self.port = self.port or self._listening_port()
                if self.port and self._is_ready():
                    return True
            time.sleep(0.02)
        return False

    def _listening_port(self) -> int:
        """Return the port that the server chose. A port chosen here could be taken before the server listens."""
        sockets = psutil.Process(self.pid).net_connections("tcp")
        return next((s.laddr.port for s in sockets if s.status == psutil.CONN_LISTEN), 0)

    def _is_ready(self) -> bool:
        opener = _direct
        if self._authority is not None:
            https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self._authority)))
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
        with opener.open(f"{self.url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)

    def _signal_and_wait(self, number: signal.Signals) -> int:
        process = self._running()
        if process.poll() is None:
            process.send_signal(number)
        code = process.wait(timeout=PATIENCE_SECONDS)
        self._process = None
        return code
