"""A real catalog in a process of its own, as an operator would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

PATIENCE_SECONDS = 30.0
COMMAND = (sys.executable, "-m", "moorage.cli.main")


def clean_environment(**extra: str) -> dict[str, str]:
    """Without the settings of whoever runs the tests, and without a proxy between us and our own machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    return {**kept, "NO_PROXY": "127.0.0.1", **extra}


class CatalogProcess:
    """`moorage serve` on a free port. Use it as a context; inside it, the catalog answers."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        verb: str = "serve",
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._flags = ("--data", str(data), *flags)
        self._verb = verb
        self._environment = clean_environment(**(environment or {}))
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.seconds_to_first_answer = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the catalog was not started")
        return self._process

    def start(self) -> None:
        """Start, and wait until it is ready. After `stop` or `kill` it comes back at the same address."""
        began = time.monotonic()
        self._process = subprocess.Popen(
            [*self._command, self._verb, *self._flags, "--port", str(self._port)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            self._await_ready(began + PATIENCE_SECONDS)
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise
        self.seconds_to_first_answer = time.monotonic() - began

    def stop(self) -> tuple[int, str, str]:
        """Ask it to stop; its exit code and what it said, normally nothing."""
        self.process.send_signal(signal.SIGTERM)
        said, complained = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, said, complained

    def kill(self) -> None:
        """As by a power cut."""
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _await_ready(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the catalog did not start: {self.process.communicate()[1]}")
            if self._port == 0:
                self._port = self._listening_port()
            elif self._is_ready():
                return
            time.sleep(0.01)
        raise TimeoutError("the catalog was not ready in time")

    def _listening_port(self) -> int:
        sockets = psutil.Process(self.process.pid).net_connections("tcp")
        return next((s.laddr.port for s in sockets if s.status == psutil.CONN_LISTEN), 0)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
