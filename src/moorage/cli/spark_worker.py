"""The worker with Spark that `moorage up` starts as a process of its own, once Spark is installed."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

_CHECK_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 10.0
_RESTART_SECONDS: Final = 5.0


class SparkWorker:
    """Waits until Spark can run here, then runs a worker until `end`. The server runs without it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, url: str) -> None:
        self._thread = threading.Thread(target=self._accompany, args=(url,), name="spark-worker", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _accompany(self, url: str) -> None:
        from moorage.client.spark.failure import SparkUnavailable
        from moorage.client.spark.jars import find_java, find_pyspark

        is_told = False
        while not self._stop.is_set():
            try:
                find_java()
            except SparkUnavailable as error:
                print(f"No worker with Spark: {error}", flush=True)
                return
            try:
                find_pyspark()
            except SparkUnavailable as error:
                if not is_told:
                    print(f"The worker with Spark starts when Spark is installed: {error}", flush=True)
                is_told = True
                self._stop.wait(_CHECK_SECONDS)
                importlib.invalidate_caches()
                continue
            if is_told:
                print("Spark is installed; its worker has started.", flush=True)
            self._run_again_and_again(url)

    def _run_again_and_again(self, url: str) -> None:
        """Run a worker until `end`. One that was killed, as by a lack of memory, is replaced."""
        while not self._stop.is_set():
            code = self._run(url)
            if self._stop.is_set():
                return
            again = f"It starts again in {_RESTART_SECONDS:.0f} s."
            print(f"The worker with Spark ended with code {code}, see {self._log}. {again}", flush=True)
            self._stop.wait(_RESTART_SECONDS)

    def _run(self, url: str) -> int | None:
        from moorage.pipeline.sdp.connect_server import dying_with_parent

        worker = [sys.executable, "-m", "moorage.cli.main", "worker", "--url", url, "--only-spark"]
        # Spark takes every core. Requests to the server on the same machine come first.
        command = ["nice", "-n", "10", *dying_with_parent(worker)]
        # The terminal sends Ctrl-C to every process of its group; this one must stop before the server does.
        own_group: dict[str, Any] = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        with self._log.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log, **own_group) as process:
            while process.poll() is None and not self._stop.wait(_CHECK_SECONDS):
                pass
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.returncode
