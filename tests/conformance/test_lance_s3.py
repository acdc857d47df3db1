"""Lance tables in an object store: rows over HTTP, pylance with its own key, and an outage of the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.client.lance import Lake
from moorage.client.lance.spark import LanceSource
from moorage.client.spark_types import spark_schema
from moorage.storage.s3 import S3Storage
from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.lakes import s3_lake_server, send_request

pytestmark = [
    pytest.mark.xdist_group("s3"),
    pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"),
]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})


@pytest.fixture
def own_minio(tmp_path: Path) -> Iterator[MinioServer]:
    """An object store for this test only, which it may stop."""
    (tmp_path / "minio").mkdir()
    with MinioServer(tmp_path / "minio") as server:
        yield server


def streamed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def send(server: ServerProcess, verb: str, rows: pa.Table) -> httpx.Response:
    return httpx.post(
        f"{server.url}/lance/v1/table/lake$s$cities/{verb}",
        content=streamed(rows),
        headers={"content-type": "application/vnd.apache.arrow.stream"},
        trust_env=False,
        timeout=60,
    )


def count(server: ServerProcess) -> httpx.Response:
    return httpx.post(f"{server.url}/lance/v1/table/lake$s$cities/count_rows", json={}, trust_env=False, timeout=60)


def test_rows_are_sent_over_http_and_pylance_uses_its_own_key(minio: MinioServer, tmp_path: Path) -> None:
    root = f"s3://{minio.new_bucket()}/lake/"
    with s3_lake_server(tmp_path / "data", minio, root) as server:
        send_request(server, "POST", "/lance/v1/namespace/lake$s/create", json={})
        location = send(server, "create", ROWS).raise_for_status().json()["location"]
        assert location.startswith(root)
        send(server, "insert", ROWS).raise_for_status()
        deleted = {"predicate": "id = 2"}
        assert send_request(server, "POST", "/lance/v1/table/lake$s$cities/delete", json=deleted)["version"] == 3
        assert count(server).json() == 4
        indexed = {"column": "id", "index_type": "BTREE"}
        send_request(server, "POST", "/lance/v1/table/lake$s$cities/create_scalar_index", json=indexed)
        key = minio.account(root).options()
        dataset = lance.dataset(location, version=3, storage_options=key)
        assert sorted(dataset.to_table()["id"].to_pylist()) == [1, 1, 3, 3]

        by_name: dict[str, Any] = {
            "namespace_client": Lake(server.url),
            "table_id": ["lake", "s", "more"],
            "storage_options": key,
        }
        lance.write_dataset(ROWS, **by_name)
        lance.write_dataset(ROWS, mode="append", **by_name)
        assert lance.dataset(**by_name).count_rows() == 6
        wait_until_nothing_is_staged(minio, root)
        assert lance.dataset(**by_name).count_rows() == 6


def test_transactions_and_spark_use_an_object_store_with_their_own_key(minio: MinioServer, tmp_path: Path) -> None:
    root = f"s3://{minio.new_bucket()}/lake/"
    key = minio.account(root).options()
    with s3_lake_server(tmp_path / "data", minio, root) as server:
        send_request(server, "POST", "/lance/v1/namespace/lake$s/create", json={})
        with Lake(server.url).transaction(storage_options=key) as transaction:
            both: dict[str, Any] = {"namespace_client": transaction, "storage_options": key}
            for table in (["lake", "s", "one"], ["lake", "s", "two"]):
                lance.write_dataset(ROWS, table_id=table, **both)
                assert lance.write_dataset(ROWS, table_id=table, mode="append", **both).version == 2
        options = {f"storage.{name}": value for name, value in key.items()}
        source = LanceSource({"uri": server.url, "path": "lake$s$three", **options})
        for _ in ("create", "append"):
            writer = source.writer(spark_schema(ROWS.schema), overwrite=False)
            writer.commit([writer.write(iter(ROWS.to_batches()))])
        reader = source.reader(source.schema())
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        assert pa.Table.from_batches(batches).to_pydict() == pa.concat_tables([ROWS, ROWS]).to_pydict()


def wait_until_nothing_is_staged(minio: MinioServer, root: str) -> None:
    """Wait until the manifests of all versions exist under their final names only."""
    storage = S3Storage(minio.account(root))
    deadline = time.monotonic() + 60
    while any(".manifest-" in each.path for each in asyncio.run(storage.list(root, ""))):
        assert time.monotonic() < deadline, "staged manifests were not published"
        time.sleep(0.2)


def test_an_unreachable_store_gives_503_and_requests_succeed_when_it_is_reachable_again(
    own_minio: MinioServer, tmp_path: Path
) -> None:
    root = f"s3://{own_minio.new_bucket()}/lake/"
    with ServerProcess(tmp_path / "data", environment=own_minio.settings(root)) as server:
        send_request(server, "POST", "/api/2.1/unity-catalog/catalogs", json={"name": "lake", "storage_root": root})
        send_request(server, "POST", "/lance/v1/namespace/lake$s/create", json={})
        send(server, "create", ROWS).raise_for_status()
        tables = f"{server.url}/iceberg/v1/lake/namespaces/s/tables"
        new_table = {"name": "orders", "schema": EXAMPLE_SCHEMA}

        own_minio.stop()
        for response in (
            httpx.post(tables, json=new_table, trust_env=False, timeout=60),
            send(server, "insert", ROWS),
            count(server),
        ):
            assert response.status_code == 503, response.text
            assert own_minio.endpoint not in response.text
        assert httpx.get(f"{server.url}/readyz", trust_env=False, timeout=60).status_code == 200, (
            "other tables are available"
        )

        own_minio.start()
        httpx.post(tables, json=new_table, trust_env=False, timeout=60).raise_for_status()
        send(server, "insert", ROWS).raise_for_status()
        assert count(server).json() == 6
