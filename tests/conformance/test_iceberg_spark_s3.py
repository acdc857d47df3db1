"""Spark with tables in an object store, and without a key to it: the server signs its requests or vends a key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moorage.storage.s3 import S3Storage
from moorage.testing.minio import MinioServer
from tests.conformance.lakes import attach_spark, pyiceberg_of, s3_lake_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

LATER = "TIMESTAMP '2100-01-01 00:00:00'"
Rows = list[tuple[Any, ...]]


@pytest.mark.parametrize("delegation", ["remote-signing", "vended-credentials"])
def test_spark_without_a_key_writes_compacts_expires_and_lists(
    spark: SparkSession, minio: MinioServer, tmp_path: Path, delegation: str
) -> None:
    lake = delegation.partition("-")[0]
    location = f"s3://{minio.new_bucket()}/lake/"
    storage = S3Storage(minio.account(location))

    def sql(statement: str) -> Rows:
        return [tuple(row) for row in spark.sql(statement).collect()]

    with s3_lake_server(tmp_path / "data", minio, location) as server:
        attach_spark(spark, server, lake, **{"header.X-Iceberg-Access-Delegation": delegation})
        sql(f"CREATE NAMESPACE {lake}.s")
        sql(f"CREATE TABLE {lake}.s.orders (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city)")
        sql(f"INSERT INTO {lake}.s.orders VALUES (1, 'Oslo'), (2, 'São Paulo/=+%20')")
        sql(f"INSERT INTO {lake}.s.orders VALUES (3, 'Oslo')")
        sql(f"CREATE TABLE {lake}.s.more USING iceberg AS SELECT 4L AS id, 'Kyiv' AS city")
        sql(f"INSERT INTO {lake}.s.orders SELECT * FROM {lake}.s.more")
        sql(f"DELETE FROM {lake}.s.orders WHERE id = 2")
        kept = [(1, "Oslo"), (3, "Oslo"), (4, "Kyiv")]
        assert sql(f"SELECT * FROM {lake}.s.orders ORDER BY id") == kept

        table = pyiceberg_of(server).load_table(("s", "orders"))
        root = f"{table.location()}/"
        before = asyncio.run(storage.list(root, "data/"))
        sql(f"CALL {lake}.system.rewrite_data_files(table => 's.orders', options => map('rewrite-all', 'true'))")
        sql(f"CALL {lake}.system.expire_snapshots(table => 's.orders', older_than => {LATER}, retain_last => 1)")
        after = asyncio.run(storage.list(root, "data/"))
        assert not set(after) & set(before), "expired files were not deleted"

        # Spark deletes only files older than a day. This tests that it may list the files.
        assert sql(f"CALL {lake}.system.remove_orphan_files(table => 's.orders', prefix_listing => true)") == []
        assert sql(f"SELECT * FROM {lake}.s.orders ORDER BY id") == kept
