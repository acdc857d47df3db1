"""Iceberg tables are compacted, expired and swept by a real worker process, through the catalog's REST API."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx
import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from moorage.client import Client
from moorage.client.answers import Job
from moorage.core.entries import JobState
from moorage.testing.server import ServerProcess
from tests.conformance.lakes import attach_spark, pyiceberg_of
from tests.pipeline.workers import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("upkeep")

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", StringType()))


def rows_of(first: int, count: int = 10) -> pa.Table:
    days = [f"d{number % 2}" for number in range(count)]
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "day": pa.array(days, pa.string())})


def make(server: ServerProcess, name: str, appends: int = 15, **given: Any) -> Table:
    table: Table = pyiceberg_of(server).create_table(f"sea.{name}", SCHEMA, **given)
    for number in range(appends):
        table.append(rows_of(number * 10))
    return table


def ids(table: Table, **given: Any) -> list[int]:
    table.refresh()
    return sorted(table.scan(**given).to_arrow()["id"].to_pylist())


def run(client: Client, name: str, kind: str, **args: Any) -> dict[str, Any]:
    ended = wait_for(client, client.namespaces.create_job("lake", ["sea"], name, kind, args))
    assert ended.state is JobState.SUCCEEDED, ended
    assert ended.result is not None
    return ended.result


def test_a_compaction_requested_through_unity_keeps_rows_branches_and_tags(lake: ServerProcess, moored: Client) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    table = make(lake, "days", partition_spec=spec)
    third = table.history()[2].snapshot_id
    table.manage_snapshots().create_tag(third, "early").create_branch(third, "side").commit()
    before = ids(table)
    compact = f"{lake.url}/api/2.1/unity-catalog/tables/lake.sea.days:compact"
    answer = httpx.post(compact, json={"target_file_size_mb": 64}, trust_env=False)
    assert answer.status_code == 202, answer.text
    ended = wait_for(moored, moored.jobs.get(answer.headers["location"].rpartition("/")[2]))
    assert ended.state is JobState.SUCCEEDED, ended
    assert ended.result is not None
    assert (ended.result["before"]["files"], ended.result["after"]["files"]) == (30, 2)
    assert ended.result["before"]["rows"] == ended.result["after"]["rows"] == 150
    assert ended.result["after"]["manifests"] == 1
    assert ids(table) == before
    assert len(ids(table, snapshot_id=third)) == 30
    assert {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"} == {
        "early": third,
        "side": third,
    }
    health = moored.namespaces.health("lake", ["sea"], "days")
    assert [found.problem for found in health.findings if found.due] == []


@pytest.mark.slow
@pytest.mark.parametrize("args", [{"sort_by": ["id"]}, {"zorder_by": ["id", "day"]}], ids=["sort", "z-order"])
def test_rows_are_ordered_on_request(lake: ServerProcess, moored: Client, args: dict[str, Any]) -> None:
    name = f"ordered_{next(iter(args))}"
    table = make(lake, name, 6)
    before = ids(table)
    assert run(moored, name, "compact", **args)["after"]["files"] == 1
    assert ids(table) == before


def test_expiry_removes_snapshots_and_files_that_no_branch_or_tag_needs(lake: ServerProcess, moored: Client) -> None:
    table = make(lake, "expired", 8)
    kept, side = table.history()[1].snapshot_id, table.history()[2].snapshot_id
    table.manage_snapshots().create_tag(kept, "kept").create_branch(side, "side").commit()
    before = ids(table)
    run(moored, "expired", "compact")
    result = run(moored, "expired", "expire", older_than_days=0, keep_last=1)
    assert result["after"]["snapshots"] == 3
    assert result["deleted"]["deleted_data_files_count"] == 5
    assert ids(table) == before
    assert (len(ids(table, snapshot_id=kept)), len(ids(table, snapshot_id=side))) == (20, 30)
    assert run(moored, "expired", "expire", older_than_days=0, keep_last=1)["before"] == result["after"]


@pytest.mark.slow
def test_an_old_snapshot_stays_that_was_current_until_a_moment_ago(lake: ServerProcess, moored: Client) -> None:
    table = make(lake, "weekly", 3)
    before, first, last = ids(table), table.history()[0], table.history()[-1]
    time.sleep(15)
    run(moored, "weekly", "compact")
    days = (time.time() - last.timestamp_ms / 1000 - 1) / 86_400  # older than the compaction, and than no append
    run(moored, "weekly", "expire", older_than_days=days)
    assert table.refresh().snapshot_by_id(first.snapshot_id) is None
    assert ids(table, snapshot_id=last.snapshot_id) == before, (
        "a query that began before the compaction still reads its files"
    )


def test_a_table_whose_files_others_may_need_is_not_expired(lake: ServerProcess, moored: Client) -> None:
    make(lake, "shared", 1, properties={"gc.enabled": "false"})
    ended = wait_for(moored, moored.namespaces.create_job("lake", ["sea"], "shared", "expire"))
    assert (ended.state, ended.attempt) == (JobState.FAILED, 1)
    assert ended.error == "gc.enabled is false: other tables may need the files of this table"


def test_orphans_are_named_first_and_then_deleted(lake: ServerProcess, moored: Client) -> None:
    table = make(lake, "swept", 3)
    before = ids(table)
    data = Path(unquote(table.location().removeprefix("file://"))) / "data"
    old, new = data / "old.parquet", data / "new.parquet"
    for file in (old, new):
        file.write_bytes(b"left over")
    os.utime(old, (time.time() - 10 * 86_400,) * 2)
    found = run(moored, "swept", "orphans", dry_run=True)
    assert (found["orphans"], found["deleted"]) == (1, 0)
    assert found["files"][0].endswith("/data/old.parquet")
    assert run(moored, "swept", "orphans")["deleted"] == 1
    assert (old.exists(), new.exists()) == (False, True)
    assert ids(table) == before


def test_appends_do_not_fail_during_a_compaction(lake: ServerProcess, moored: Client) -> None:
    table = make(lake, "hot", 10)
    failures: list[BaseException] = []
    stop, appended = threading.Event(), [10]

    def write() -> None:
        own = pyiceberg_of(lake).load_table("sea.hot")
        try:
            while not stop.is_set():
                own.append(rows_of(appended[0] * 10))
                appended[0] += 1
                time.sleep(0.5)
                own.refresh()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        run(moored, "hot", "compact")
        run(moored, "hot", "compact")
    finally:
        stop.set()
        writer.join()
    assert failures == []
    assert ids(table) == list(range(appended[0] * 10))


def test_the_commits_of_a_job_carry_its_fence(lake: ServerProcess, moored: Client) -> None:
    make(lake, "fenced", 5)
    job: Job = moored.namespaces.create_job("lake", ["sea"], "fenced", "compact")
    deadline = time.monotonic() + 60
    while moored.jobs.get(job.id).state is JobState.QUEUED and time.monotonic() < deadline:
        time.sleep(0.05)
    moored.jobs.cancel(job.id)
    time.sleep(5)
    table = pyiceberg_of(lake).load_table("sea.fenced")
    assert {snapshot.summary.operation.value for snapshot in table.snapshots() if snapshot.summary} == {"append"}


@pytest.mark.slow
def test_position_delete_files_of_format_version_2_are_merged(
    lake: ServerProcess, moored: Client, spark: SparkSession
) -> None:
    attach_spark(spark, lake, "v2")
    properties = "'format-version'='2', 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition'"
    spark.sql(f"CREATE TABLE v2.sea.positions (id BIGINT) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql("INSERT INTO v2.sea.positions SELECT /*+ COALESCE(1) */ id FROM range(1000)")
    for gone in range(6):
        spark.sql(f"DELETE FROM v2.sea.positions WHERE id = {gone}")
    # No data file is rewritten, so the deletes are not applied.
    result = run(moored, "positions", "compact", where="id < 0", beside_writers=True)
    assert (result["before"]["delete_files"], result["after"]["delete_files"]) == (6, 1)
    assert (result["before"]["files"], result["after"]["files"]) == (1, 1)
    found = spark.sql("SELECT id FROM v2.sea.positions").collect()
    assert sorted(row["id"] for row in found) == list(range(6, 1000))


@pytest.mark.slow
def test_deletion_vectors_of_format_version_3_are_kept_or_applied(
    lake: ServerProcess, moored: Client, spark: SparkSession
) -> None:
    attach_spark(spark, lake, "v3")
    properties = "'format-version'='3', 'write.delete.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE v3.sea.vectors (id BIGINT, day STRING) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql("INSERT INTO v3.sea.vectors SELECT /*+ COALESCE(1) */ id, 'd' FROM range(1000)")
    spark.sql("INSERT INTO v3.sea.vectors SELECT /*+ COALESCE(1) */ id, 'e' FROM range(1000, 1010)")
    spark.sql("DELETE FROM v3.sea.vectors WHERE id % 100 = 7")
    query = "SELECT id, _row_id FROM v3.sea.vectors ORDER BY id"
    before = [tuple(row) for row in spark.sql(query).collect()]
    vectors = "SELECT count(*) AS n FROM v3.sea.vectors.files WHERE content = 1 AND file_format = 'PUFFIN'"
    assert spark.sql(vectors).collect()[0]["n"] > 0
    run(moored, "vectors", "compact", where="day = 'e'", beside_writers=True)
    assert [tuple(row) for row in spark.sql(query).collect()] == before, "vectors of other files were lost"
    result = run(moored, "vectors", "compact", purge=True, beside_writers=True)
    assert (result["after"]["delete_files"], result["after"]["rows"]) == (0, len(before))
    assert [tuple(row) for row in spark.sql(query).collect()] == before
