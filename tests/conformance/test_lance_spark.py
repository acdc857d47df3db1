"""Lance tables in Spark, through the Python data source of the client."""

from __future__ import annotations

import datetime
import functools
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest, ListTablesRequest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from moorage.client.lance import Lake
from moorage.client.lance.spark import FragmentReader, LanceSource, register
from moorage.client.spark_types import spark_schema
from moorage.testing.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "city": [f"city {n % 3}" for n in range(10)]})


@pytest.fixture
def lake(lance_server: ServerProcess) -> Lake:
    return Lake(lance_server.url)


@pytest.fixture
def table(lance_space: list[str]) -> list[str]:
    return [*lance_space, "orders"]


class Session:
    """A Spark session whose `format("lance")` uses one server."""

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


class Source:
    """The data source as Spark's planner and tasks use it, without Spark: a process for each would take seconds."""

    def __init__(self, url: str, table: list[str], **options: Any) -> None:
        given = {"uri": url, "path": "$".join(table), **options}
        self.source = LanceSource({name: str(value) for name, value in given.items()})

    def planned(self, schema: StructType | None = None) -> FragmentReader:
        return self.source.reader(schema or self.source.schema())

    def ids(self, schema: StructType | None = None) -> list[int]:
        return read(self.planned(schema))

    def save(self, schema: StructType, *tasks: pa.RecordBatch) -> None:
        writer = self.source.writer(schema, overwrite=False)
        messages = [pickled(writer).write(iter([rows])) for rows in tasks]
        writer.commit([pickled(message) for message in messages])


def column(name: str, kind: DataType) -> StructType:
    return StructType([StructField(name, kind)])


ID = column("id", LongType())


def read(reader: FragmentReader) -> list[int]:
    batches = [batch for each in reader.partitions() for batch in pickled(reader).read(pickled(each))]
    return sorted(id for batch in batches for id in batch["id"].to_pylist())


def pickled(value: T) -> T:
    """The value as it arrives in another process."""
    arrived: T = pickle.loads(pickle.dumps(value))
    return arrived


@pytest.fixture
def source(lance_server: ServerProcess, table: list[str]) -> Callable[..., Source]:
    return functools.partial(Source, lance_server.url, table)


def write_fragments(lake: Lake, table: list[str], rows: pa.Table = ROWS, size: int = 4) -> lance.LanceDataset:
    return lance.write_dataset(rows, namespace_client=lake, table_id=table, max_rows_per_file=size)


def opened(lake: Lake, table: list[str], **how: Any) -> lance.LanceDataset:
    return lance.dataset(namespace_client=lake, table_id=table, **how)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def test_many_tasks_write_and_one_commit_creates_the_table(session: Session, lake: Lake, table: list[str]) -> None:
    rows = session.spark.range(1000).repartition(4)
    session.write(rows, table, "append")
    session.write(rows, table, "append")
    session.write(session.spark.range(10), table, "overwrite")
    found = [opened(lake, table, version=version) for version in (1, 2, None)]
    assert [dataset.count_rows() for dataset in found] == [1000, 2000, 10]
    assert [len(dataset.get_fragments()) for dataset in found[:2]] == [4, 8]
    assert found[2].version == 3
    whole = session.read(table, version=1)
    assert (whole.rdd.getNumPartitions(), ids(whole)) == (4, list(range(1000)))


