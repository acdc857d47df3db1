"""Spark with Iceberg's own runtime against a real server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.lakes import attach_spark, lake_server, pyiceberg_of, send_request, text_at
from tests.conformance.lossy_proxy import lossy_proxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first test waits until Spark has started.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

CATALOG = "spark_proof"
Rows = list[tuple[Any, ...]]
Sql = Callable[[str], Rows]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("spark-iceberg") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def sql(spark: SparkSession, server: ServerProcess) -> Sql:
    """Runs one statement, and returns its rows."""
    attach_spark(spark, server, CATALOG)
    return lambda statement: [tuple(row) for row in spark.sql(statement).collect()]


@pytest.fixture
def space(sql: Sql, request: pytest.FixtureRequest) -> str:
    """A namespace for this test only."""
    name = re.sub(r"\W+", "_", request.node.name)
    sql(f"CREATE NAMESPACE {CATALOG}.{name}")
    return name


@pytest.fixture
def table(sql: Sql, space: str) -> str:
    """Three rows in two snapshots."""
    name = f"{CATALOG}.{space}.orders"
    sql(f"CREATE TABLE {name} (id BIGINT, city STRING) USING iceberg")
    sql(f"INSERT INTO {name} VALUES (1, 'Oslo'), (2, 'Rome')")
    sql(f"INSERT INTO {name} VALUES (3, 'Kyiv')")
    return name


def rows_of(sql: Sql, table: str, rest: str = "") -> Rows:
    return sql(f"SELECT id, city FROM {table} {rest} ORDER BY id")


def snapshots_of(sql: Sql, table: str) -> list[int]:
    return [row[0] for row in sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at")]


@pytest.mark.parametrize(("version", "deletes"), [(2, "PARQUET"), (3, "PUFFIN")])
def test_rows_are_inserted_merged_updated_and_deleted(
    sql: Sql, server: ServerProcess, space: str, version: int, deletes: str
) -> None:
    table = f"{CATALOG}.{space}.orders"
    modes = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("merge", "update", "delete"))
    sql(
        f"CREATE TABLE {table} (id BIGINT, city STRING) USING iceberg PARTITIONED BY (bucket(2, id)) "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    sql(f"INSERT INTO {table} VALUES (1, 'Oslo'), (2, 'Rome'), (3, 'Kyiv'), (5, 'Bern')")
    sql(
        f"MERGE INTO {table} t USING (SELECT 3L AS id, 'Lviv' AS city UNION ALL SELECT 4L, 'Bonn') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    sql(f"UPDATE {table} SET city = 'Roma' WHERE id = 2")
    sql(f"DELETE FROM {table} WHERE id = 1")
    assert rows_of(sql, table) == [(2, "Roma"), (3, "Lviv"), (4, "Bonn"), (5, "Bern")]
    assert sql(f"SELECT DISTINCT content, file_format FROM {table}.delete_files") == [(1, deletes)]
    if version == 3:  # an updated row is the same row
        assert len(sql(f"SELECT DISTINCT _row_id FROM {table}")) == 4
    scan = pyiceberg_of(server).load_table((space, "orders")).scan().to_arrow()
    assert sorted(zip(scan["id"].to_pylist(), scan["city"].to_pylist(), strict=True)) == rows_of(sql, table)


@pytest.mark.parametrize("version", [2, 3])
def test_scans_that_the_server_plans_find_the_same_rows(
    sql: Sql, spark: SparkSession, server: ServerProcess, space: str, version: int
) -> None:
    attach_spark(spark, server, "planned", **{"scan-planning-mode": "server"})
    table, day = f"{space}.orders", "timestamp'2026-01-01 00:00:00'"
    sql(
        f"CREATE TABLE {CATALOG}.{table} (id BIGINT, city STRING, at TIMESTAMP, price DECIMAL(9, 2)) USING iceberg "
        "PARTITIONED BY (bucket(4, id), days(at)) "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    sql(
        f"INSERT INTO {CATALOG}.{table} SELECT id, nullif(concat('c', id % 7), 'c0'), "
        f"{day} + make_interval(0, 0, 0, id % 5), CAST(id AS DECIMAL(9, 2)) FROM range(50)"
    )
    sql(f"DELETE FROM {CATALOG}.{table} WHERE id % 10 = 3")
    filters = ("true", "id = 7", "city = 'c3' AND id > 20", f"at > {day}", "price BETWEEN 3.5 AND 12", "city IS NULL")
    for chosen in filters:
        rest = f"{table} WHERE {chosen} ORDER BY id"
        assert sql(f"SELECT * FROM planned.{rest}") == sql(f"SELECT * FROM {CATALOG}.{rest}"), chosen
    answered = re.findall(r'operation="planTableScan",status="200"} (\S+)', text_at(server, "/metrics"))
    assert float(answered[0]) >= len(filters)


def test_time_travel_works_by_snapshot_tag_and_timestamp(sql: Sql, table: str) -> None:
    first, _ = snapshots_of(sql, table)
    sql(f"ALTER TABLE {table} CREATE TAG monday AS OF VERSION {first}")
    ((at,),) = sql(f"SELECT CAST(committed_at AS STRING) FROM {table}.snapshots WHERE snapshot_id = {first}")
    for when in (f"VERSION AS OF {first}", "VERSION AS OF 'monday'", f"TIMESTAMP AS OF '{at}'"):
        assert rows_of(sql, table, when) == [(1, "Oslo"), (2, "Rome")]
    sql(f"CALL {CATALOG}.system.rollback_to_snapshot('{table.partition('.')[2]}', {first})")
    assert rows_of(sql, table) == [(1, "Oslo"), (2, "Rome")]


def test_a_branch_is_written_separately_and_fast_forwarded_to_main(sql: Sql, table: str) -> None:
    sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    sql(f"INSERT INTO {table}.branch_audit VALUES (4, 'Bonn')")
    assert len(rows_of(sql, table, "VERSION AS OF 'audit'")) == 4
    assert len(rows_of(sql, table)) == 3
    sql(f"CALL {CATALOG}.system.fast_forward('{table.partition('.')[2]}', 'main', 'audit')")
    assert len(rows_of(sql, table)) == 4
    sql(f"ALTER TABLE {table} DROP BRANCH audit")
    assert sql(f"SELECT name, type FROM {table}.refs") == [("main", "BRANCH")]


def test_maintenance_rewrites_files_and_expires_old_snapshots(
    sql: Sql, server: ServerProcess, table: str, space: str
) -> None:
    before, name = rows_of(sql, table), table.partition(".")[2]
    all_files = "map('rewrite-all', 'true')"
    ((rewritten, added),) = (
        row[:2] for row in sql(f"CALL {CATALOG}.system.rewrite_data_files(table => '{name}', options => {all_files})")
    )
    assert (rewritten, added) == (3, 1)
    sql(f"CALL {CATALOG}.system.rewrite_manifests('{name}')")
    later = "TIMESTAMP '2999-01-01 00:00:00'"
    ((deleted, *_),) = sql(f"CALL {CATALOG}.system.expire_snapshots(table => '{name}', older_than => {later})")
    assert deleted == 3
    assert sql(f"CALL {CATALOG}.system.remove_orphan_files(table => '{name}')") == []
    assert rows_of(sql, table) == before
    assert len(snapshots_of(sql, table)) == 1
    loaded = send_request(server, "GET", f"/iceberg/v1/lake/namespaces/{space}/tables/orders")
    assert [each["summary"]["operation"] for each in loaded["metadata"]["snapshots"]] == ["replace"]


def test_schemas_partitions_and_orders_evolve(sql: Sql, table: str) -> None:
    for change in (
        "ADD COLUMN n INT AFTER id",
        "ALTER COLUMN n TYPE BIGINT",
        "RENAME COLUMN city TO town",
        "ADD PARTITION FIELD truncate(town, 1) AS initial",
        "WRITE ORDERED BY town DESC",
        "SET TBLPROPERTIES ('team' = 'blue')",
    ):
        sql(f"ALTER TABLE {table} {change}")
    sql(f"INSERT INTO {table} VALUES (4, 9000000000, 'Bonn')")
    assert sql(f"SELECT * FROM {table} WHERE town >= 'K' ORDER BY id")[-1] == (3, None, "Kyiv")
    assert sql(f"SELECT * FROM {table} WHERE town = 'Bonn'") == [(4, 9000000000, "Bonn")]
    for change in ("DROP PARTITION FIELD initial", "WRITE UNORDERED", "DROP COLUMN town"):
        sql(f"ALTER TABLE {table} {change}")
    assert sql(f"SELECT * FROM {table} WHERE id = 4") == [(4, 9000000000)]
    assert ("team", "blue") in sql(f"SHOW TBLPROPERTIES {table}")


def test_tables_are_created_from_queries_replaced_renamed_and_dropped(sql: Sql, table: str, space: str) -> None:
    copy = f"{CATALOG}.{space}.copy"
    sql(f"CREATE TABLE {copy} USING iceberg AS SELECT * FROM {table}")
    assert rows_of(sql, copy) == rows_of(sql, table)
    sql(f"CREATE OR REPLACE TABLE {copy} USING iceberg AS SELECT id FROM {table} WHERE id > 1")
    assert sql(f"SELECT * FROM {copy} ORDER BY id") == [(2,), (3,)]
    assert len(snapshots_of(sql, copy)) == 2
    sql(f"ALTER TABLE {copy} RENAME TO {space}.kept")
    assert [row[1] for row in sql(f"SHOW TABLES IN {CATALOG}.{space}")] == ["kept", "orders"]
    sql(f"DROP TABLE {CATALOG}.{space}.kept PURGE")
    assert [row[1] for row in sql(f"SHOW TABLES IN {CATALOG}.{space}")] == ["orders"]


def test_views_are_created_replaced_and_dropped(sql: Sql, table: str, space: str) -> None:
    view = f"{CATALOG}.{space}.late"
    sql(f"CREATE VIEW {view} (number COMMENT 'of the order') AS SELECT id FROM {table} WHERE id > 1")
    assert sql(f"SELECT number FROM {view} ORDER BY number") == [(2,), (3,)]
    sql(f"CREATE OR REPLACE VIEW {view} AS SELECT city FROM {table} WHERE id > 2")
    assert sql(f"SELECT * FROM {view}") == [("Kyiv",)]
    assert [row[1] for row in sql(f"SHOW VIEWS IN {CATALOG}.{space}")] == ["late"]
    sql(f"DROP VIEW {view}")
    assert sql(f"SHOW VIEWS IN {CATALOG}.{space}") == []


def test_names_may_contain_any_character_and_namespaces_nest(sql: Sql, server: ServerProcess, space: str) -> None:
    names = (space, "eu.west", "with space/ünïcode")
    quoted = ".".join(f"`{name}`" for name in names)
    sql(f"CREATE NAMESPACE {CATALOG}.{space}.`eu.west`")
    sql(f"CREATE TABLE {CATALOG}.{quoted} (id INT) USING iceberg")
    sql(f"INSERT INTO {CATALOG}.{quoted} VALUES (1)")
    assert sql(f"SELECT * FROM {CATALOG}.{quoted}") == [(1,)]
    assert sql(f"SELECT operation FROM {CATALOG}.{quoted}.snapshots") == [("append",)]
    assert pyiceberg_of(server).list_tables(names[:-1]) == [names]


def test_concurrent_writers_lose_no_row(sql: Sql, table: str) -> None:
    # By default Iceberg's client retries four times. On a busy machine a writer loses more races than that.
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('commit.retry.num-retries' = '50', 'commit.retry.min-wait-ms' = '10')")
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda n: sql(f"INSERT INTO {table} VALUES ({n}, 'x')"), range(10, 18)))
    assert [row[0] for row in rows_of(sql, table)] == [1, 2, 3, *range(10, 18)]
    assert len(snapshots_of(sql, table)) == 10


def test_each_change_is_applied_once_though_its_first_response_is_lost(
    sql: Sql, spark: SparkSession, server: ServerProcess, table: str, space: str
) -> None:
    """Iceberg's client retries with the same key, because the server announces idempotency keys."""
    with lossy_proxy(server.url) as proxy:
        attach_spark(spark, server, "lossy", uri=f"{proxy.url}/iceberg")
        target = f"lossy.{space}"
        for statement in (
            f"INSERT INTO {target}.orders VALUES (4, 'Bonn')",
            f"CREATE TABLE {target}.made (id INT) USING iceberg",
            f"ALTER TABLE {target}.made RENAME TO {space}.renamed",
            f"DROP TABLE {target}.renamed",
            f"CREATE VIEW {target}.late AS SELECT id FROM {target}.orders",
            f"DROP VIEW {target}.late",
            f"CREATE NAMESPACE {target}.inner",
            f"DROP NAMESPACE {target}.inner",
        ):
            sql(statement)
    assert len(proxy.answered) == 8
    assert {tuple(answers) for answers in proxy.answered.values()} == {(200, 200), (204, 204)}
    assert [row[0] for row in rows_of(sql, table)] == [1, 2, 3, 4]
    assert len(snapshots_of(sql, table)) == 3


@pytest.mark.usefixtures("table")
def test_the_commit_reports_of_spark_are_stored(server: ServerProcess, space: str) -> None:
    path = f"/api/moorage/v1/catalogs/lake/namespaces/{space}/tables/orders/reports"
    deadline = time.monotonic() + 60  # Spark may send the report after the commit
    while len(kept := send_request(server, "GET", path)["items"]) < 2:
        assert time.monotonic() < deadline, kept
        time.sleep(0.05)
    assert [report["report"]["metrics"]["added-records"]["value"] for report in kept] == [2, 1]
