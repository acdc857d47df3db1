"""Pipelines: checked, registered, run by a worker on a Spark Connect server, with views that change together."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest
from pyiceberg.catalog import Catalog

from moorage.client import Client
from moorage.client.answers import Job
from moorage.client.spark import SparkSettings
from moorage.core.entries import JobState
from moorage.core.jobs import PIPELINE
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.project import Graph, ProjectFailed, run_project
from moorage.pipeline.sdp.runs import pipeline_program
from moorage.pipeline.worker import Worker
from moorage.testing.server import COMMAND, ServerProcess
from tests.conformance.lakes import pyiceberg_of

pytestmark = pytest.mark.xdist_group("spark-pipeline")


@pytest.fixture(scope="module")
def connect(server: ServerProcess, jars: Path) -> Iterator[ConnectServer]:
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    with ConnectServer(SparkSettings(master="local[2]", jars=jars, conf=conf), server.url) as connect:
        yield connect


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


class Site:
    """A project in a folder, its pipeline in a schema of its own, and a worker."""

    def __init__(self, client: Client, connect: ConnectServer, schema: str, folder: Path, lake: Catalog) -> None:
        self.client, self.connect, self.folder, self.lake = client, connect, folder, lake
        self.schema = schema.split(".")[1]
        (folder / "in").mkdir()
        self.files: dict[str, str] = {
            "spark-pipeline.yml": dedent(f"""\
                name: daily
                storage: {(folder / "state").as_uri()}
                catalog: lake
                schema: {self.schema}
                libraries:
                  - glob:
                      include: steps/**
                """)
        }

    def python(self, text: str) -> None:
        head = (
            "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\nspark = SparkSession.active()\n"
        )
        self.files["steps/flows.py"] = head + dedent(text).replace("{in}", str(self.folder / "in"))

    def put(self, name: str, rows: list[dict[str, Any]]) -> None:
        part = self.folder / f".{name}"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        part.rename(self.folder / "in" / name)

    def check(self) -> Graph:
        graph = run_project(self.files, self.connect, {"dry": True}, session_id=_fresh()).graph
        self.client.pipelines.register(
            "lake", [self.schema], "daily", self.files, tables=graph.tables, views=graph.views, flows=graph.flows
        )
        return graph

    def run(self, **what: Any) -> Job:
        job = self.client.pipelines.run("lake", [self.schema], "daily", **what)
        Worker(self.client, threading.Event(), programs={PIPELINE: pipeline_program(self.connect)}).run(once=True)
        return self.client.jobs.get(job.id)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lake.load_table(f"{self.schema}.{table}").scan().to_arrow().to_pylist()
        return found


def _fresh() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def site(client: Client, connect: ConnectServer, schema: str, tmp_path: Path, server: ServerProcess) -> Site:
    return Site(client, connect, schema, tmp_path, pyiceberg_of(server))


FLOWS = """
    from pyspark.sql import functions as F

    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, amount DOUBLE").json("{in}")

    @dp.materialized_view
    def silver():
        return spark.read.table("bronze").filter("amount >= 0").groupBy("id").agg(F.max("amount").alias("amount"))

    @dp.materialized_view
    def gold():
        return spark.read.table("silver").selectExpr("count(*) AS n", "sum(amount) AS total", "1 / (count(*) - 7) AS x")
"""


def test_files_become_tables_and_a_failed_run_leaves_the_old_rows(site: Site) -> None:
    site.python(FLOWS)
    graph = site.check()
    assert [name.rsplit(".", 1)[1] for name in (*graph.tables, *graph.views)] == ["bronze", "silver", "gold"]
    assert {flow.target.rsplit(".", 1)[1]: [read.rsplit(".", 1)[1] for read in flow.reads] for flow in graph.flows} == {
        "bronze": [],
        "silver": ["bronze"],
        "gold": ["silver"],
    }
    site.put("a.json", [{"id": at, "amount": 1.0} for at in range(5)] + [{"id": 0, "amount": -1.0}])
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert done.result is not None
    assert done.result["tables"][f"lake.{site.schema}.bronze"] == {"rows": 6, "added": 6}
    assert [(row["n"], row["total"]) for row in site.rows("gold")] == [(5, 5.0)]
    # The second run reads only what is new, and the views see all of it.
    site.put("b.json", [{"id": at, "amount": 1.0} for at in range(5, 7)])
    failed = site.run()
    assert failed.state is JobState.QUEUED, failed.state
    assert failed.error is not None
    assert "gold" in failed.error or "DIVIDE_BY_ZERO" in failed.error
    assert len(site.rows("bronze")) == 8
    assert len(site.rows("silver")) == 5
    assert [(row["n"], row["total"]) for row in site.rows("gold")] == [(5, 5.0)]
    refs = {table: set(site.lake.load_table(f"{site.schema}.{table}").refs()) for table in ("silver", "gold")}
    assert refs == {"silver": {"main"}, "gold": {"main"}}
    site.client.jobs.cancel(failed.id)
    site.put("c.json", [{"id": 7, "amount": 1.0}])
    again = site.run()
    assert again.state is JobState.SUCCEEDED, again.error
    assert len(site.rows("bronze")) == 9
    assert [(row["n"], row["total"]) for row in site.rows("gold")] == [(8, 8.0)]


@pytest.mark.parametrize("operator", ['withColumn("x", F.lit(1))', 'drop("amount")', 'dropDuplicates(["id"])'])
def test_an_operator_that_loses_its_source_is_refused_by_file_and_line(site: Site, operator: str) -> None:
    site.python(f"""
        from pyspark.sql import functions as F

        @dp.materialized_view
        def silver():
            return spark.read.table("bronze").{operator}
    """)
    with pytest.raises(
        ProjectFailed, match=r"steps/flows\.py:\d+: the flow '.*silver' uses .* on the table 'bronze'"
    ) as e:
        site.check()
    assert e.value.refused


def test_a_view_in_sql_must_be_written_on_a_branch(site: Site) -> None:
    site.files["steps/a.sql"] = "-- totals\nCREATE MATERIALIZED VIEW totals AS SELECT 1 AS one;\n"
    with pytest.raises(ProjectFailed, match=r"steps/a\.sql:2: the view totals needs TBLPROPERTIES"):
        site.check()
    site.files["steps/a.sql"] = (
        "CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('write.wap.enabled' = 'true') AS SELECT 1 AS one;\n"
    )
    site.check()
    assert site.run().state is JobState.SUCCEEDED
    assert site.rows("totals") == [{"one": 1}]


def test_the_project_sees_no_secret_of_the_worker(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_TOKEN", "secret")
    site.python("""
        import os
        assert "MOORAGE_TOKEN" not in os.environ

        @dp.materialized_view
        def one():
            return spark.range(1)
    """)
    site.check()


def test_two_requests_are_one_run(site: Site) -> None:
    site.python("@dp.materialized_view\ndef one():\n    return spark.range(1)\n")
    site.check()
    first = site.client.pipelines.run("lake", [site.schema], "daily")
    assert site.client.pipelines.run("lake", [site.schema], "daily").id == first.id
    site.client.jobs.cancel(first.id)
    assert site.client.pipelines.drop("lake", [site.schema], "daily").dropped_at_ms is not None


def test_the_command_checks_registers_and_runs_a_project(
    server: ServerProcess, jars: Path, schema: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars), "MOORAGE_SPARK_MASTER": "local[2]"}
    name, folder = f"{schema}.daily", tmp_path / "daily"

    def moorage(*args: str) -> str:
        done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    moorage("pipeline", "init", name, "--folder", str(folder))
    (folder / "incoming" / "a.json").write_text('{"id": 1, "amount": 2.5}\n')
    assert "1 streaming tables, 1 views" in moorage("pipeline", "check", str(folder), "--url", server.url)
    assert name in moorage("pipeline", "list", schema, "--url", server.url)
    moorage("pipeline", "run", name, "--no-watch", "--url", server.url)
    moorage("worker", "--once", "--url", server.url)
    (run,) = moorage("pipeline", "history", name, "--url", server.url).splitlines()
    assert "succeeded" in run
    assert f"{schema}.daily_totals 1 rows" in run
    assert "daily_events" in moorage("pipeline", "show", name, "--url", server.url)
    moorage("pipeline", "drop", name, "--url", server.url)


SLOW = """
    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, amount DOUBLE").option("maxFilesPerTrigger", 1).json("{in}")

    @dp.materialized_view
    def gold():
        return spark.read.table("bronze").selectExpr("count(*) AS n", "count(DISTINCT id) AS ids")
"""
"""Eight files are eight batches, so that a kill comes between two of them."""


def test_a_killed_spark_server_fails_the_run_and_the_next_one_has_each_row_once(
    site: Site, connect: ConnectServer
) -> None:
    site.python(SLOW)
    site.check()
    for at in range(8):
        site.put(f"{at}.json", [{"id": 10 * at + row, "amount": 1.0} for row in range(10)])
    killer = threading.Thread(target=_kill_after_the_first_batch, args=(site, connect))
    killer.start()
    failed = site.run()
    killer.join()
    assert failed.state is JobState.QUEUED
    assert "died" in (failed.error or "")
    site.client.jobs.cancel(failed.id)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert sorted(row["id"] for row in site.rows("bronze")) == list(range(80))
    assert site.rows("gold") == [{"n": 80, "ids": 80}]


def _kill_after_the_first_batch(site: Site, connect: ConnectServer) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = site.client.pipelines.iceberg_metadata(f"lake.{site.schema}.bronze")
        if found is not None and found.get("snapshots"):
            connect.kill()
            return
        time.sleep(0.05)


def test_a_killed_worker_takes_its_spark_server_with_it(
    server: ServerProcess, jars: Path, site: Site, client: Client
) -> None:
    site.python(SLOW)
    site.check()
    for at in range(8):
        site.put(f"{at}.json", [{"id": 10 * at + row, "amount": 1.0} for row in range(10)])
    job = client.pipelines.run("lake", [site.schema], "daily")
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars), "MOORAGE_SPARK_MASTER": "local[2]"}
    worker = subprocess.Popen([*COMMAND, "worker", "--url", server.url], env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            found = client.pipelines.iceberg_metadata(f"lake.{site.schema}.bronze")
            if found is not None and found.get("snapshots"):
                break
            time.sleep(0.05)
        below = psutil.Process(worker.pid).children(recursive=True)
        assert any("java" in process.name() for process in below)
    finally:
        worker.kill()
        worker.wait()
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
    client.jobs.cancel(job.id)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert sorted(row["id"] for row in site.rows("bronze")) == list(range(80))
    assert site.rows("gold") == [{"n": 80, "ids": 80}]
