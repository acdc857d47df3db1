"""One Spark for all tests of a process: starting it costs seconds and half a gigabyte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from scripts.steps import TOOLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with Delta and Iceberg. Each test configures catalogs of its own with `spark.conf.set`."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    # A proxy of the machine has no business between Spark and a server on loopback.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(str(jar) for jar in sorted((TOOLS / "spark-jars").glob("*.jar"))))
        .config("spark.sql.extensions", ",".join(EXTENSIONS))
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={scratch} -Djava.net.useSystemProxies=false")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
