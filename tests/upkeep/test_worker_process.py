"""`moorage worker` compacts a table with Spark, end to end: a server, a worker and a request, each a process."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil

from moorage.client import Client
from moorage.client.answers import Job
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.upkeep.conftest import FAST, JARS
from tests.upkeep.managed_lake import rows_of, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def worker_process(url: str, log: Path, *flags: str, die_at: str = "") -> Iterator[subprocess.Popen[bytes]]:
    conf = [part for key, value in FAST.items() for part in ("--spark-conf", f"{key}={value}")]
    environment = clean_environment(MOORAGE_SPARK_JARS=str(JARS), MOORAGE_DIE_AT=die_at)
    command = [*COMMAND, "worker", "--url", url, *(flags or ("--spark-master", "local[1]")), *conf]
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def end_of(client: Client, id: str, *, within_s: float = 240.0) -> Job:
    deadline = time.monotonic() + within_s
    while (now := client.jobs.get(id)).ended_at_ms is None:
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    return now


def test_a_worker_compacts_a_table_and_stays_warm(
    spark: SparkSession, http: httpx.Client, client: Client, server: ServerProcess, copy: Path, tmp_path: Path
) -> None:
    assert http.get("/api/2.1/unity-catalog/capabilities").json()["table_compaction"] is True
    first = small_files(spark, http, "first").adopt()
    second = small_files(spark, http, "second").adopt()
    before = rows_of(spark, first.plain_copy(copy / "before"))
    with worker_process(server.url, tmp_path / "worker.log"):
        job = end_of(client, first.compact_in_quiet()["id"])
        assert (job.state, job.error) == ("succeeded", None), (tmp_path / "worker.log").read_text()
        asked = time.monotonic()
        audited = end_of(client, client.jobs.create("audit").id)
        assert audited.state == "succeeded"
        light_s = time.monotonic() - asked
        job = end_of(client, second.compact()["id"])
        assert job.state == "succeeded"
    assert light_s < 3, "a job without Spark does not wait for Spark"
    assert (len(first.files()), len(second.files())) == (1, 1)
    assert rows_of(spark, first.plain_copy(copy / "after")) == before


def test_a_worker_whose_jvm_was_killed_starts_another_one(
    spark: SparkSession, http: httpx.Client, client: Client, server: ServerProcess, tmp_path: Path
) -> None:
    tables = [small_files(spark, http, name).adopt() for name in ("before_the_kill", "after_the_kill")]
    with worker_process(server.url, tmp_path / "worker.log") as worker:
        assert end_of(client, tables[0].compact()["id"]).state == "succeeded"
        (jvm,) = (each for each in psutil.Process(worker.pid).children() if each.name() == "java")
        jvm.kill()
        job = end_of(client, tables[1].compact()["id"])
    assert (job.state, job.error, job.attempt) == ("succeeded", None, 1), (tmp_path / "worker.log").read_text()
    assert len(tables[1].files()) == 1
