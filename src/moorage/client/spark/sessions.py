"""Builds sessions, and the command of a Spark Connect server."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from moorage.client.connection import Client
from moorage.client.spark.catalogs import catalog_configuration
from moorage.client.spark.configuration import configuration, server_configuration
from moorage.client.spark.failure import SparkUnavailable
from moorage.client.spark.jars import PYSPARK_MISSING, fetch_jars, find_java, find_pyspark
from moorage.client.spark.settings import TOKEN_SETTING, URL_SETTING, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


def session(
    url: str,
    *,
    catalog: str | Sequence[str] | None = None,
    token: str | None = None,
    settings: SparkSettings | None = None,
) -> SparkSession:
    """A session for the tables of a server: in this process, on a cluster, or on a Spark Connect server.

    Iceberg tables have their names in SQL: `lake.sea.boats`. Delta and Lance tables are read and written with
    `format("moorage")`. The default is every catalog of the server.
    """
    settings = settings or SparkSettings.from_environment()
    names = find_catalogs(url, token) if catalog is None else [catalog] if isinstance(catalog, str) else list(catalog)
    catalogs = catalog_configuration(url, names, token=token)
    spark = start_session(replace(settings, conf=catalogs | settings.conf))
    spark.conf.set(URL_SETTING, url)
    if token:
        spark.conf.set(TOKEN_SETTING, token)
    for key, value in catalogs.items():  # a session that runs already ignores the settings of its builder
        spark.conf.set(key, settings.conf.get(key, value))
    register_source(spark, url, token)
    return spark


def register_source(spark: SparkSession, url: str, token: str | None = None) -> None:
    """Offer `format("moorage")` in a session, with a server for queries that name none."""
    from moorage.client.data_source import source_for

    spark.dataSource.register(source_for(url, token))


def find_catalogs(url: str, token: str | None) -> list[str]:
    """The names of the catalogs that the caller can see."""
    with Client(url, token=token) as client:
        return [found.name for found in client.catalogs.list()]


def start_session(settings: SparkSettings) -> SparkSession:
    """A session with Delta, Iceberg and S3, and without catalogs."""
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


def is_alive(spark: Any, settings: SparkSettings) -> bool:
    """Whether Spark still answers. Its JVM may have been killed, and its cluster or server may have ended."""
    try:
        if settings.remote is not None:
            spark.conf.get("spark.sql.session.timeZone")
            return True
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - a lost JVM is an error of the socket, of py4j or of gRPC
        return False


def discard_session(spark: Any, settings: SparkSettings) -> None:
    """End a session that does not answer, so that the next start does not return it again."""
    with suppress(Exception):
        spark.stop()
    if settings.remote is None:
        _discard_jvm()


def _discard_jvm() -> None:
    # PySpark has no call for this: after its JVM was killed, every new session would use the address of that JVM.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    if (gateway := context._gateway) is not None:
        with suppress(Exception):
            gateway.shutdown()
        if gateway.proc is not None:
            gateway.proc.kill()
            gateway.proc.wait()
    context._active_spark_context = context._gateway = context._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


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
