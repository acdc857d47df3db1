"""Spark, on Iceberg tables through Iceberg's own catalog."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from scripts.steps import TOOLS
from tests.judges.steps import Place, main


def settings(at: Place) -> dict[str, str]:
    """Return the properties of Iceberg's catalog for Spark."""
    catalog = {"type": "rest", "uri": f"{at.url}/iceberg", "warehouse": "lake"}
    if at.is_local:
        return catalog
    if at.key is None:
        return {**catalog, "header.X-Iceberg-Access-Delegation": "vended-credentials"}
    return {
        **catalog,
        "s3.access-key-id": at.key.access_key_id,
        "s3.secret-access-key": at.key.secret_access_key,
    }


class Spark:
    def __init__(self, at: Place) -> None:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        jars = ",".join(str(jar) for jar in sorted((TOOLS / "spark-jars").glob("*.jar")))
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", jars)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        )
        for name, value in settings(at).items():
            builder = builder.config(f"spark.sql.catalog.lake.{name}", value)
        self.session = builder.getOrCreate()
        self.table = f"lake.{at.namespace}.spark"
        self.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{at.namespace}")

    def sql(self, statement: str) -> list[Any]:
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def ids(self, at: str = "") -> list[int]:
        return [row[0] for row in self.sql(f"SELECT id FROM {self.table} {at} ORDER BY id")]

    def create(self) -> None:
        self.sql(f"CREATE TABLE {self.table} AS SELECT * FROM VALUES (1L, 'Oslo'), (2L, 'Rome') AS t(id, city)")

    def append(self) -> None:
        self.sql(f"INSERT INTO {self.table} VALUES (3, 'Kyiv')")

    def read(self) -> None:
        assert self.ids() == [1, 2, 3]

    def time_travel(self) -> None:
        ((first,), *_) = self.sql(f"SELECT snapshot_id FROM {self.table}.snapshots ORDER BY committed_at")
        assert self.ids(f"VERSION AS OF {first}") == [1, 2]

    def evolve(self) -> None:
        self.sql(f"ALTER TABLE {self.table} ADD COLUMN note STRING")
        assert self.sql(f"SELECT note FROM {self.table}") == [(None,)] * 3

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.table} WHERE id = 2")
        assert self.ids() == [1, 3]

    def drop(self) -> None:
        self.sql(f"DROP TABLE {self.table}")
        assert not self.session.catalog.tableExists(self.table)


if __name__ == "__main__":
    main(Spark)
