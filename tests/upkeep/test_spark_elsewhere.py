"""The same jobs on a standalone cluster of two workers, whose executors are killed, and on a Spark Connect server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import lance
import psutil
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from moorage.client import Client
from moorage.client.lance import Lake
from moorage.client.spark import SparkSettings, connect_command
from moorage.client.spark.jars import find_pyspark
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.upkeep.conftest import FAST, JARS
from tests.upkeep.managed_lake import CATALOG, SCHEMA, rows_of, small_files
from tests.upkeep.test_worker_process import end_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
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


def compacts(
    spark: SparkSession,
    http: httpx.Client,
    url: str,
    name: str,
    folder: Path,
    flags: list[str],
    disturb: Callable[[Client, str], None] = lambda client, job: None,
) -> None:
    """A worker with these flags compacts a table of each format. `disturb` is called while it has the first job."""
    table = small_files(spark, http, name).adopt()
    before = rows_of(spark, table.plain_copy(folder / "before"))
    iceberg = load_catalog("lake", type="rest", uri=f"{url}/iceberg", warehouse=CATALOG)
    other = iceberg.create_table(f"{SCHEMA}.{name}_ice", ROWS.schema)
    id, lake = [CATALOG, SCHEMA, f"{name}_lance"], Lake(url)
    for number in range(4):
        other.append(ROWS)
        lance.write_dataset(ROWS, namespace_client=lake, table_id=id, mode="append" if number else "create")
    with Client(url) as client, running([*COMMAND, "worker", "--url", url, *flags], folder / "worker.log"):
        ids = [table.compact()["id"]]
        disturb(client, ids[0])
        others = (f"{name}_ice", f"{name}_lance")
        ids += [client.namespaces.create_job(CATALOG, [SCHEMA], each, "compact").id for each in others]
        ended = [end_of(client, each, within_s=480) for each in ids]
    log = (folder / "worker.log").read_text()[-3000:]
    assert [(job.state, job.error, job.attempt) for job in ended] == [("succeeded", None, 1)] * 3, log
    results = [job.result for job in ended if job.result is not None]
    assert [(result["before"]["files"], result["after"]["files"]) for result in results] == [(8, 1), (4, 1), (4, 1)]
    assert [result["after"]["rows"] for result in results] == [40, 40, 40]
    assert rows_of(spark, table.plain_copy(folder / "after")) == before
    assert sorted(other.refresh().scan().to_arrow()["id"].to_pylist()) == sorted(list(range(10)) * 4)
    found = lance.dataset(namespace_client=lake, table_id=id).to_table()
    assert sorted(found["id"].to_pylist()) == sorted(list(range(10)) * 4)


def executors_of(pid: int | None = None) -> list[psutil.Process]:
    """The executors of Spark that a process has started, or this one. Others of its children may end at any time."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                found.append(child)
    return found


def kill_executors(folder: Path, workers: Sequence[subprocess.Popen[bytes]], client: Client, job: str) -> None:
    """Kill all executors of a cluster when they have begun with the tasks of a job. What they computed is lost."""
    deadline = time.monotonic() + 240
    while not any("Running task" in log.read_text() for log in folder.glob("*/app-*/*/stderr")):
        assert time.monotonic() < deadline, client.jobs.get(job)
        time.sleep(0.05)
    executors = [executor for worker in workers for executor in executors_of(worker.pid)]
    for executor in executors:
        executor.kill()
    assert len(executors) >= 1
    assert client.jobs.get(job).state == "running", "the kill came too late to disturb the job"


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[list[str], Sequence[subprocess.Popen[bytes]]]]:
    """A standalone cluster: the flags of a worker that uses it, and the processes of its own two workers."""
    port = free_port()
    spark_class = str(find_pyspark() / "bin" / "spark-class")
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [
        *(spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "600m"),
        *("--host", "127.0.0.1", f"spark://127.0.0.1:{port}"),
    ]
    conf = {
        **FAST,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # For a few files. The default of 50 takes minutes on a loaded machine.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    flags = ["--spark-master", f"spark://127.0.0.1:{port}"]
    flags += [part for key, value in conf.items() for part in ("--spark-conf", f"{key}={value}")]
    with running([*master, "--webui-port", "0"], folder / "master.log"):
        wait_for_port(port)
        with (
            running([*worker, "--webui-port", "0", "--work-dir", str(folder / "one")], folder / "one.log") as one,
            running([*worker, "--webui-port", "0", "--work-dir", str(folder / "two")], folder / "two.log") as two,
        ):
            yield flags, (one, two)


@pytest.mark.timeout(1200)
def test_a_standalone_cluster_whose_executors_are_killed_compacts_tables_of_each_format(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, tmp_path: Path
) -> None:
    with cluster(tmp_path) as (flags, workers):
        kill = partial(kill_executors, tmp_path, workers)
        compacts(spark, http, server.url, "clustered_spark", tmp_path, flags, kill)


@pytest.mark.timeout(1200)
def test_a_spark_connect_server_compacts_tables_of_each_format(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, tmp_path: Path
) -> None:
    port = free_port()
    settings = SparkSettings(master="local[1]", jars=JARS, conf=FAST)
    with running(connect_command(settings, port=port), tmp_path / "connect.log"):
        wait_for_port(port)
        flags = ["--spark-remote", f"sc://127.0.0.1:{port}"]
        compacts(spark, http, server.url, "connected_spark", tmp_path, flags)
