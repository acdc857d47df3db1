"""Spark lets the server plan its scans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.lakes import attach_spark, lake_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

NEAR, FAR = "planned_near", "planned_far"
Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("spark-planning") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def sql(spark: SparkSession, server: ServerProcess) -> Sql:
    """One statement, and its rows. The same server as two catalogs: one plans here, one there."""
    for catalog in (NEAR, FAR):
        attach_spark(spark, server, catalog)
        # What was read before must not be remembered: it may have been written through the other one.
        spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
    spark.conf.set(f"spark.sql.catalog.{FAR}.scan-planning-mode", "server")
    found: Sql = lambda statement: [tuple(row) for row in spark.sql(statement).collect()]  # noqa: E731
    found(f"CREATE NAMESPACE {NEAR}.sales")
    return found


def plans(server: ServerProcess) -> float:
    """How many scans the server has planned so far."""
    text = httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).text
    found = re.findall(r'moorage_requests_total\{.*operation="planTableScan",status="200"\} ([\d.]+)', text)
    return sum(map(float, found))


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_the_same_whoever_plans(sql: Sql, server: ServerProcess, version: int) -> None:
    name = f"sales.orders_{version}"
    sql(
        f"CREATE TABLE {NEAR}.{name} (id BIGINT, city STRING, day DATE, at TIMESTAMP, price DECIMAL(9,2)) "
        "USING iceberg PARTITIONED BY (city, months(day), bucket(2, id)) "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    for first in (0, 10):
        values = ", ".join(
            f"({n}, {'NULL' if n % 4 == 0 else repr(('Oslo', 'Rome')[n % 2])}, DATE '2024-0{n % 3 + 1}-05', "
            f"TIMESTAMP '2024-01-0{n % 9 + 1} 10:00:00', {n}.50)"
            for n in range(first, first + 10)
        )
        sql(f"INSERT INTO {NEAR}.{name} VALUES {values}")
    sql(f"DELETE FROM {NEAR}.{name} WHERE id IN (3, 4, 13)")
    for condition in (
        "true",
        "city = 'Oslo'",
        "city IS NULL AND id > 4",
        "day < DATE '2024-02-01'",
        "day IN (DATE '2024-01-05', DATE '2024-03-05') AND city LIKE 'Ro%'",
        "at >= TIMESTAMP '2024-01-05 10:00:00' OR price < 2.5",
        "NOT (id BETWEEN 2 AND 15)",
    ):
        before = plans(server)
        near, far = (sql(f"SELECT * FROM {catalog}.{name} WHERE {condition} ORDER BY id") for catalog in (NEAR, FAR))
        assert near == far != []
        assert plans(server) > before
    extremes = "SELECT min(id), max(price), count(*), min(day) FROM {}." + name
    assert sql(extremes.format(FAR)) == sql(extremes.format(NEAR))


def test_older_snapshots_are_read_as_they_were(sql: Sql) -> None:
    name = "sales.history"
    sql(f"CREATE TABLE {NEAR}.{name} (id BIGINT) USING iceberg")
    for number in range(3):
        sql(f"INSERT INTO {NEAR}.{name} VALUES ({number})")
    sql(f"ALTER TABLE {NEAR}.{name} RENAME COLUMN id TO number")
    snapshots = [row[0] for row in sql(f"SELECT snapshot_id FROM {NEAR}.{name}.snapshots ORDER BY committed_at")]
    for kept, snapshot in enumerate(snapshots, 1):
        assert len(sql(f"SELECT * FROM {FAR}.{name} VERSION AS OF {snapshot}")) == kept
    assert sql(f"SELECT number FROM {FAR}.{name} WHERE number = 2") == [(2,)]


def test_floats_are_found_by_what_stands_in_files(sql: Sql) -> None:
    name = "sales.weights"
    values = ("0.1", "'Infinity'", "'-0.0'")
    sql(f"CREATE TABLE {NEAR}.{name} (id INT, weight FLOAT) USING iceberg")
    for number, value in enumerate(values):
        sql(f"INSERT INTO {NEAR}.{name} VALUES ({number}, CAST({value} AS FLOAT))")
    for number, value in enumerate(values):
        assert sql(f"SELECT id FROM {FAR}.{name} WHERE weight = CAST({value} AS FLOAT)") == [(number,)]


def test_a_partition_that_json_cannot_name_is_left_to_the_client(sql: Sql) -> None:
    name = "sales.unweighed"
    sql(f"CREATE TABLE {NEAR}.{name} (id INT, weight DOUBLE) USING iceberg PARTITIONED BY (weight)")
    sql(f"INSERT INTO {NEAR}.{name} VALUES (1, CAST('NaN' AS DOUBLE)), (2, CAST('-Infinity' AS DOUBLE))")
    with pytest.raises(Exception, match="plan the scan in the client"):
        sql(f"SELECT * FROM {FAR}.{name}")
    assert sql(f"SELECT * FROM {FAR}.{name} WHERE weight < 0") == [(2, float("-inf"))]
