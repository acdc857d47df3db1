"""One server and one Spark session for the tests of a process: starting Spark takes ten seconds and a gigabyte."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moorage.client import Client
from moorage.client.delta import DeltaTables
from moorage.client.spark.settings import SparkSettings
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.testing.server import ServerProcess
from scripts.steps import TOOLS
from tests.conformance.lakes import pyiceberg_of
from tests.pipeline.sites import Site
from tests.pipeline.workers import spark_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_itemcollected(item: pytest.Item) -> None:
    """PySpark leaves the sockets that fetch rows to the garbage collector."""
    item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    # If pylance is loaded, the start of the JVM is reported as a fork. It is harmless: the child calls exec.
    item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"))


@pytest.fixture(scope="session")
def jars() -> Path:
    """The jars that `make setup` has fetched, so that the tests download nothing."""
    os.environ["MOORAGE_SPARK_JARS"] = str(TOOLS / "spark-jars")
    return TOOLS / "spark-jars"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("pipeline") / "data") as server:
        with Client(server.url) as client:
            client.catalogs.create("lake")
        yield server


@pytest.fixture(scope="session")
def spark(server: ServerProcess, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from moorage.client.spark import session

    scratch = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.driver.memory": "1g",
        "spark.sql.codegen.wholeStage": "false",
        # With the first level only, the code cache has 48 MB. These tests fill it, and then Spark stops.
        "spark.driver.extraJavaOptions": (
            f"-Dderby.system.home={scratch} -Djava.net.useSystemProxies=false "
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        ),
    }
    made = session(server.url, catalog="lake", settings=SparkSettings(master="local[2]", jars=jars, conf=conf))
    yield made
    made.stop()


@pytest.fixture
def tables(server: ServerProcess) -> Iterator[DeltaTables]:
    with DeltaTables(server.url) as tables:
        yield tables


@pytest.fixture
def schema(server: ServerProcess, request: pytest.FixtureRequest) -> str:
    """A schema for this test only, as `catalog.schema`."""
    name = re.sub(r"\W+", "_", request.node.name).strip("_")
    with Client(server.url) as client:
        client.namespaces.create("lake", [name])
    return f"lake.{name}"


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the catalog `lake`, the namespace `sea`, and a worker process with Spark."""
    folder = tmp_path_factory.mktemp("upkeep")
    with ServerProcess(folder / "data") as server, spark_worker(server.url, folder / "worker.log"):
        with Client(server.url) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sea"])
        yield server


@pytest.fixture
def moored(lake: ServerProcess) -> Iterator[Client]:
    """A client of the server that has a worker."""
    with Client(lake.url) as client:
        yield client


@pytest.fixture(scope="module")
def connect(server: ServerProcess, jars: Path) -> Iterator[ConnectServer]:
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    with Client(server.url) as client:
        if all(catalog.name != "sample" for catalog in client.catalogs.list()):
            client.catalogs.create("sample")  # Spark knows the catalogs that exist when it starts
    with ConnectServer(SparkSettings(master="local[2]", jars=jars, conf=conf), server.url) as connect:
        yield connect


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def site(client: Client, connect: ConnectServer, schema: str, tmp_path: Path, server: ServerProcess) -> Site:
    return Site(client, connect, schema, tmp_path, pyiceberg_of(server))
