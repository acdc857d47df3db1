"""DuckDB with tables in an object store, and without a key to it: it requests vended credentials by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.testing.minio import MinioServer
from tests.conformance.ducks import duck
from tests.conformance.lakes import pyiceberg_of, s3_lake_server

pytestmark = pytest.mark.xdist_group("s3")


def test_duckdb_without_a_key_creates_fills_and_reads_tables(minio: MinioServer, tmp_path: Path) -> None:
    place = f"s3://{minio.new_bucket()}/lake/"
    with s3_lake_server(tmp_path / "data", minio, place) as server, duck("avro", "httpfs", "iceberg") as db:
        db.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none')")
        db.execute("CREATE SCHEMA lake.sea")
        db.execute("CREATE TABLE lake.sea.orders (id BIGINT, city VARCHAR)")
        db.execute("INSERT INTO lake.sea.orders VALUES (1, 'Oslo'), (2, 'Rome')")
        db.execute("CREATE TABLE lake.sea.staged AS SELECT * FROM lake.sea.orders WHERE id = 2")
        found = "SELECT id, city FROM lake.sea.{} ORDER BY id"
        assert db.execute(found.format("orders")).fetchall() == [(1, "Oslo"), (2, "Rome")]
        assert db.execute(found.format("staged")).fetchall() == [(2, "Rome")]
        assert pyiceberg_of(server).load_table(("sea", "orders")).scan().to_arrow().num_rows == 2
