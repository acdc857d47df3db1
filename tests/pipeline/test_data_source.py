"""`format("moorage")` on a real server: managed Delta tables, and Lance tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moorage.client import Client
from moorage.client.delta import DeltaTables, Transaction
from moorage.testing.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark-pipeline")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_rows_are_appended_overwritten_and_read_at_a_version(spark: SparkSession, schema: str) -> None:
    boats = f"{schema}.boats"
    first = spark.createDataFrame([(1, "Nellie"), (2, None)], "id long, name string")
    first.write.format("moorage").mode("append").save(boats)
    spark.createDataFrame([(3, "Vigilance")], "id long, name string").write.format("moorage").mode("append").save(boats)
    spark.createDataFrame([(9,)], "ID long").write.format("moorage").mode("overwrite").save(boats)

    def at(version: int) -> list[tuple[Any, ...]]:
        return rows_of(spark.read.format("moorage").option("versionAsOf", version).load(boats))

    assert at(0) == [(1, "Nellie"), (2, None)]
    assert at(1) == [(1, "Nellie"), (2, None), (3, "Vigilance")]
    assert rows_of(spark.read.format("moorage").load(boats)) == [(9, None)]


def test_rows_without_some_columns_are_written_with_nulls(spark: SparkSession, schema: str) -> None:
    table = f"{schema}.partial"

    def append(row: tuple[Any, ...], columns: str) -> None:
        spark.createDataFrame([row], columns).write.format("moorage").mode("append").option("partitionBy", "p").save(
            table
        )

    append((1, "x", 1.0), "id long, p string, n double")
    append((2, 2.0), "id long, n double")
    append(("y",), "P string")
    found = [tuple(row) for row in spark.read.format("moorage").load(table).select("id", "p", "n").collect()]
    assert sorted(found, key=str) == sorted([(1, "x", 1.0), (2, None, 2.0), (None, "y", None)], key=str)
    with pytest.raises(Exception, match="several columns 'id', apart from case"):
        append((1, 2, "x"), "id long, ID long, p string")


def test_every_type_and_partition_value_survives(spark: SparkSession, tables: DeltaTables, schema: str) -> None:
    table = f"{schema}.voyages"
    columns = (
        "id int, big long, small short, tiny byte, ratio double, single float, flag boolean, name string, raw binary, "
        "day date, at timestamp, local timestamp_ntz, price decimal(12,3), tags array<string>, "
        "counts map<string,int>, port struct<city: string, pier: int>"
    )
    at = datetime(2026, 11, 16, 12, 30, 5, 123456, tzinfo=UTC)
    full: tuple[Any, ...] = (
        1,
        2**40,
        3,
        4,
        1.5,
        0.5,
        True,
        "Zoë " * 20,
        b"\0\1",
        date(2026, 11, 16),
        at,
        at.replace(tzinfo=None),
    )
    full += (Decimal("12.345"), ["a", None], {"x": 1}, ("Oslo", 7))
    empty = (2, *([None] * 15))
    given = spark.createDataFrame([full, empty], columns)
    for partition in ("name", "day", "at", "local", "price", "flag", "big"):
        where = f"{table}_{partition}"
        writer = given.write.format("moorage").mode("append").option("partitionBy", partition)
        writer.save(where)
        found = spark.read.format("moorage").load(where)
        assert found.schema.names == given.schema.names
        assert found.sort("id").collect() == given.sort("id").collect(), partition
        state = tables.state(where)
        assert state.file_count == 2
        assert all("numRecords" in file["stats"] for file in state.files)


@pytest.mark.parametrize("kind", ["delta", "lance"])
def test_a_batch_of_a_stream_is_committed_once(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, kind: str
) -> None:
    with Client(server.url) as client:
        client.namespaces.create("lake", [f"streams_{kind}"])
    schema = f"lake.streams_{kind}"
    table, source, checkpoint = f"{schema}.events", tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    def head() -> int:
        with Client(server.url) as client:
            found = client.namespaces.table("lake", [f"streams_{kind}"], "events").head
            assert found is not None
            return found.version

    def run() -> None:
        stream = spark.readStream.schema("id long").json(str(source))
        writer = stream.writeStream.format("moorage").option("checkpointLocation", str(checkpoint))
        writer = writer.option("tableFormat", kind)
        writer.trigger(availableNow=True).start(table).awaitTermination()

    for batch in range(3):
        (source / f"{batch}.json").write_text("".join(f'{{"id": {10 * batch + at}}}\n' for at in range(10)))
        run()
    version = head()
    # Spark dies after our commit and before its own: it runs the batch again.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink()
    run()
    found = spark.read.format("moorage").load(table)
    assert sorted(row.id for row in found.collect()) == list(range(30))
    assert head() == version


def test_a_transaction_is_committed_once_and_a_lower_version_is_skipped(
    spark: SparkSession, tables: DeltaTables, schema: str
) -> None:
    table = f"{schema}.loads"
    frame = spark.createDataFrame([(1,)], "id long")
    for version in (1, 1, 2, 1):
        writer = frame.write.format("moorage").mode("append").option("txnAppId", "load").option("txnVersion", version)
        writer.save(table)
    assert spark.read.format("moorage").load(table).count() == 2
    assert tables.state(table, app_id="load").last_transaction == 2


def test_a_conflict_is_resolved_by_a_commit_on_the_new_head(
    spark: SparkSession, tables: DeltaTables, schema: str
) -> None:
    table = f"{schema}.crowd"
    spark.createDataFrame([(0,)], "id long").write.format("moorage").mode("append").save(table)

    def append(at: int) -> None:
        spark.createDataFrame([(at,)], "id long").write.format("moorage").mode("append").save(table)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(1, 9)))
    assert rows_of(spark.read.format("moorage").load(table)) == [(at,) for at in range(9)]


def test_columns_are_added_or_replaced_only_on_request(spark: SparkSession, schema: str) -> None:
    table = f"{schema}.ports"
    spark.createDataFrame([(1,)], "id long").write.format("moorage").mode("append").save(table)
    wider = spark.createDataFrame([(2, "Oslo")], "id long, city string")
    with pytest.raises(Exception, match="has no column 'city'"):
        wider.write.format("moorage").mode("append").save(table)
    wider.write.format("moorage").mode("append").option("mergeSchema", "true").save(table)
    assert rows_of(spark.read.format("moorage").load(table).where("id = 2")) == [(2, "Oslo")]
    assert rows_of(spark.read.format("moorage").load(table).where("id = 1")) == [(1, None)]
    other = spark.createDataFrame([("Rome",)], "city string")
    other.write.format("moorage").mode("overwrite").option("overwriteSchema", "true").save(table)
    assert spark.read.format("moorage").load(table).collect()[0].asDict() == {"city": "Rome"}


def test_a_table_with_rules_is_refused_with_the_reason(spark: SparkSession, tables: DeltaTables, schema: str) -> None:
    name = f"{schema}.strict"
    new = tables.stage(name)
    struct = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    tables.create(new, struct, properties={"delta.constraints.positive": "id > 0"})
    with pytest.raises(Exception, match="it has the constraint 'positive'"):
        spark.createDataFrame([(1,)], "id long").write.format("moorage").mode("append").save(name)


def test_a_table_at_a_time_has_the_rows_of_that_time(spark: SparkSession, tables: DeltaTables, schema: str) -> None:
    table = f"{schema}.times"
    spark.createDataFrame([(1,)], "id long").write.format("moorage").mode("append").save(table)
    first = tables.state(table).timestamp_ms
    spark.createDataFrame([(2,)], "id long").write.format("moorage").mode("append").save(table)
    text = datetime.fromtimestamp(first / 1000, UTC).isoformat()
    assert spark.read.format("moorage").option("timestampAsOf", text).load(table).count() == 1
    assert spark.read.format("moorage").load(table).count() == 2


def test_a_lance_table_has_the_same_format_name(spark: SparkSession, schema: str) -> None:
    table = f"{schema}.vectors"
    frame = spark.createDataFrame([(1, [0.5, 1.0])], "id long, vector array<float>")
    frame.write.format("moorage").mode("append").option("tableFormat", "lance").save(table)
    frame.write.format("moorage").mode("append").save(table)
    found = spark.read.format("moorage").load(table)
    assert [row.vector for row in found.collect()] == [[0.5, 1.0], [0.5, 1.0]]


def test_a_lance_table_at_a_time_has_the_rows_of_that_time(spark: SparkSession, client: Client, schema: str) -> None:
    table = f"{schema}.times"
    rows = spark.createDataFrame([(1,)], "id long")
    rows.write.format("moorage").mode("append").option("tableFormat", "lance").save(table)
    first = datetime.now(UTC)
    rows.write.format("moorage").mode("append").save(table)

    def count_at(moment: datetime) -> int:
        return len(spark.read.format("moorage").option("timestampAsOf", moment.isoformat()).load(table).collect())

    assert (count_at(first), count_at(datetime.now(UTC))) == (1, 2)
    with pytest.raises(Exception, match="no version committed at or before 2001"):
        count_at(datetime(2001, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("option", ["expectedVersion", "partitionBy"])
def test_what_a_lance_table_would_ignore_is_refused(spark: SparkSession, schema: str, option: str) -> None:
    """A writer that expects a version relies on it that no other write is lost."""
    writer = spark.createDataFrame([(1,)], "id long").write.format("moorage").mode("append").option(option, "1")
    with pytest.raises(Exception, match=f"option '{option}' is for Delta tables"):
        writer.option("tableFormat", "lance").save(f"{schema}.ignored")


def test_an_iceberg_table_is_used_by_its_name(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.cargo AS SELECT 1L AS id")
    assert spark.table(f"{schema}.cargo").count() == 1
    with pytest.raises(Exception, match="is an Iceberg table: use its name"):
        spark.read.format("moorage").load(f"{schema}.cargo").count()


def test_a_replayed_transaction_leaves_no_second_commit(tables: DeltaTables, schema: str) -> None:
    name = f"{schema}.replay"
    struct = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    tables.create(tables.stage(name), struct)
    state = tables.state(name)
    first = tables.commit(name, state.table_id, state.schema_string, [], transaction=Transaction("a", 0))
    again = tables.commit(name, state.table_id, state.schema_string, [], transaction=Transaction("a", 0))
    assert (first.version, first.is_replay, again.version, again.is_replay) == (1, False, 1, True)
