"""Spark with scans that the server plans."""

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

BY_CLIENT, BY_SERVER = "planned_by_client", "planned_by_server"
Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("spark-planning") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def sql(spark: SparkSession, server: ServerProcess) -> Sql:
    """Runs one statement, and returns its rows. The server is attached twice: Spark plans scans, or the server does."""
    for catalog in (BY_CLIENT, BY_SERVER):
        attach_spark(spark, server, catalog)
        # Nothing must be cached: a table may have been changed through the other catalog.
        spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
    spark.conf.set(f"spark.sql.catalog.{BY_SERVER}.scan-planning-mode", "server")
    found: Sql = lambda statement: [tuple(row) for row in spark.sql(statement).collect()]  # noqa: E731
    found(f"CREATE NAMESPACE {BY_CLIENT}.sales")
    return found


def plans(server: ServerProcess) -> float:
    """The number of scans that the server has planned so far."""
    text = httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).text
    found = re.findall(r'moorage_requests_total\{.*operation="planTableScan",status="200"\} ([\d.]+)', text)
    return sum(map(float, found))


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_the_same_whether_client_or_server_plans(sql: Sql, server: ServerProcess, version: int) -> None:
    name = f"sales.orders_{version}"
    sql(
        f"CREATE TABLE {BY_CLIENT}.{name} (id BIGINT, city STRING, day DATE, at TIMESTAMP, price DECIMAL(9,2)) "
        "USING iceberg PARTITIONED BY (city, months(day), bucket(2, id)) "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    for first in (0, 10):
        values = ", ".join(
            f"({n}, {'NULL' if n % 4 == 0 else repr(('Oslo', 'Rome')[n % 2])}, DATE '2024-0{n % 3 + 1}-05', "
            f"TIMESTAMP '2024-01-0{n % 9 + 1} 10:00:00', {n}.50)"
            for n in range(first, first + 10)
        )
        sql(f"INSERT INTO {BY_CLIENT}.{name} VALUES {values}")
    sql(f"DELETE FROM {BY_CLIENT}.{name} WHERE id IN (3, 4, 13)")
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
        by_client, by_server = (
            sql(f"SELECT * FROM {catalog}.{name} WHERE {condition} ORDER BY id") for catalog in (BY_CLIENT, BY_SERVER)
        )
        assert by_client == by_server != []
        assert plans(server) > before
    extremes = "SELECT min(id), max(price), count(*), min(day) FROM {}." + name
    assert sql(extremes.format(BY_SERVER)) == sql(extremes.format(BY_CLIENT))


def test_older_snapshots_are_read(sql: Sql) -> None:
    name = "sales.history"
    sql(f"CREATE TABLE {BY_CLIENT}.{name} (id BIGINT) USING iceberg")
    for number in range(3):
        sql(f"INSERT INTO {BY_CLIENT}.{name} VALUES ({number})")
    sql(f"ALTER TABLE {BY_CLIENT}.{name} RENAME COLUMN id TO number")
    snapshots = [row[0] for row in sql(f"SELECT snapshot_id FROM {BY_CLIENT}.{name}.snapshots ORDER BY committed_at")]
    for kept, snapshot in enumerate(snapshots, 1):
        assert len(sql(f"SELECT * FROM {BY_SERVER}.{name} VERSION AS OF {snapshot}")) == kept
    assert sql(f"SELECT number FROM {BY_SERVER}.{name} WHERE number = 2") == [(2,)]


def test_floats_are_found_by_their_values_in_files(sql: Sql) -> None:
    name = "sales.weights"
    values = ("0.1", "'Infinity'", "'-0.0'")
    sql(f"CREATE TABLE {BY_CLIENT}.{name} (id INT, weight FLOAT) USING iceberg")
    for number, value in enumerate(values):
        sql(f"INSERT INTO {BY_CLIENT}.{name} VALUES ({number}, CAST({value} AS FLOAT))")
    for number, value in enumerate(values):
        assert sql(f"SELECT id FROM {BY_SERVER}.{name} WHERE weight = CAST({value} AS FLOAT)") == [(number,)]


def test_a_partition_value_that_json_cannot_express_must_be_planned_by_the_client(sql: Sql) -> None:
    name = "sales.unweighed"
    sql(f"CREATE TABLE {BY_CLIENT}.{name} (id INT, weight DOUBLE) USING iceberg PARTITIONED BY (weight)")
    sql(f"INSERT INTO {BY_CLIENT}.{name} VALUES (1, CAST('NaN' AS DOUBLE)), (2, CAST('-Infinity' AS DOUBLE))")
    with pytest.raises(Exception, match="plan the scan in the client"):
        sql(f"SELECT * FROM {BY_SERVER}.{name}")
    assert sql(f"SELECT * FROM {BY_SERVER}.{name} WHERE weight < 0") == [(2, float("-inf"))]
