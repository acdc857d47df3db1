"""Spark with nothing but a token of the catalog writes tables of all three formats in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moorage.pipeline.ingest import Request, ingest
from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.guarded_lakes import GuardedLake
from tests.conformance.lakes import attach_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_managed_tables_of_every_format(spark: SparkSession, minio: MinioServer, tmp_path: Path) -> None:
    root = f"s3://{minio.new_bucket()}/lake/"
    environment = {**minio.settings(root), "MOORAGE_MANAGED_LOCATION": f"{root}managed"}
    rows = spark.createDataFrame([(1, "Oslo"), (2, "Rome")], "id long, city string")
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"], environment=environment) as server:
        lake = GuardedLake(server)
        for kind in ("delta", "lance"):
            name = f"lake.sales.{kind}_cities"
            options = {"url": lake.url, "tableFormat": kind}
            for _ in range(2):
                rows.write.format("moorage").options(**options, token=lake.writer).mode("append").save(name)
            lake.grant(f"{kind}_cities")
            assert spark.read.format("moorage").options(**options, token=lake.reader).load(name).count() == 4
        delegation = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
        attach_spark(spark, server, "vending", token=lake.writer, **delegation)
        spark.sql("CREATE TABLE vending.sales.cities (id BIGINT, city STRING) USING iceberg")
        spark.sql("INSERT INTO vending.sales.cities VALUES (1, 'Oslo')")
        lake.grant("cities")
        attach_spark(spark, server, "vending_reader", token=lake.reader, **delegation)
        assert spark.table("vending_reader.sales.cities").count() == 1
        assert not server.errors()


def test_an_ingest_records_the_files_that_it_took_in_the_store(
    spark: SparkSession, minio: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So another machine continues it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = f"s3://{minio.new_bucket()}/lake/"
    environment = {**minio.settings(root), "MOORAGE_MANAGED_LOCATION": f"{root}managed"}
    source = tmp_path / "in"
    source.mkdir()
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"], environment=environment) as server:
        lake = GuardedLake(server)
        request = Request(
            source=str(source), table="lake.sales.taken", url=lake.url, token=lake.writer, table_format="lance"
        )
        taken = []
        for name, rows in (("a.json", '{"id": 1}\n'), (".hidden", ""), ("b.json", '{"id": 2}\n{"id": 3}\n')):
            (source / name).write_text(rows)
            taken.append(ingest(spark, request).rows)
        assert taken == [1, 0, 2]
        assert not (tmp_path / "state").exists()
        options = {"url": lake.url, "token": lake.writer}
        assert spark.read.format("moorage").options(**options).load("lake.sales.taken").count() == 3
        assert not server.errors()
