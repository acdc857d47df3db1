"""One project on every kind of Spark, with the same result, also if its processes are killed while files arrive.

MOORAGE_SOAK=1 kills each process several times, at random moments.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import lance
import pyarrow.parquet as pq
import pytest

from moorage.client import Client
from moorage.client.delta import DeltaTables
from moorage.client.lance import Lake
from moorage.client.spark.settings import SparkSettings
from moorage.core.entries import JobState
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.testing.server import ServerProcess
from tests.conformance.lakes import pyiceberg_of
from tests.pipeline.sites import Site, kill_projects
from tests.upkeep.conftest import FAST
from tests.upkeep.test_spark_elsewhere import cluster, executors_of

pytestmark = [pytest.mark.xdist_group("spark-pipeline"), pytest.mark.timeout(1800)]

SOAK = os.environ.get("MOORAGE_SOAK") == "1"
WHOLE = """
    from pyspark.sql import functions as F
    from moorage.client.expectations import define_checked

    @dp.table
    def bronze():
        columns = "line LONG, id LONG, amount DOUBLE"
        return spark.readStream.schema(columns).option("maxFilesPerTrigger", 2).json("{in}")

    define_checked("checked", "bronze", {"amount is positive": "amount > 0"}, stream=True, keep_rejected=True)

    @dp.materialized_view
    def silver():
        return spark.read.table("checked").groupBy("id").agg(F.max("amount").alias("amount"))

    @dp.materialized_view
    def gold():
        return spark.read.table("silver").selectExpr("count(*) AS ids", "sum(amount) AS amount")

    dp.create_sink("to_delta", "moorage", {"path": "lake.{schema}.log"})
    dp.create_sink("to_lance", "moorage", {"path": "lake.{schema}.points", "tableFormat": "lance"})

    @dp.append_flow(target="to_delta")
    def fill_log():
        return spark.readStream.table("checked").selectExpr("line", "amount")

    @dp.append_flow(target="to_lance")
    def fill_points():
        vector = "array(CAST(id AS FLOAT), CAST(amount AS FLOAT)) AS vector"
        return spark.readStream.table("checked").selectExpr("line", vector)
"""


class Arrivals:
    """Files that keep arriving. A third of their rows repeat an id, and some break the expectation."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.rows: list[dict[str, Any]] = []
        self._files = 0

    def add(self, files: int) -> None:
        for _ in range(files):
            start = len(self.rows)
            rows = [
                {"line": line, "id": line * 2 // 3, "amount": -1.0 if line % 7 == 3 else float(line)}
                for line in range(start, start + 10)
            ]
            self.site.put(f"{self._files}.json", rows)
            self.rows += rows
            self._files += 1

    def require_whole(self) -> None:
        """Every row is in the streaming table and in each sink once, and the views equal a computation from scratch."""
        site, good = self.site, [row for row in self.rows if row["amount"] > 0]
        lines, good_lines = [row["line"] for row in self.rows], [row["line"] for row in good]
        assert sorted(row["line"] for row in site.rows("bronze")) == lines
        assert sorted(row["line"] for row in site.rows("checked")) == good_lines
        assert len(site.rows("checked_rejected")) == len(lines) - len(good_lines)
        silver: dict[int, float] = {}
        for row in good:
            silver[row["id"]] = max(row["amount"], silver.get(row["id"], 0.0))
        assert {row["id"]: row["amount"] for row in site.rows("silver")} == silver
        assert site.rows("gold") == [{"ids": len(silver), "amount": sum(silver.values())}]
        url, table = site.client.url, ("lake", site.schema)
        with DeltaTables(url) as tables:
            state = tables.state(".".join((*table, "log")))
        folder = unquote(urlsplit(state.location).path)
        log = pq.ParquetDataset([f"{folder}/{unquote(file['path'])}" for file in state.files]).read().to_pylist()
        assert sorted((row["line"], row["amount"]) for row in log) == [(row["line"], row["amount"]) for row in good]
        points = lance.dataset(namespace_client=Lake(url), table_id=[*table, "points"]).to_table().to_pylist()
        assert sorted((row["line"], row["vector"]) for row in points) == [
            (row["line"], [float(row["id"]), row["amount"]]) for row in good
        ]


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_project_has_the_same_result_on_local_spark_and_on_a_spark_connect_server(
    site: Site, connect: ConnectServer, kind: str
) -> None:
    if kind == "remote":
        site.connect = ConnectServer(SparkSettings(remote=connect.address("lake")), site.client.url)
    site.python(WHOLE.replace("{schema}", site.schema))
    site.check()
    arrivals = Arrivals(site)
    arrivals.add(4)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert done.progress is not None
    assert (done.progress["fraction"], set(done.progress["flows"].values())) == (1.0, {"COMPLETED"})
    arrivals.require_whole()


@pytest.fixture
def two_servers(tmp_path: Path, database_url: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers on one PostgreSQL database, with the catalog `lake`."""
    data = tmp_path / "data"
    with ServerProcess(data, database=database_url) as first, ServerProcess(data, database=database_url) as second:
        with Client(first.url) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sea"])
        yield first, second


def test_a_cluster_and_two_servers_lose_no_row_while_their_processes_are_killed_in_turn(
    two_servers: tuple[ServerProcess, ServerProcess], jars: Path, tmp_path: Path
) -> None:
    """The worker uses one server, and Spark the other one."""
    first, second = two_servers
    folder = tmp_path / "site"
    folder.mkdir()
    conf = {**FAST, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    with cluster(tmp_path) as (flags, _), Client(first.url) as client:
        settings = SparkSettings(master=flags[1], jars=jars, conf=conf)
        with ConnectServer(settings, second.url) as connect:
            site = Site(client, connect, "lake.sea", folder, pyiceberg_of(first))
            site.python(WHOLE.replace("{schema}", "sea"))
            site.check()
            _kill_in_turn(site, (kill_an_executor, connect.kill, second.restart))


def _kill_in_turn(site: Site, kills: tuple[Callable[[], object], ...]) -> None:
    arrivals = Arrivals(site)
    rounds = [*kills, kill_projects] * 3 if SOAK else kills
    for kill in rounds:
        arrivals.add(4)
        killer = threading.Thread(target=_kill_during_a_run, args=(site, len(_snapshots(site)), kill))
        killer.start()
        job = site.run()
        killer.join()
        if job.ended_at_ms is None:
            site.client.jobs.cancel(job.id)
    arrivals.add(1)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    arrivals.require_whole()


def _kill_during_a_run(site: Site, before: int, kill: Callable[[], object]) -> None:
    """After the first batch, when further batches and the flows behind them are under way."""
    deadline = time.monotonic() + 300
    while len(_snapshots(site)) <= before and time.monotonic() < deadline:
        time.sleep(0.05)
    if SOAK:
        time.sleep(random.uniform(0.0, 10.0))
    kill()


def _snapshots(site: Site) -> list[dict[str, object]]:
    found = site.client.pipelines.iceberg_metadata(f"lake.{site.schema}.bronze")
    return [] if found is None else found.get("snapshots") or []


def kill_an_executor() -> None:
    found = executors_of()
    assert found
    found[0].kill()
