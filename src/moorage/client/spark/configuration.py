"""The configuration of a session. Pure, so that what a cluster receives can be tested without one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moorage.client.spark.failure import SparkUnavailable
from moorage.client.spark.settings import SparkSettings

EXTENSIONS: Final = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_DEFAULTS: Final = {
    "spark.sql.extensions": ",".join(EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.showConsoleProgress": "false",
    # Timestamps without a zone in a table's log must not depend on where the worker runs.
    "spark.sql.session.timeZone": "UTC",
    # A commit of an object store is one request. The first algorithm would rename each file twice.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    # The keys of a table on S3 differ from those of its neighbours, so a file system is not shared between them.
    "spark.hadoop.fs.s3a.impl.disable.cache": "true",
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}


def configuration(settings: SparkSettings, jars: Sequence[Path] = (), *, cores: int | None = None) -> dict[str, str]:
    """The settings with which to build a session. `cores` is the number of cores of this machine.

    A Spark Connect server has its extensions, catalogs and jars already; `server_configuration` is what it is
    started with.
    """
    if settings.remote is not None:
        return {"spark.sql.session.timeZone": "UTC", **settings.conf}
    return server_configuration(settings, jars, cores=cores)


def server_configuration(
    settings: SparkSettings, jars: Sequence[Path] = (), *, cores: int | None = None
) -> dict[str, str]:
    """The settings of a driver: the process of a worker, or a Spark Connect server."""
    conf = {**_DEFAULTS, "spark.master": settings.master, "spark.app.name": settings.app_name}
    if jars:
        conf["spark.jars"] = ",".join(map(str, jars))
    if settings.is_local:
        conf |= _small(local_cores(settings.master, cores))
    elif settings.master.startswith("k8s://"):
        _require(settings, "spark.kubernetes.container.image", "the image of the executors, with Python and moorage")
        conf["spark.submit.deployMode"] = "client"
    elif settings.master == "yarn":
        conf["spark.submit.deployMode"] = "client"
    if _is_on_loopback(settings):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf | settings.conf


def local_cores(master: str, cores: int | None = None) -> int:
    """The number of tasks that a local master runs at once: `local` is one, `local[4]` four, `local[*]` all cores."""
    asked = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if asked is None:
        raise SparkUnavailable(f"expected a Spark master like local[*], spark://…, k8s://… or yarn, not {master!r}")
    if asked[1] == "*":
        return cores or os.cpu_count() or 1
    return int(asked[1] or 1)


def _small(cores: int) -> dict[str, str]:
    """For one machine. Spark's defaults are for a cluster: 200 tasks for a few rows, 32 to list a folder."""
    partitions = str(max(2, cores))
    return {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": partitions,
        "spark.default.parallelism": partitions,
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": partitions,
        "spark.databricks.delta.snapshotPartitions": partitions,
        "spark.ui.enabled": "false",
    }


def _is_on_loopback(settings: SparkSettings) -> bool:
    return settings.is_local or any(settings.master.startswith(f"spark://{host}:") for host in _LOOPBACK)


def _require(settings: SparkSettings, key: str, meaning: str) -> None:
    if key not in settings.conf:
        raise SparkUnavailable(f"the master '{settings.master}' needs --spark-conf {key}=…: {meaning}")
