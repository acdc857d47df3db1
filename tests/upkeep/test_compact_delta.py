"""Compaction of managed Delta tables: the same rows in fewer files, and nothing else changes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from moorage.client.answers import Job
from moorage.client.delta import DeltaTables
from moorage.testing.server import ServerProcess
from tests.upkeep.conftest import Finish
from tests.upkeep.managed_lake import ManagedTable, rows_of, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW_IDS = "id, _metadata.row_id, _metadata.row_commit_version"


def compact(table: ManagedTable, finish: Finish, **options: Any) -> Job:
    """Compact the table, and require that nothing but its files changed."""
    commits, version = table.commits(), table.version()
    job = finish(table.compact(**options))
    assert (job.state, job.error) == ("succeeded", None)
    assert job.result is not None
    assert job.result["versions"] == list(range(version + 1, table.version() + 1))
    after = table.commits()
    assert {number: after[number] for number in commits} == commits
    times = [actions[0]["commitInfo"]["inCommitTimestamp"] for actions in after.values()]
    assert times == sorted(set(times))
    assert domains_of(after) == domains_of(commits)
    for number in job.result["versions"]:
        info, *actions = after[number]
        assert info["commitInfo"]["operation"] in ("OPTIMIZE", "REORG")
        assert {kind for action in actions for kind in action} <= {"add", "remove", "domainMetadata"}
        assert not any(action[kind]["dataChange"] for action in actions for kind in action if kind != "domainMetadata")
    assert not list(table.folder.glob("compact-*/*/_delta_log")), "the shadow's log is removed"
    return job


def test_the_shadow_of_a_client_that_is_gone_is_removed_after_a_day(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, finish: Finish
) -> None:
    table = small_files(spark, http, "abandoned", times=1).adopt()
    with DeltaTables(server.url) as tables:
        fresh, old = (tables.shadows.create(table.full_name) for _ in range(2))
    then = time.time() - 25 * 3600
    os.utime(table.folder / old.folder / "_delta_log" / f"{0:020}.json", (then, then))
    finish(table.compact())
    assert [folder.name for folder in table.folder.glob("change-*")] == [fresh.folder.rstrip("/")]


def domains_of(commits: dict[int, list[dict[str, Any]]]) -> dict[str, str]:
    """The domains of a log, but for the mark of row tracking, which a rewrite raises."""
    found = [
        action["domainMetadata"] for actions in commits.values() for action in actions if "domainMetadata" in action
    ]
    return {each["domain"]: each["configuration"] for each in found if each["domain"] != "delta.rowTracking"}


def test_small_files_become_one_and_the_rows_stay(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "plain").adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    assert len(table.files()) == 8
    job = compact(table, finish)
    assert job.result is not None
    assert (job.result["before"]["files"], job.result["after"]["files"]) == (8, 1)
    (file,) = table.files().values()
    assert file["path"].startswith(f"compact-{job.id}/")
    stats = json.loads(file["stats"])
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (40, 0, 39)
    assert rows_of(spark, table.plain_copy(copy / "after")) == before
    found = QueryBuilder().register("t", DeltaTable(copy / "after")).execute("SELECT id, city FROM t").read_all()
    assert sorted(tuple(row.values()) for row in pa.table(found).to_pylist()) == sorted(before)
    again = finish(table.compact())
    assert again.result is not None
    assert (again.state, again.result["versions"]) == ("succeeded", [])


def test_row_ids_and_the_versions_of_rows_stay(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    tracked = {"delta.enableRowTracking": "true"}
    table = small_files(spark, http, "tracked", times=3, **tracked)
    spark.sql(f"UPDATE {table.path} SET city = 'moved' WHERE id = 5")
    table.adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"), ROW_IDS)
    mark = mark_of(table)
    compact(table, finish)
    (file,) = table.files().values()
    assert (file["baseRowId"], file["defaultRowCommitVersion"]) == (mark + 1, table.version())
    assert mark_of(table) == mark + 30
    after = table.plain_copy(copy / "after")
    assert rows_of(spark, after, ROW_IDS) == before
    spark.sql(f"INSERT INTO {after} VALUES (1000, 'later')")
    assert len({row[1] for row in rows_of(spark, after, ROW_IDS)}) == 31, "a later writer gives other ids"


def mark_of(table: ManagedTable) -> int:
    (domain,) = [
        action["domainMetadata"] for action in list(table.commits().values())[-1] if "domainMetadata" in action
    ]
    assert domain["domain"] == "delta.rowTracking"
    return int(json.loads(domain["configuration"])["rowIdHighWaterMark"])


@pytest.mark.parametrize("options", [{}, {"purge": True}], ids=["bin_pack", "purge"])
def test_deleted_rows_are_dropped_from_the_files(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path, options: dict[str, Any]
) -> None:
    table = small_files(spark, http, f"vectors{len(options)}", times=3)
    spark.sql(f"DELETE FROM {table.path} WHERE id % 3 = 0")
    table.adopt()
    assert all("deletionVector" in file for file in table.files().values())
    before = rows_of(spark, table.plain_copy(copy / "before"))
    compact(table, finish, **options)
    assert not any("deletionVector" in file for file in table.files().values())
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


def test_columns_that_were_renamed_and_dropped_keep_their_data(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    ddl = "id BIGINT, `a b` STRUCT<x: INT, y: ARRAY<MAP<STRING, INT>>>, gone STRING"
    rows = "id, named_struct('x', int(id), 'y', array(map('k', int(id)))), 'gone'"
    mapped = {"delta.columnMapping.mode": "name"}
    table = small_files(spark, http, "mapped", ddl=ddl, rows=rows, times=2, **mapped)
    spark.sql(f"ALTER TABLE {table.path} RENAME COLUMN `a b` TO `c d`")
    spark.sql(f"ALTER TABLE {table.path} DROP COLUMN gone")
    spark.sql(f"INSERT INTO {table.path} VALUES (99, NULL)")
    table.adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    compact(table, finish)
    assert len(table.files()) == 1
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


ODD = ("NULL", "''", "'%'", "'a/b'", "'ü ß'", "'a=b'", "'%2F'", "'#?:'")
ODD_TEXT = f"element_at(array({', '.join(ODD)}), int(id % {len(ODD)}) + 1)"
BEFORE_1970 = "timestamp'1969-12-31 23:59:59.123456' - make_interval(0, 0, 0, int(id % 2))"
ODD_PARTITIONS: dict[str, Any] = {
    "ddl": "id BIGINT, p STRING, at TIMESTAMP, d DATE, n DECIMAL(5, 2)",
    "rest": "PARTITIONED BY (p, at, d, n)",
    "rows": f"id, {ODD_TEXT}, {BEFORE_1970}, date'1950-01-01', 1.5",
    "times": 2,
}


def partitions_of(table: ManagedTable) -> set[tuple[Any, ...]]:
    return {tuple(sorted(file["partitionValues"].items(), key=str)) for file in table.files().values()}


def test_odd_partition_values_stay_as_they_were_written(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "odd", **ODD_PARTITIONS).adopt()
    texts, files = partitions_of(table), len(table.files())
    before = rows_of(spark, table.plain_copy(copy / "before"))
    compact(table, finish)
    assert len(table.files()) < files
    assert partitions_of(table) == texts
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


def test_clustering_columns_order_the_rows_and_stay(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "clustered", rest="CLUSTER BY (city)", times=3).adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    compact(table, finish)
    assert {file.get("clusteringProvider") for file in table.files().values()} == {"liquid"}
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


def test_rows_are_z_ordered_by_the_columns_of_the_request(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "zordered", times=3).adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    compact(table, finish, zorder_by=["city", "id"])
    parameters = list(table.commits().values())[-1][0]["commitInfo"]["operationParameters"]
    assert json.loads(parameters["zOrderBy"]) == ["city", "id"]
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


FEATURED: dict[str, Any] = {
    "ddl": "id BIGINT, city STRING DEFAULT 'none', n INT, twice BIGINT GENERATED ALWAYS AS (id * 2), "
    "number BIGINT GENERATED ALWAYS AS IDENTITY",
    "columns": "id, city, n",
    "rows": "id, 'x', int(id)",
    "times": 2,
    "delta.feature.allowColumnDefaults": "supported",
    "delta.enableTypeWidening": "true",
    "delta.enableChangeDataFeed": "true",
}


def test_constraints_defaults_identities_and_widened_types_stay(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "featured", **FEATURED)
    spark.sql(f"ALTER TABLE {table.path} ADD CONSTRAINT positive CHECK (id >= 0)")
    spark.sql(f"ALTER TABLE {table.path} ALTER COLUMN n TYPE BIGINT")
    spark.sql(f"INSERT INTO {table.path} (id, n) VALUES (77, 5000000000)")
    table.adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    compact(table, finish)
    after = table.plain_copy(copy / "after")
    assert (len(table.files()), rows_of(spark, after)) == (1, before)
    spark.sql(f"INSERT INTO {after} (id, n) VALUES (78, 1)")
    numbers = [row[0] for row in rows_of(spark, after, "number")]
    assert len(set(numbers)) == len(numbers)
    with pytest.raises(Exception, match="CHECK constraint"):
        spark.sql(f"INSERT INTO {after} (id, n) VALUES (-1, 1)")


def test_the_target_size_decides_how_many_files_there_are(
    spark: SparkSession, http: httpx.Client, finish: Finish
) -> None:
    rows = "id, encode(repeat(uuid(), 60000), 'utf-8')"
    table = small_files(spark, http, "sized", ddl="id BIGINT, b BINARY", rows=rows, times=2).adopt()
    small, total = len(table.files()), sum(file["size"] for file in table.files().values())
    compact(table, finish, target_file_size_mb=8)
    assert small > len(table.files()) >= total // (8 << 20)
