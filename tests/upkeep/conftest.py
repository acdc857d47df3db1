"""A server, and one Spark session for all tests of a process that also runs the jobs, where a test needs no worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moorage.client import Client
from moorage.client.answers import Job
from moorage.client.spark import SparkSettings, start_session
from moorage.pipeline.programs import PROGRAMS, spark_programs
from moorage.pipeline.warm_session import WarmSession
from moorage.pipeline.worker import Worker
from moorage.testing.server import ServerProcess
from scripts.steps import TOOLS
from tests.upkeep.managed_lake import CATALOG, SCHEMA, UNITY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = TOOLS / "spark-jars"
FAST = {
    # For a few rows, compiling code costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.slow)
    item.add_marker(pytest.mark.xdist_group("spark"))
    item.add_marker(pytest.mark.timeout(600))
    item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"))


class OwnSession(WarmSession):
    """The session of the tests."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(SparkSettings())
        self._session = spark

    def stop(self) -> None:
        pass


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    conf = {**FAST, "spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch / "local")}
    found = start_session(SparkSettings(master="local[2]", jars=JARS, conf=conf))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("upkeep") / "data") as server:
        with httpx.Client(base_url=server.url, trust_env=False) as http:
            http.post(f"{UNITY}/catalogs", json={"name": CATALOG}).raise_for_status()
            http.post(f"{UNITY}/schemas", json={"name": SCHEMA, "catalog_name": CATALOG}).raise_for_status()
        yield server
        assert server.errors() == []


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        yield http


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


Finish = Callable[[dict[str, Any]], Job]


@pytest.fixture
def finish(client: Client, spark: SparkSession) -> Finish:
    """Runs all due jobs in this process, and returns one of them."""

    def run(job: dict[str, Any]) -> Job:
        Worker(client, threading.Event(), programs={**PROGRAMS, **spark_programs(OwnSession(spark))}).run(once=True)
        return client.jobs.get(job["id"])

    return run


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"
