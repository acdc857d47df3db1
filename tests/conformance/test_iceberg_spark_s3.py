"""Spark without credentials uses tables in an object store: the server signs every request."""

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


def test_spark_without_a_key_writes_compacts_expires_and_lists(
    spark: SparkSession, minio: MinioServer, tmp_path: Path
) -> None:
    location = f"s3://{minio.new_bucket()}/lake/"
    storage = S3Storage(minio.account(location))

    def sql(statement: str) -> Rows:
        return [tuple(row) for row in spark.sql(statement).collect()]

    with s3_lake_server(tmp_path / "data", minio, location) as server:
        attach_spark(spark, server, "on_s3", **{"header.X-Iceberg-Access-Delegation": "remote-signing"})
        sql("CREATE NAMESPACE on_s3.s")
        sql("CREATE TABLE on_s3.s.orders (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city)")
        sql("INSERT INTO on_s3.s.orders VALUES (1, 'Oslo'), (2, 'São Paulo/=+%20')")
        sql("INSERT INTO on_s3.s.orders VALUES (3, 'Oslo')")
        sql("CREATE TABLE on_s3.s.more USING iceberg AS SELECT 4L AS id, 'Kyiv' AS city")
        sql("INSERT INTO on_s3.s.orders SELECT * FROM on_s3.s.more")
        sql("DELETE FROM on_s3.s.orders WHERE id = 2")
        kept = [(1, "Oslo"), (3, "Oslo"), (4, "Kyiv")]
        assert sql("SELECT * FROM on_s3.s.orders ORDER BY id") == kept

        table = pyiceberg_of(server).load_table(("s", "orders"))
        root = f"{table.location()}/"
        before = asyncio.run(storage.list(root, "data/"))
        sql("CALL on_s3.system.rewrite_data_files(table => 's.orders', options => map('rewrite-all', 'true'))")
        sql(f"CALL on_s3.system.expire_snapshots(table => 's.orders', older_than => {LATER}, retain_last => 1)")
        after = asyncio.run(storage.list(root, "data/"))
        assert not set(after) & set(before), "expired files were not deleted"

        # Spark deletes only files older than a day. This tests that it may list the files.
        assert sql("CALL on_s3.system.remove_orphan_files(table => 's.orders', prefix_listing => true)") == []
        assert sql("SELECT * FROM on_s3.s.orders ORDER BY id") == kept
