"""Lance tables in Spark, through the Python data source of the client."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest, ListTablesRequest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from moorage.client.lance import Lake
from moorage.client.lance.spark import LanceSource, register
from moorage.client.lance.spark_filters import to_lance
from moorage.testing.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "city": [f"city {n % 3}" for n in range(10)]})


@pytest.fixture
def lake(lance_server: ServerProcess) -> Lake:
    return Lake(lance_server.url)


@pytest.fixture
def table(lance_space: list[str]) -> list[str]:
    return [*lance_space, "orders"]


class Session:
    """A Spark session in which `format("lance")` is one server's."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark, self.url = spark, url

    def read(self, table: list[str], **options: Any) -> DataFrame:
        return self.spark.read.format("lance").options(uri=self.url, **options).load("$".join(table))

    def write(self, rows: DataFrame, table: list[str], mode: str, **options: Any) -> None:
        rows.write.format("lance").options(uri=self.url, **options).mode(mode).save("$".join(table))


@pytest.fixture
def session(spark: SparkSession, lance_server: ServerProcess) -> Session:
    register(spark)
    return Session(spark, lance_server.url)


def in_fragments(lake: Lake, table: list[str], rows: pa.Table = ROWS, size: int = 4) -> lance.LanceDataset:
    return lance.write_dataset(rows, namespace_client=lake, table_id=table, max_rows_per_file=size)


def opened(lake: Lake, table: list[str], **how: Any) -> lance.LanceDataset:
    return lance.dataset(namespace_client=lake, table_id=table, **how)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def test_many_tasks_write_and_one_commit_makes_the_table(session: Session, lake: Lake, table: list[str]) -> None:
    rows = session.spark.range(1000).repartition(4)
    session.write(rows, table, "append")
    session.write(rows, table, "append")
    session.write(session.spark.range(10), table, "overwrite")
    found = [opened(lake, table, version=version) for version in (1, 2, None)]
    assert [dataset.count_rows() for dataset in found] == [1000, 2000, 10]
    assert [len(dataset.get_fragments()) for dataset in found[:2]] == [4, 8]
    assert found[2].version == 3


def test_each_fragment_is_read_by_a_task_of_its_own(session: Session, lake: Lake, table: list[str]) -> None:
    in_fragments(lake, table).delete("id = 5")
    read = session.read(table)
    assert read.rdd.getNumPartitions() == 3
    assert ids(read) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_time_travels_by_version_tag_and_branch(session: Session, lake: Lake, table: list[str]) -> None:
    dataset = in_fragments(lake, table)
    dataset.tags.create("whole", 1)
    dataset.create_branch("audit", 1).delete("id > 0")
    dataset.delete("id < 5")
    assert ids(session.read(table, version=1)) == ids(session.read(table, tag="whole")) == list(range(10))
    assert ids(session.read(table, branch="audit")) == [0]


def test_a_read_stays_at_the_version_that_was_planned(session: Session, lake: Lake, table: list[str]) -> None:
    in_fragments(lake, table)
    planned = session.read(table).rdd
    planned.getNumPartitions()
    opened(lake, table).delete("id < 5")
    assert planned.count() == 10


def test_conditions_are_checked_by_lance(session: Session, lake: Lake, table: list[str]) -> None:
    in_fragments(lake, table)
    read = session.read(table)
    chosen = read.where("id > 3 and city = 'city 1' and id in (4, 7, 9) and not city like 'x%'")
    assert " Filter " not in chosen._jdf.queryExecution().executedPlan().toString()
    assert ids(chosen) == [4, 7]
    # What cannot be said to Lance is left to Spark.
    assert ids(read.where("id % 4 = 1 and id > 3")) == [5, 9]


def test_only_the_columns_that_are_asked_for_are_read(session: Session, lake: Lake, table: list[str]) -> None:
    in_fragments(lake, table)
    assert session.read(table, columns="city").columns == ["city"]
    typed = session.spark.read.format("lance").schema("id int").options(uri=session.url).load("$".join(table))
    assert (typed.schema.simpleString(), ids(typed)) == ("struct<id:int>", list(range(10)))
    with pytest.raises(ValueError, match="no column 'none'"):
        LanceSource({"uri": session.url, "path": "$".join(table), "columns": "id, none"}).schema()


TYPES = pa.table(
    {
        "tiny": pa.array([1, None], pa.int8()),
        "unsigned": pa.array([2**32 - 1, 0], pa.uint32()),
        "large": pa.array([2**64 - 1, 0], pa.uint64()),
        "half": pa.array(np.array([1.5, 2.5], dtype=np.float16)),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "word": pa.array(["a", None], pa.large_string()),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "bytes": pa.array([b"1", b"2"], pa.large_binary()),
        "day": pa.array([datetime.date(2026, 11, 15), None]),
        "at": pa.array([datetime.datetime(2026, 11, 15, 12), None], pa.timestamp("ns")),
        "inside": pa.array([{"x": 1, "y": "one"}, None]),
        "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
    }
)


