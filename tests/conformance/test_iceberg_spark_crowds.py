"""Several engines use one Iceberg table concurrently, and tables of other catalogs are registered."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck
from tests.conformance.lakes import attach_spark, lake_server, pyiceberg_of, send_request
from tests.conformance.test_iceberg_spark import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first test waits until Spark has started.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

CATALOG = "spark_crowds"
PLANNED = "spark_crowds_planned"
ALL = "map('rewrite-all', 'true')"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("spark-crowds")
    (folder / "foreign").mkdir()
    flags = ("--external-folder", str(folder / "foreign"), "--hold-days", "0")
    with lake_server(folder / "data", flags=flags) as server:
        yield server


@pytest.fixture(scope="module")
def lake(spark: SparkSession, server: ServerProcess) -> SparkSession:
    attach_spark(spark, server, CATALOG)
    attach_spark(spark, server, PLANNED, **{"scan-planning-mode": "server"})
    return spark


@pytest.fixture
def space(lake: SparkSession, request: pytest.FixtureRequest) -> str:
    """A namespace for this test only."""
    name = re.sub(r"\W+", "_", request.node.name)
    lake.sql(f"CREATE NAMESPACE {CATALOG}.{name}")
    return name


def rows(spark: SparkSession, statement: str) -> Rows:
    return [tuple(row) for row in spark.sql(statement).collect()]


def test_concurrent_merges_lose_no_row_and_a_failed_merge_changes_nothing(
    lake: SparkSession, server: ServerProcess, space: str
) -> None:
    table = f"{CATALOG}.{space}.counts"
    lake.sql(f"CREATE TABLE {table} (id BIGINT, n BIGINT) USING iceberg")
    lake.sql(f"INSERT INTO {table} VALUES (1, 0), (2, 0)")

    done, refusals = list[int](), list[str]()

    def merge(number: int) -> None:
        session = lake.newSession()
        attach_spark(session, server, CATALOG)
        for turn in range(3):
            new = 100 + 10 * number + turn
            try:
                session.sql(
                    f"MERGE INTO {table} t USING (SELECT explode(array(1, {new})) id) s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 0)"
                )
            except Exception as error:  # noqa: BLE001 - any error of Spark
                refusals.append(str(error))
            else:
                done.append(new)

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(merge, range(2)))
    assert done
    assert [reason for reason in refusals if "conflicting files" not in reason] == []
    inserted = [(id, 0) for id in sorted(done)]
    assert rows(lake, f"SELECT id, n FROM {table} ORDER BY id") == [(1, len(done)), (2, 0), *inserted]


def test_a_stream_continues_while_files_are_compacted_and_snapshots_expire(
    lake: SparkSession, space: str, tmp_path: Path
) -> None:
    table, folder = f"{CATALOG}.{space}.events", tmp_path / "arriving"
    lake.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    for start in range(0, 60, 10):
        lake.range(start, start + 10, numPartitions=1).write.mode("append").parquet(str(folder))
    stream = (
        lake.readStream.schema("id BIGINT")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
        .writeStream.format("iceberg")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .toTable(table)
    )
    rounds = 0
    while stream.isActive or not rounds:
        lake.sql(f"CALL {CATALOG}.system.rewrite_data_files('{space}.events', options => {ALL})")
        lake.sql(f"CALL {CATALOG}.system.expire_snapshots('{space}.events', older_than => now(), retain_last => 1)")
        rounds += 1
    stream.awaitTermination()
    assert stream.exception() is None
    assert rows(lake, f"SELECT id FROM {table} ORDER BY id") == [(id,) for id in range(60)]


def test_a_writer_whose_clock_is_ahead_does_not_make_the_table_unreadable(
    lake: SparkSession, server: ServerProcess, space: str
) -> None:
    table = f"{CATALOG}.{space}.orders"
    lake.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    lake.sql(f"INSERT INTO {table} VALUES (1)")
    path = f"/iceberg/v1/lake/namespaces/{space}/tables/orders"
    newest = send_request(server, "GET", path)["metadata"]["snapshots"][-1]
    ahead = {
        **newest,
        "snapshot-id": 1,
        "parent-snapshot-id": newest["snapshot-id"],
        "sequence-number": newest["sequence-number"] + 1,
        "timestamp-ms": newest["timestamp-ms"] + 3_600_000,
    }
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    added = {"action": "add-snapshot", "snapshot": ahead}
    send_request(server, "POST", path, json={"requirements": [], "updates": [added, main]})
    lake.sql(f"INSERT INTO {table} VALUES (2)")
    assert rows(lake, f"SELECT id FROM {table} ORDER BY id") == [(1,), (2,)]


def test_a_table_of_another_catalog_is_registered_changed_planned_and_purged(
    lake: SparkSession, server: ServerProcess, space: str
) -> None:
    foreign = server.data.parent / "foreign"
    lake.conf.set("spark.sql.catalog.elsewhere", "org.apache.iceberg.spark.SparkCatalog")
    lake.conf.set("spark.sql.catalog.elsewhere.type", "hadoop")
    lake.conf.set("spark.sql.catalog.elsewhere.warehouse", f"file://{foreign}")
    lake.sql("CREATE TABLE elsewhere.shop.orders (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city)")
    lake.sql("INSERT INTO elsewhere.shop.orders VALUES (1, 'Oslo'), (2, 'Rome')")
    lake.sql("ALTER TABLE elsewhere.shop.orders CREATE TAG first")
    newest = max(foreign.glob("shop/orders/metadata/v*.metadata.json"), key=lambda path: path.stat().st_mtime)
    table = pyiceberg_of(server).register_table((space, "orders"), f"file://{newest}")
    table.append(pa.table({"id": pa.array([3], pa.int64()), "city": ["Kyiv"]}))
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()
    lake.sql(f"INSERT INTO {CATALOG}.{space}.orders.branch_side VALUES (4, 'Bonn')")
    lake.sql(f"DELETE FROM {CATALOG}.{space}.orders WHERE id = 1")
    for catalog in (CATALOG, PLANNED):
        assert rows(lake, f"SELECT * FROM {catalog}.{space}.orders ORDER BY id") == [(2, "Rome"), (3, "Kyiv")]
        assert rows(lake, f"SELECT id FROM {catalog}.{space}.orders VERSION AS OF 'first' ORDER BY id") == [(1,), (2,)]
        assert rows(lake, f"SELECT id FROM {catalog}.{space}.orders VERSION AS OF 'side' WHERE city < 'C'") == [(4,)]
    planned = pyiceberg_of(server, **{"scan-planning-mode": "server"}).load_table((space, "orders"))
    assert sorted(planned.scan(row_filter="city >= 'L'").to_arrow()["id"].to_pylist()) == [2]
    pyiceberg_of(server).purge_table((space, "orders"))
    assert rows(lake, f"SHOW TABLES IN {CATALOG}.{space}") == []
    others = {"version-hint.text", ".version-hint.text.crc"}  # files that only the other catalog knows
    while {name for _, _, names in os.walk(foreign / "shop") for name in names} != others:
        time.sleep(0.05)  # a chore of the server deletes them; the timeout of the test limits the wait


def test_rows_keep_their_ids_when_several_engines_write(lake: SparkSession, server: ServerProcess, space: str) -> None:
    table = f"{CATALOG}.{space}.orders"
    lake.sql(
        f"CREATE TABLE {table} (id BIGINT, city STRING) USING iceberg TBLPROPERTIES ('format-version' = '3', "
        "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"
    )
    lake.sql(f"INSERT INTO {table} VALUES (1, 'Oslo'), (2, 'Rome'), (3, 'Kyiv')")
    ids: dict[int, int] = dict(rows(lake, f"SELECT id, _row_id FROM {table}"))
    lake.sql(f"DELETE FROM {table} WHERE id = 2")
    with duck("avro", "httpfs", "iceberg") as db:
        db.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none')")
        db.execute(f"INSERT INTO lake.{space}.orders VALUES (4, 'Bonn')")
        assert [row[0] for row in db.execute(f"SELECT id FROM lake.{space}.orders ORDER BY id").fetchall()] == [1, 3, 4]
    lake.sql(f"UPDATE {table} SET city = 'Bergen' WHERE id = 4")
    columns = "id, _row_id, _last_updated_sequence_number, city"
    expected = [(1, ids[1], 1, "Oslo"), (3, ids[3], 1, "Kyiv"), (4, 3, 4, "Bergen")]
    for compaction in ("", f"CALL {CATALOG}.system.rewrite_data_files('{space}.orders', options => {ALL})"):
        if compaction:
            lake.sql(compaction)
        assert rows(lake, f"SELECT {columns} FROM {table} ORDER BY id") == expected
        read = pyiceberg_of(server).load_table((space, "orders"))
        assert sorted(read.scan().to_arrow()["id"].to_pylist()) == [1, 3, 4]
        added: list[Any] = [each.added_rows for each in read.metadata.snapshots]
        given = [each.first_row_id for each in read.metadata.snapshots]
        assert [*given, read.metadata.next_row_id] == [sum(added[:at]) for at in range(len(added) + 1)]
