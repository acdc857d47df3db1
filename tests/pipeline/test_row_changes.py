"""MERGE, UPDATE, DELETE and INSERT on managed Delta tables, with a real Spark and a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moorage.cli.failure import Failure
from moorage.cli.spark_settings import spark_errors
from moorage.client import Client, ClientError
from moorage.client.delta import DeltaTables, Transaction
from moorage.client.delta.shadows import Changed, ShadowTable
from moorage.client.spark import DeltaTable, run_sql
from moorage.testing.server import ServerProcess
from tests.upkeep.managed_lake import ManagedTable, properties, rows_of, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark-pipeline")


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with Client(server.url) as client:
        client.namespaces.create("lake", ["sea"])
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        yield http


def boats(spark: SparkSession, rows: list[tuple[int, str, int]]) -> DataFrame:
    return spark.createDataFrame(rows, "id long, port string, n long")


def managed(spark: SparkSession, http: httpx.Client, name: str, rest: str = "", **more: str) -> ManagedTable:
    """A table with three rows in two files, made by Delta's own writer."""
    table = stage(http, name)
    columns = "id BIGINT, port STRING, n BIGINT"
    spark.sql(f"CREATE TABLE {table.path} ({columns}) USING delta {rest} TBLPROPERTIES ({properties(**more)})")
    three = boats(spark, [(1, "Oslo", 0), (2, "Oslo", 0), (3, "Rome", 0)])
    three.coalesce(1).write.format("delta").mode("append").save(str(table.folder))
    return table.adopt()


def test_an_append_runs_no_job_to_read_the_log(spark: SparkSession, http: httpx.Client) -> None:
    """Delta would run five, which takes half a second."""
    table = managed(spark, http, "quick")
    delta, rows = DeltaTable(spark, table.full_name), boats(spark, [(4, "Bari", 40)]).coalesce(1)
    spark.sparkContext.setJobGroup("quick", "an append")
    try:
        assert delta.append(rows).version == 2
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("quick")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(jobs) == 1


def test_every_feature_of_a_table_is_kept(spark: SparkSession, http: httpx.Client, tmp_path: Path) -> None:
    features = {
        "delta.enableRowTracking": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.columnMapping.mode": "name",
        "delta.constraints.n_is_positive": "n >= 0",
    }
    table = managed(spark, http, "rich", "PARTITIONED BY (port)", **features)
    ids = "id, port, n, _metadata.row_id, _metadata.row_commit_version"
    before = {row[0]: row[3] for row in rows_of(spark, table.plain_copy(tmp_path / "before"), ids)}
    delta = DeltaTable(spark, table.full_name)
    assert delta.update({"n": "n + 10"}, where="id = 1") == Changed(version=2)
    merge = delta.merge(boats(spark, [(2, "Oslo", 20), (4, "Bari", 40)]), on=["id"])
    merge.when_matched_update({"n": "s.n"}).when_not_matched_insert().when_not_matched_by_source_delete(
        where="t.id = 3"
    ).execute()
    assert delta.append(boats(spark, [(5, "Rome", 50)])).version == 4
    assert delta.delete("id = 99") == Changed(version=None)
    with pytest.raises(Exception, match="n_is_positive"):
        delta.update({"n": "-1"})
    assert list(table.folder.glob("change-*/_delta_log")) == []

    copy = table.plain_copy(tmp_path / "copy")
    found = rows_of(spark, copy, ids)
    assert [row[:3] for row in found] == [(1, "Oslo", 10), (2, "Oslo", 20), (4, "Bari", 40), (5, "Rome", 50)]
    assert [row[3] for row in found[:2]] == [before[1], before[2]]
    assert [row[4] for row in found] == [2, 3, 3, 4]
    assert len({row[3] for row in found} | {before[3]}) == 5
    changes = f"table_changes_by_path('{tmp_path / 'copy'}', 2)"
    kinds = rows_of(spark, changes, "_commit_version, _change_type, id, n")
    assert kinds == [
        (2, "update_postimage", 1, 10),
        (2, "update_preimage", 1, 0),
        (3, "delete", 3, 0),
        (3, "insert", 4, 40),
        (3, "update_postimage", 2, 20),
        (3, "update_preimage", 2, 0),
        (4, "insert", 5, 50),
    ]