def test_time_travel_works_by_version_tag_and_branch(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    dataset = write_fragments(lake, table)
    branch = dataset.create_branch("audit", 1)
    branch.delete("id > 0")
    dataset.tags.create("checked", ("audit", branch.version))
    dataset.delete("id < 5")
    assert source().ids() == [5, 6, 7, 8, 9]
    assert source(version=1).ids() == list(range(10))
    assert source(branch="audit").ids() == source(tag="checked").ids() == [0]


def test_tasks_read_the_version_that_was_planned(lake: Lake, table: list[str], source: Callable[..., Source]) -> None:
    write_fragments(lake, table)
    planned = source().planned()
    opened(lake, table).delete("id < 5")
    assert read(planned) == list(range(10))


def test_queries_on_one_dataframe_do_not_mix_their_filters(session: Session, lake: Lake, table: list[str]) -> None:
    write_fragments(lake, table)
    read = session.read(table)
    few, late = read.where("id = 4"), read.where("id > 7")
    assert (ids(few), ids(late.union(few)), ids(read)) == ([4], [4, 8, 9], list(range(10)))


def test_an_option_passes_a_filter_to_lance(lake: Lake, table: list[str], source: Callable[..., Source]) -> None:
    write_fragments(lake, table)
    assert source(filter="id > 3 AND city = 'city 1'").ids(ID) == [4, 7]
    with pytest.raises(ValueError, match="No field named none"):
        source(filter="none = 1").planned()


def test_only_the_requested_columns_are_read(lake: Lake, table: list[str], source: Callable[..., Source]) -> None:
    write_fragments(lake, table)
    chosen = source(columns="id", batchSize=2)
    (first, *others) = chosen.planned().read(chosen.planned().partitions()[0])
    assert (first.schema.names, first.num_rows, len(others)) == (["id"], 2, 1)
    assert source().ids(column("id", IntegerType())) == list(range(10))
    with pytest.raises(ValueError, match="no column 'none'"):
        source(columns="id, none").planned()


def bytes_read(reader: FragmentReader) -> int:
    """The bytes that this process reads while it runs all tasks of a query."""

    def so_far() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = so_far()
    for each in reader.partitions():
        for _ in reader.read(each):
            pass
    return so_far() - before


def test_columns_and_rows_that_are_not_requested_are_not_fetched(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    count, wide = 1_000, 20_000
    write_fragments(
        lake,
        table,
        pa.table({"id": range(count), "photo": [np.random.default_rng(n).bytes(wide) for n in range(count)]}),
        size=count // 2,
    )
    everything = bytes_read(source().planned())
    assert everything > count * wide
    assert bytes_read(source(columns="id").planned()) < everything / 5
    assert bytes_read(source().planned(ID)) < everything / 5
    assert bytes_read(source(filter="id = 7").planned()) < everything / 5


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


def test_types_that_spark_lacks_are_read_as_the_nearest_type_and_written_back(
    session: Session, lake: Lake, table: list[str]
) -> None:
    write_fragments(lake, table, TYPES)
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
    # In a new table a vector keeps its type, so that a vector search is possible.
    session.write(read.select("vector"), [*table[:-1], "copy"], "overwrite")
    copied = opened(lake, [*table[:-1], "copy"])
    assert copied.schema.field("vector").type == pa.list_(pa.float32(), 2)


def test_batches_are_written_whatever_their_memory_layout_is(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    prices = pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))
    valid, numbers = prices.buffers()
    odd = pa.py_buffer(b"8 bytes." + numbers.to_pybytes()).slice(8)
    no_words = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    nulls = [pa.py_buffer(bytes(1)), pa.py_buffer(bytes(12))]
    batch = pa.record_batch(
        {
            "price": pa.Array.from_buffers(prices.type, 2, [valid, odd]),
            "words": pa.Array.from_buffers(pa.list_(pa.string()), 2, nulls, children=[no_words]),
        }
    )
    source().save(spark_schema(batch.schema), batch)
    assert opened(lake, table).to_table().to_pydict() == {"price": [Decimal("1.50"), None], "words": [None, None]}


def test_a_column_without_nulls_may_receive_nulls_later(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    kind = StructType([StructField("id", LongType(), nullable=False)])
    source().save(kind, pa.record_batch({"id": [1]}))
    source().save(ID, pa.record_batch({"id": pa.array([None], pa.int64())}))
    assert opened(lake, table).to_table()["id"].to_pylist() == [1, None]


def test_nanoseconds_are_truncated_and_a_column_without_a_spark_type_is_named(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    odd = pa.table(
        {
            "id": [1],
            "times": pa.array([[1_001]], pa.list_(pa.timestamp("ns"))),
            "noon": pa.array([12 * 3600], pa.time32("s")),
            "sum": pa.array([Decimal(1)], pa.decimal256(50, 0)),
        }
    )
    write_fragments(lake, table, odd)
    with pytest.raises(ValueError, match=r"no type for column 'sum' \(decimal256"):
        source().planned()
    chosen = source(columns="times, noon").planned()
    (batch,) = chosen.read(chosen.partitions()[0])
    assert batch.to_pydict() == {"times": [[datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]], "noon": [datetime.time(12)]}


def test_rows_that_do_not_fit_the_table_are_refused(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    write_fragments(lake, table)
    with pytest.raises(ValueError, match="no column 'other'"):
        source().save(column("other", LongType()))
    with pytest.raises(OSError, match="'abc' as a scalar of type int64"):
        source().save(column("id", StringType()), pa.record_batch({"id": ["abc"]}))
    source().save(column("id", IntegerType()), pa.record_batch({"id": pa.array([10], pa.int32())}))
    assert opened(lake, table).to_table(filter="id = 10")["city"].to_pylist() == [None]
    assert opened(lake, table).version == 2


def test_a_job_that_fails_leaves_no_table_behind(
    session: Session, lake: Lake, table: list[str], lance_space: list[str]
) -> None:
    broken = session.spark.sql("select id, assert_true(id < 50) as ok from range(100)")
    with pytest.raises(PySparkException):
        session.write(broken, table, "append")
    assert lake.list_tables(ListTablesRequest(id=lance_space, include_declared=True)).tables == []


def test_tables_without_rows_are_read_and_written(lake: Lake, table: list[str], source: Callable[..., Source]) -> None:
    none = pa.record_batch({"id": pa.array([], pa.int64())})
    source().save(ID, none)
    assert (opened(lake, table).version, source().ids()) == (1, [])
    assert list(source().planned().read(None)) == []
    source().save(ID, none)
    assert opened(lake, table).version == 1


def test_a_table_that_was_only_declared_gets_its_first_version(
    lake: Lake, table: list[str], source: Callable[..., Source]
) -> None:
    lake.declare_table(DeclareTableRequest(id=table))
    source().save(ID, pa.record_batch({"id": [1]}), pa.record_batch({"id": [2]}))
    assert (opened(lake, table).version, source().ids()) == (1, [1, 2])


def test_the_example_in_the_guide_works(spark: SparkSession, lance_server: ServerProcess, lake: Lake) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "lance.md").read_text()
    (shown,) = re.findall(r"^```py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    lake.create_namespace(CreateNamespaceRequest(id=["lake", "sales"]))
    write_fragments(lake, ["lake", "sales", "orders"])
    exec(shown.replace("http://127.0.0.1:8080", lance_server.url), {"spark": spark})
    assert opened(lake, ["lake", "sales", "late"]).count_rows() == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "lake$t"}, "option"),
        ({"uri": "http://127.0.0.1:9"}, "option"),
        ({"uri": "http://127.0.0.1:9", "path": "lake$t", "version": "newest"}, "whole number"),
        ({"uri": "http://127.0.0.1:9", "path": "lake$t", "tag": "old", "version": "1"}, "'tag' cannot be combined"),
    ],
)
def test_a_query_with_missing_or_conflicting_options_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LanceSource(options).schema()


def test_a_write_with_an_option_that_selects_a_version_is_refused() -> None:
    options = {"uri": "http://127.0.0.1:9", "path": "lake$t", "branch": "audit"}
    with pytest.raises(ValueError, match="select what is read"):
        LanceSource(options).writer(StructType(), overwrite=False)
