"""A real server with one catalog, `lake`, for real clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog

from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def lake_server(data: Path, flags: Sequence[str] = ()) -> Iterator[ServerProcess]:
    with ServerProcess(data, flags=flags) as server:
        ask(server, "POST", "/api/moorage/v1/catalogs", json={"name": "lake"})
        yield server
        assert not server.errors()


@contextmanager
def s3_lake_server(data: Path, minio: MinioServer, place: str) -> Iterator[ServerProcess]:
    """The same with its tables in a place of an object store; what is purged goes at once."""
    with ServerProcess(data, flags=("--hold-days", "0"), environment=minio.settings(place)) as server:
        ask(server, "POST", "/api/2.1/unity-catalog/catalogs", json={"name": "lake", "storage_root": place})
        yield server
        assert not server.errors()


def ask(server: ServerProcess, verb: str, path: str, **given: Any) -> Any:
    """What no client at hand can ask; it has to succeed."""
    answer = httpx.request(verb, server.url + path, trust_env=False, timeout=60, **given)
    assert answer.is_success, f"{answer.status_code}: {answer.text}"
    return answer.json() if answer.content else None


def said_by(server: ServerProcess, path: str) -> str:
    return httpx.get(server.url + path, trust_env=False, timeout=60).text


def attach_spark(spark: SparkSession, server: ServerProcess, name: str, **more: str) -> None:
    """The catalog `lake`, under a name that nobody else in this session has."""
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    settings = {"type": "rest", "uri": f"{server.url}/iceberg", "warehouse": "lake", "cache-enabled": "false"}
    for setting, value in {**settings, **more}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{setting}", value)


def pyiceberg_of(server: ServerProcess, **settings: str) -> RestCatalog:
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake", **settings)
    assert isinstance(catalog, RestCatalog)
    return catalog