def test_types_that_spark_lacks_arrive_in_the_nearest_and_come_back(
    session: Session, lake: Lake, table: list[str]
) -> None:
    in_fragments(lake, table, TYPES)
    read = session.read(table)
    first = read.orderBy("unsigned", ascending=False).first()
    assert first is not None
    assert first.asDict() == {
        "tiny": 1,
        "unsigned": 2**32 - 1,
        "large": Decimal(2**64 - 1),
        "half": 1.5,
        "price": Decimal("1.50"),
        "word": "a",
        "kind": "x",
        "bytes": bytearray(b"1"),
        "day": datetime.date(2026, 11, 15),
        "at": datetime.datetime(2026, 11, 15, 12),
        "inside": Row(x=1, y="one"),
        "vector": [1.0, 2.0],
    }
    session.write(read, table, "append")
    dataset = opened(lake, table)
    assert (dataset.schema, dataset.count_rows()) == (TYPES.schema, 4)
    # In a table of its own a vector is still one, and neighbours can be searched in it.
    session.write(read.select("vector"), [*table[:-1], "copy"], "overwrite")
    copied = opened(lake, [*table[:-1], "copy"])
    assert copied.schema.field("vector").type == pa.list_(pa.float32(), 2)


def test_rows_that_do_not_fit_the_table_are_refused(session: Session, lake: Lake, table: list[str]) -> None:
    in_fragments(lake, table)
    source = LanceSource({"uri": session.url, "path": "$".join(table)})
    with pytest.raises(ValueError, match="no column 'other'"):
        source.writer(StructType([StructField("other", LongType())]), overwrite=False)
    writer = source.writer(StructType([StructField("id", StringType())]), overwrite=False)
    with pytest.raises(pa.ArrowInvalid, match="abc"):
        writer.write(iter([pa.record_batch({"id": ["abc"]})]))
    session.write(session.spark.range(10, 11), table, "append")
    assert opened(lake, table).to_table(filter="id = 10")["city"].to_pylist() == [None]
    assert opened(lake, table).version == 2


def test_a_job_that_fails_leaves_no_table_behind(
    session: Session, lake: Lake, table: list[str], lance_space: list[str]
) -> None:
    broken = session.spark.sql("select id, assert_true(id < 50) as ok from range(100)")
    with pytest.raises(PySparkException):
        session.write(broken, table, "append")
    assert lake.list_tables(ListTablesRequest(id=lance_space, include_declared=True)).tables == []


def test_tables_without_rows_are_read_and_written(session: Session, lake: Lake, table: list[str]) -> None:
    none = session.spark.range(0)
    session.write(none, table, "append")
    assert (opened(lake, table).version, session.read(table).count()) == (1, 0)
    session.write(none, table, "append")
    assert opened(lake, table).version == 1
    declared = [*table[:-1], "declared"]
    lake.declare_table(DeclareTableRequest(id=declared))
    session.write(session.spark.range(2), declared, "append")
    assert ids(session.read(declared)) == [0, 1]


def test_the_lines_that_the_guide_shows_are_enough(
    spark: SparkSession, lance_server: ServerProcess, lake: Lake
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "lance.md").read_text()
    (shown,) = re.findall(r"^```py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    lake.create_namespace(CreateNamespaceRequest(id=["lake", "sales"]))
    in_fragments(lake, ["lake", "sales", "orders"])
    exec(shown.replace("http://127.0.0.1:8080", lance_server.url), {"spark": spark})
    assert opened(lake, ["lake", "sales", "late"]).count_rows() == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "lake$t"}, "option"),
        ({"uri": "http://127.0.0.1:9"}, "option"),
        ({"uri": "http://127.0.0.1:9", "path": "lake$t", "version": "newest"}, "whole number"),
        ({"uri": "http://127.0.0.1:9", "path": "lake$t", "tag": "old", "version": "1"}, "a tag says all"),
    ],
)
def test_a_query_that_does_not_say_what_it_wants_is_told_so(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LanceSource(options).schema()


def test_what_chooses_a_version_to_read_cannot_be_written_to() -> None:
    options = {"uri": "http://127.0.0.1:9", "path": "lake$t", "branch": "audit"}
    with pytest.raises(ValueError, match="choose what is read"):
        LanceSource(options).writer(StructType(), overwrite=False)


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        (EqualTo(("s",), "it's"), "(`s` = 'it''s')"),
        (GreaterThan(("n",), -3), "(`n` > -3)"),
        (LessThanOrEqual(("d",), datetime.date(2026, 1, 2)), "(`d` <= date '2026-01-02')"),
        (Not(EqualTo(("b",), value=True)), "(NOT (`b` = true))"),
        (In(("s",), ("a", "b")), "(`s` IN ('a', 'b'))"),
        (IsNull(("s",)), "(`s` IS NULL)"),
        (IsNotNull(("s",)), "(`s` IS NOT NULL)"),
        (StringStartsWith(("s",), "%"), "(starts_with(`s`, '%'))"),
        (StringEndsWith(("s",), "a"), "(ends_with(`s`, 'a'))"),
        (StringContains(("s",), "a"), "(contains(`s`, 'a'))"),
        (EqualTo(("f",), 0.0), None),
        (EqualTo(("n",), Decimal(1)), None),
        (EqualTo(("d",), datetime.datetime(2026, 1, 2)), None),
        (EqualNullSafe(("n",), 1), None),
        (In(("n",), (1, None)), None),
        (Not(EqualTo(("f",), 0.0)), None),
        (EqualTo(("s", "inside"), 1), None),
        (EqualTo(("elsewhere",), 1), None),
        (EqualTo(("a`b",), 1), None),
    ],
)
def test_a_filter_is_pushed_down_only_where_both_mean_the_same(asked: Filter, condition: str | None) -> None:
    assert to_lance(asked, {"s", "n", "d", "b", "f", "a`b"}) == condition
