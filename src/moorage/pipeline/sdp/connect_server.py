"""A Spark Connect server beside a worker or a command. It is watched: a run on a dead server would wait for ever."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from moorage.client.spark import SparkSettings, SparkUnavailable, connect_command, fetch_jars
from moorage.client.spark.catalogs import catalog_configuration
from moorage.client.spark.jars import find_pyspark, without_those_of_spark
from moorage.client.spark.sessions import find_catalogs, prepare_environment

_START_SECONDS: Final = 180.0


class ConnectServer:
    """Starts with the first use, and again if it has died or does not know a catalog."""

    def __init__(self, settings: SparkSettings, url: str, token: str | None = None) -> None:
        self._settings, self._url, self._token = settings, url, token
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(tempfile.gettempdir()) / f"moorage-connect-{os.getpid()}.log"
        self._catalogs: list[str] = []
        self.port = 0

    def address(self, catalog: str | None = None, on_wait: Callable[[], None] = lambda: None) -> str:
        """The address of the running server, which it starts if needed. `on_wait` may raise, which ends the wait."""
        if self._settings.remote is not None:
            return self._settings.remote
        if not self.is_alive or (catalog is not None and catalog not in self._catalogs):
            self.stop()
            try:
                self._start(on_wait)
            except BaseException:
                self.stop()
                raise
        return f"sc://127.0.0.1:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether the process runs and its port is open."""
        if self._settings.remote is not None:
            return True
        return self._process is not None and self._process.poll() is None and _is_open(self.port)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the process, and with it every run. A server elsewhere goes on. The next use starts a new one."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, on_wait: Callable[[], None]) -> None:
        self._catalogs = find_catalogs(self._url, self._token)
        # The flows run in threads that do not see the jars of a session, so the jars are on the class path.
        path = ":".join(map(str, without_those_of_spark(fetch_jars(self._settings), find_pyspark() / "jars")))
        conf = {
            **catalog_configuration(self._url, self._catalogs, token=self._token),
            "spark.driver.extraClassPath": path,
            "spark.executor.extraClassPath": path,
            "spark.sql.files.openCostInBytes": "16384",
            "spark.sql.pipelines.maxFlowRetryAttempts": "0",
            **self._settings.conf,
        }
        self.port = _free_port()
        prepare_environment(self._settings)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                dying_with_parent(connect_command(replace(self._settings, conf=conf), port=self.port)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # For `format("moorage")` in flows and sinks that name no server.
                env={**os.environ, "MOORAGE_URL": self._url, **({"MOORAGE_TOKEN": self._token} if self._token else {})},
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not _is_open(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SparkUnavailable(f"the Spark Connect server did not start; its log is {self._log}")
            on_wait()
            time.sleep(0.2)


def dying_with_parent(command: list[str]) -> list[str]:
    """The command, killed when this process dies. A run that its worker left behind would compete with the next one."""
    setpriv = shutil.which("setpriv")  # of util-linux; other systems end what is left at the end of the session
    return command if setpriv is None else [setpriv, "--pdeathsig", "KILL", *command]


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
