"""Builds sessions, and the command of a Spark Connect server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from moorage.client.spark.configuration import configuration, server_configuration
from moorage.client.spark.failure import SparkUnavailable
from moorage.client.spark.jars import PYSPARK_MISSING, fetch_jars, find_java, find_pyspark
from moorage.client.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


def session(settings: SparkSettings | None = None) -> SparkSession:
    """A session with Delta, Iceberg and S3: in this process, on a cluster, or on a Spark Connect server."""
    settings = settings or SparkSettings.from_environment()
    if settings.remote is None:
        find_java()
    find_pyspark()
    prepare_environment(settings)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailable(f"{PYSPARK_MISSING} ({error})") from error
    builder = SparkSession.builder
    if settings.remote is not None:
        builder = builder.remote(settings.remote)
    jars = [] if settings.remote is not None else fetch_jars(settings)
    for key, value in configuration(settings, jars).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if settings.remote is None:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def prepare_environment(settings: SparkSettings) -> None:
    """Set what Spark reads from the environment only, before its JVM starts."""
    # The Python processes of Spark need the packages of this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def connect_command(settings: SparkSettings, *, port: int, host: str = "127.0.0.1") -> list[str]:
    """The command that runs a Spark Connect server with the same jars and settings as a session."""
    conf = server_configuration(settings, fetch_jars(settings))
    conf |= {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": host}
    master = conf.pop("spark.master")
    flags = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    submit = str(find_pyspark() / "bin" / "spark-submit")
    return [submit, "--class", _CONNECT_SERVER, "--master", master, *flags, "spark-internal"]
