"""The same compaction on a standalone cluster of two workers, and on a Spark Connect server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from moorage.client import Client
from moorage.client.spark import SparkSettings, connect_command
from moorage.client.spark.jars import find_pyspark
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.upkeep.conftest import FAST, JARS
from tests.upkeep.managed_lake import rows_of, small_files
from tests.upkeep.test_worker_process import end_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENVIRONMENT = {
    "MOORAGE_SPARK_JARS": str(JARS),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all its children, which are killed at the end."""
    environment = clean_environment(**ENVIRONMENT)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=log.parent
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_port(port: int, *, within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.2)


def compacts(spark: SparkSession, http: httpx.Client, url: str, name: str, folder: Path, flags: list[str]) -> None:
    """A worker with these flags compacts a table."""
    table = small_files(spark, http, name).adopt()
    before = rows_of(spark, table.plain_copy(folder / "before"))
    with Client(url) as client, running([*COMMAND, "worker", "--url", url, *flags], folder / "worker.log"):
        job = end_of(client, table.compact()["id"])
    assert (job.state, job.error) == ("succeeded", None), (folder / "worker.log").read_text()[-3000:]
    assert len(table.files()) == 1
    assert rows_of(spark, table.plain_copy(folder / "after")) == before


def test_a_standalone_cluster_compacts_a_table(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, tmp_path: Path
) -> None:
    port = free_port()
    spark_class = str(find_pyspark() / "bin" / "spark-class")
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [
        *(spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "600m"),
        *("--host", "127.0.0.1", f"spark://127.0.0.1:{port}"),
    ]
    conf = {**FAST, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    flags = ["--spark-master", f"spark://127.0.0.1:{port}"]
    flags += [part for key, value in conf.items() for part in ("--spark-conf", f"{key}={value}")]
    with running([*master, "--webui-port", "0"], tmp_path / "master.log"):
        wait_for_port(port)
        with (
            running([*worker, "--webui-port", "0", "--work-dir", str(tmp_path / "one")], tmp_path / "one.log"),
            running([*worker, "--webui-port", "0", "--work-dir", str(tmp_path / "two")], tmp_path / "two.log"),
        ):
            compacts(spark, http, server.url, "clustered_spark", tmp_path, flags)


def test_a_spark_connect_server_compacts_a_table(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, tmp_path: Path
) -> None:
    port = free_port()
    settings = SparkSettings(master="local[1]", jars=JARS, conf=FAST)
    with running(connect_command(settings, port=port), tmp_path / "connect.log"):
        wait_for_port(port)
        flags = ["--spark-remote", f"sc://127.0.0.1:{port}"]
        compacts(spark, http, server.url, "connected_spark", tmp_path, flags)
