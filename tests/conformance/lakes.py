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
        send_request(server, "POST", "/api/moorage/v1/catalogs", json={"name": "lake"})
        yield server
        assert not server.errors()


@contextmanager
def s3_lake_server(data: Path, minio: MinioServer, location: str) -> Iterator[ServerProcess]:
    """The same, with its tables in an object store. Purged files are deleted immediately."""
    with ServerProcess(data, flags=("--hold-days", "0"), environment=minio.settings(location)) as server:
        send_request(server, "POST", "/api/2.1/unity-catalog/catalogs", json={"name": "lake", "storage_root": location})
        yield server
        assert not server.errors()


def send_request(server: ServerProcess, verb: str, path: str, **given: Any) -> Any:
    """Send a request that the clients cannot send. It must succeed."""
    answer = httpx.request(verb, server.url + path, trust_env=False, timeout=60, **given)
    assert answer.is_success, f"{answer.status_code}: {answer.text}"
    return answer.json() if answer.content else None


def text_at(server: ServerProcess, path: str) -> str:
    return httpx.get(server.url + path, trust_env=False, timeout=60).text


def attach_spark(spark: SparkSession, server: ServerProcess, name: str, **more: str) -> None:
    """Attach the catalog `lake` under a name that is unique in this session."""
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    settings = {"type": "rest", "uri": f"{server.url}/iceberg", "warehouse": "lake", "cache-enabled": "false"}
    for setting, value in {**settings, **more}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{setting}", value)


def pyiceberg_of(server: ServerProcess, **settings: str) -> RestCatalog:
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake", **settings)
    assert isinstance(catalog, RestCatalog)
    return catalog