def test_rules_of_columns_are_kept_and_a_stream_is_applied_once(
    spark: SparkSession, http: httpx.Client, tmp_path: Path
) -> None:
    table = stage(http, "ruled")
    columns = "id BIGINT GENERATED ALWAYS AS IDENTITY, n BIGINT, twice BIGINT GENERATED ALWAYS AS (n * 2)"
    spark.sql(f"CREATE TABLE {table.path} ({columns}) USING delta CLUSTER BY (n) TBLPROPERTIES ({properties()})")
    delta = DeltaTable(spark, table.adopt().full_name)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()

    def run() -> None:
        arriving = spark.readStream.schema("n long").json(str(source)).writeStream
        batches = arriving.foreachBatch(lambda rows, n: delta.append(rows, transaction=Transaction("stream", n)))
        batches.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    (source / "a.json").write_text('{"n": 5}\n{"n": 6}\n')
    run()
    for file in (checkpoint / "commits").glob("*0*"):  # killed after the commit of the table, before that of Spark
        file.unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    (source / "b.json").write_text('{"n": 7}\n')
    run()
    rows = rows_of(spark, table.plain_copy(tmp_path / "copy"), "n, twice, id")
    assert [row[:2] for row in rows] == [(5, 10), (6, 12), (7, 14)]
    assert len({row[2] for row in rows}) == 3


def test_a_change_that_was_overtaken_is_made_again_and_an_append_is_not(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, tmp_path: Path
) -> None:
    table = managed(spark, http, "raced")
    other, overtaken = DeltaTable(spark, table.full_name), list[int]()

    def overtake(statement: str, shadow: ShadowTable) -> None:
        if shadow.base_version not in overtaken and len(overtaken) < 1:
            overtaken.append(shadow.base_version)
            other.update({"n": "n + 1"}, where="id = 1")
        spark.sql(statement.format(f"delta.`{shadow.location}`"))

    with DeltaTables(server.url) as tables:
        both = tables.shadows.change(table.full_name, lambda s: overtake("UPDATE {} SET n = n + 1 WHERE id = 1", s))
        assert (both.attempts, both.version) == (2, 3)
        overtaken.clear()
        append = "INSERT INTO {} VALUES (9, 'Kyiv', 9)"
        once = tables.shadows.change(table.full_name, lambda s: overtake(append, s), with_files=False)
        assert (once.attempts, once.version) == (1, 5)
    rows = rows_of(spark, table.plain_copy(tmp_path / "copy"))
    assert rows == [(1, "Oslo", 3), (2, "Oslo", 0), (3, "Rome", 0), (9, "Kyiv", 9)]


def test_a_kill_before_the_commit_changes_nothing_and_after_it_the_change_is_not_made_twice(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, tmp_path: Path
) -> None:
    table = managed(spark, http, "killed")
    with DeltaTables(server.url) as tables:
        shadow = tables.shadows.create(table.full_name)
        spark.sql(f"UPDATE delta.`{shadow.location}` SET n = 100")  # and here the client dies
        assert table.version() == 1
        delta, first = DeltaTable(spark, table.full_name), Transaction("loader", 1)
        assert delta.update({"n": "n + 1"}, transaction=first).version == 2
        assert delta.update({"n": "n + 1"}, transaction=first).version is None  # the response was lost
        offered = tables.shadows.offer(table.full_name, shadow)
        assert (offered.outcome, offered.reason) == ("dropped", "version 2 changed rows since the shadow was made")
    assert {row[2] for row in rows_of(spark, table.plain_copy(tmp_path / "copy"))} == {1}
    assert delta.delete("id = 77", transaction=Transaction("loader", 2)).version == 3  # the mark alone
    assert delta.delete("id = 1", transaction=Transaction("loader", 2)).version is None


