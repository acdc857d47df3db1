"""One Spark session for all tests of a process: starting it takes seconds and half a gigabyte."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from scripts.steps import TOOLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """PySpark leaves the sockets that fetch rows to the garbage collector."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        # If pylance is loaded, the start of the JVM is reported as a fork. It is harmless: the child calls exec.
        item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with Delta and Iceberg. Each test configures its own catalogs with `spark.conf.set`."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    # Spark must not use a proxy of the machine for a server on loopback.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Its Python workers need the packages of this Python.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(str(jar) for jar in sorted((TOOLS / "spark-jars").glob("*.jar"))))
        .config("spark.sql.extensions", ",".join(EXTENSIONS))
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # For a few rows, the defaults create hundreds of tasks and compile code that runs once.
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .config(
            "spark.driver.extraJavaOptions",
            # With the first level only, the code cache has 48 MB. These tests fill it, and then Spark stops.
            f"-Dderby.system.home={scratch} -Djava.net.useSystemProxies=false "
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        )
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lance_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the catalog `lake`, for all clients of Lance tables."""
    data: Path = tmp_path_factory.mktemp("lance") / "data"
    with ServerProcess(data) as server:
        with Client(server.url) as client:
            client.catalogs.create("lake")
        yield server


@pytest.fixture
def lance_space(lance_server: ServerProcess, request: pytest.FixtureRequest) -> list[str]:
    """A namespace for this test only."""
    name: str = request.node.name
    with Client(lance_server.url) as client:
        client.namespaces.create("lake", [name])
    return ["lake", name]