def test_statements_name_tables_of_all_formats(spark: SparkSession, http: httpx.Client, server: ServerProcess) -> None:
    table = managed(spark, http, "named").full_name
    text = f"""
        CREATE TABLE lake.sea.arrivals AS SELECT 3L AS id, 'Bari' AS port UNION ALL SELECT 4L, 'Kyiv';
        MERGE INTO {table} b USING lake.sea.arrivals a ON b.id = a.id
          WHEN MATCHED THEN UPDATE SET port = a.port WHEN NOT MATCHED THEN INSERT (id, port) VALUES (a.id, a.port);
        DELETE FROM {table} WHERE named.id = 1;
        INSERT INTO {table} SELECT id + 100, port, n FROM {table} WHERE port = 'Oslo'; -- {table}
        SELECT id, port FROM {table} ORDER BY id;
        SELECT count(*) FROM {table} VERSION AS OF 1 JOIN lake.sea.arrivals USING (id);
    """
    results: list[Any] = [
        result if isinstance(result, Changed) else [tuple(row) for row in result.collect()]
        for result in run_sql(spark, text)
    ]
    assert [each.version for each in results[1:4]] == [2, 3, 4]
    assert results[4] == [(2, "Oslo"), (3, "Bari"), (4, "Kyiv"), (102, "Oslo")]
    assert results[5] == [(1,)]


def test_all_statements_run_whether_their_results_are_used_or_not(spark: SparkSession, http: httpx.Client) -> None:
    table = managed(spark, http, "eager")
    run_sql(spark, f"DELETE FROM {table.full_name} WHERE id = 1; DELETE FROM {table.full_name} WHERE id = 2")
    assert table.version() == 3


def test_changes_work_in_a_session_with_another_current_catalog(spark: SparkSession, http: httpx.Client) -> None:
    table = managed(spark, http, "elsewhere")
    spark.sql("USE lake.sea")
    try:
        assert DeltaTable(spark, table.full_name).delete("id = 1").version == 2
        (described,) = run_sql(spark, f"DESCRIBE {table.full_name}")
    finally:
        spark.sql("USE spark_catalog.default")
    assert not isinstance(described, Changed)
    assert [row[0] for row in described.collect()] == ["id", "port", "n"]


def test_lance_tables_are_read_in_sql_and_other_statements_are_refused(spark: SparkSession, http: httpx.Client) -> None:
    name = managed(spark, http, "beside").full_name
    spark.range(2).write.format("moorage").mode("append").option("tableFormat", "lance").save("lake.sea.points")
    (found,) = run_sql(spark, f"SELECT count(*) FROM {name} JOIN lake.sea.points USING (id)")
    assert not isinstance(found, Changed)
    assert found.collect() == [(1,)]
    run_sql(spark, f"CACHE TABLE cached AS SELECT id FROM {name}")
    assert spark.table("cached").columns == ["id"]
    spark.sql("UNCACHE TABLE cached")
    for text, message in (
        (f"DROP TABLE {name}", f"DROP is not offered for the Delta table '{name}'"),
        ("DELETE FROM lake.sea.points", "DELETE is not offered for the Lance table 'lake.sea.points'"),
        (f"DESCRIBE HISTORY {name}", "DESCRIBE is not offered"),
    ):
        with pytest.raises(ValueError, match=message):
            run_sql(spark, text)


def test_an_error_of_delta_is_one_line_on_the_command_line(spark: SparkSession, http: httpx.Client) -> None:
    name = managed(spark, http, "wrong").full_name
    merge = f"MERGE INTO {name} t USING {name} s ON t.id = s.nothing WHEN MATCHED THEN DELETE"
    with (
        pytest.raises(Failure, match=r"^\[DELTA_MERGE_UNRESOLVED_EXPRESSION\] Cannot resolve s.nothing.*$"),
        spark_errors(),
    ):
        run_sql(spark, merge)


def test_what_is_no_change_of_rows_is_refused(spark: SparkSession, http: httpx.Client, server: ServerProcess) -> None:
    table = managed(spark, http, "guarded")
    with DeltaTables(server.url) as tables:

        def run(statement: str) -> Changed:
            def on(shadow: ShadowTable) -> None:
                spark.sql(statement.format(f"delta.`{shadow.location}`"))

            return tables.shadows.change(table.full_name, on)

        with pytest.raises(ClientError, match="operation is 'SET TBLPROPERTIES'"):
            run("ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
        shadow = tables.shadows.create(table.full_name)
        spark.sql(f"UPDATE delta.`{shadow.location}` SET n = 5")
        for part in (table.folder / shadow.folder).glob("*.parquet"):
            part.unlink()
        with pytest.raises(ClientError, match="has None bytes"):
            tables.shadows.offer(table.full_name, shadow)
    assert table.version() == 1
