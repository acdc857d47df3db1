"""Delta tables that the server converts: every Iceberg reader sees the rows that Delta readers see, at each version."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from moorage.storage.s3 import S3Storage
from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.delta_java import JavaClients, JavaTable
from tests.conformance.ducks import connection
from tests.conformance.lakes import attach_spark, pyiceberg_of
from tests.conformance.mirrors import Mirror
from tests.conformance.uniform_walks import FEATURES, SparkWalk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = int(os.environ.get("MOORAGE_UNIFORM_STEPS") or (1_000 if os.environ.get("MOORAGE_SOAK") else 100))
"""Random operations in all. Half of them are on a table with row tracking."""
SEED = int(os.environ.get("MOORAGE_UNIFORM_SEED") or 17)
Rows = list[str]


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("uniform") / "data") as server:
        yield server
        assert not server.errors()


@pytest.fixture
async def http(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=120) as http:
        yield http


def plain(value: Any) -> Any:
    """A value in a form that all readers share."""
    match value:
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        case Decimal():
            return str(value)
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value


def rows_of(found: list[dict[str, Any]]) -> Rows:
    return sorted(str({name: plain(row[name]) for name in sorted(row)}) for row in found)


class Readers:
    """Iceberg readers of one table, through the server."""

    def __init__(self, server: ServerProcess, name: str = "t") -> None:
        self.server, self.name = server, name
        self.catalog = pyiceberg_of(server)

    def pyiceberg(self, version: int | None = None, **how: Any) -> Rows:
        table = self.catalog.load_table(("sea", self.name))
        snapshots = {each.sequence_number: each.snapshot_id for each in table.metadata.snapshots}
        chosen = None if version is None else snapshots[version]
        return rows_of(table.scan(snapshot_id=chosen, **how).to_arrow_batch_reader().read_all().to_pylist())

    def duckdb(self, where: str = "true") -> Rows:
        found = self._duck.execute(f"SELECT * FROM lake.sea.{self.name} WHERE {where}")
        return rows_of(found.to_arrow_table().to_pylist())

    @cached_property
    def _duck(self) -> Any:
        db = connection("avro", "httpfs", "iceberg")
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"ATTACH 'lake' (TYPE iceberg, ENDPOINT '{self.server.url}/iceberg', AUTHORIZATION_TYPE 'none')")
        return db

    def spark(self, spark: SparkSession, catalog: str, where: str = "true", snapshot: int | None = None) -> Rows:
        at = "" if snapshot is None else f"VERSION AS OF {snapshot}"
        return rows_of(spark_rows(spark.sql(f"SELECT * FROM {catalog}.sea.{self.name} {at} WHERE {where}")))


def spark_rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def delta_rows(folder: Path, version: int) -> Rows:
    return rows_of(DeltaTable(str(folder), version=version).to_pyarrow_table().to_pylist())


def cities(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table({"id": ids, "city": [f"c{id % 3}" for id in ids], "size": [id / 4 for id in ids]})


def change(folder: Path, version: int) -> None:
    """Write a version with deltalake: each one does something else."""
    if version < 2:
        mode: Any = "append" if version else "error"
        write_deltalake(folder, cities(version * 10, version * 10 + 10), partition_by=["city"], mode=mode)
        return
    table = DeltaTable(str(folder))
    changes: dict[int, Callable[[], Any]] = {
        2: lambda: table.delete("id % 4 = 0"),
        3: lambda: table.update(predicate="id = 7", updates={"size": "100.0"}),
        4: table.optimize.compact,
        5: lambda: table.restore(1),
        6: lambda: write_deltalake(
            folder, cities(30, 35).append_column("extra", pa.array(range(5))), mode="append", schema_mode="merge"
        ),
        7: lambda: write_deltalake(folder, cities(50, 53), mode="overwrite", schema_mode="overwrite"),
    }
    changes[version]()


async def test_pyiceberg_and_duckdb_read_each_version_that_deltalake_writes(
    server: ServerProcess, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    mirror = Mirror(http, folder)
    await mirror.delta.furnish()
    readers = Readers(server)

    for version in range(8):
        change(folder, version)
        assert await mirror.follow() == version
        expected = delta_rows(folder, version)
        assert readers.pyiceberg() == readers.duckdb() == expected
    for version in range(8):
        assert readers.pyiceberg(version) == delta_rows(folder, version)
    planned = pyiceberg_of(server, **{"scan-planning-mode": "server"}).load_table(("sea", "t"))
    assert planned.scan(row_filter="id = 51").to_arrow().num_rows == 1
    live = [each for each in planned.inspect.entries()["status"].to_pylist() if each != 2]
    assert len(live) == planned.inspect.files().num_rows == 3
    operations = [each.summary.operation.value for each in planned.metadata.snapshots]
    assert operations == ["append", "append", *["overwrite"] * 2, "replace", "overwrite", "append", "overwrite"]


@pytest.mark.xdist_group("s3")
async def test_clients_without_a_key_read_a_converted_table_in_an_object_store(
    minio: MinioServer, tmp_path: Path
) -> None:
    place, folder = f"s3://{minio.new_bucket()}/lake/", tmp_path / "plain"
    with ServerProcess(tmp_path / "data", environment=minio.settings(place)) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=120) as http:
            mirror = Mirror(http, folder, store=S3Storage(minio.account(place)))
            await mirror.delta.furnish(storage_root=place)
            for version in range(5):
                change(folder, version)
                await mirror.follow()
        readers = Readers(server)
        assert readers.pyiceberg() == readers.duckdb() == delta_rows(folder, 4)
        assert readers.catalog.load_table(("sea", "t")).metadata.location.startswith(place)
        assert not server.errors()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
async def test_spark_travels_in_time_reads_metadata_tables_and_changes(
    server: ServerProcess, http: httpx.AsyncClient, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    mirror = Mirror(http, folder)
    await mirror.delta.furnish()
    for version in range(3):
        change(folder, version)
        await mirror.follow()
        pyiceberg_of(server).load_table(("sea", "t"))  # converts the version, so that it becomes a snapshot
    attach_spark(spark, server, "travels")
    table = "travels.sea.t"
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    snapshots = spark.sql(f"SELECT snapshot_id, committed_at, summary FROM {table}.snapshots ORDER BY 2").collect()
    assert [row.summary["delta-version"] for row in snapshots] == ["0", "1", "2"]
    for version, row in enumerate(snapshots):
        at = f"TIMESTAMP AS OF '{row.committed_at}'"
        found = spark.sql(f"SELECT * FROM {table} {at}").collect()
        assert rows_of([each.asDict() for each in found]) == delta_rows(folder, version)
    files = spark.sql(f"SELECT count(*) AS n, sum(record_count) AS rows FROM {table}.files").first()
    assert files is not None
    assert files.rows == len(delta_rows(folder, 2))
    assert spark.sql(f"SELECT * FROM {table}.partitions").count() == 3
    assert spark.sql(f"SELECT * FROM {table}.history").count() == 3
    added = (
        spark.read.option("start-snapshot-id", snapshots[0].snapshot_id)
        .option("end-snapshot-id", snapshots[1].snapshot_id)
        .table(table)
    )
    assert sorted(row.id for row in added.collect()) == list(range(10, 20))
    for statement in (f"DELETE FROM {table} WHERE id = 1", f"ALTER TABLE {table} ADD COLUMN x INT"):
        with pytest.raises(Exception, match="is a Delta table"):
            spark.sql(statement).collect()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
async def test_spark_shows_the_row_ids_of_delta(
    server: ServerProcess, http: httpx.AsyncClient, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    # With column mapping, Delta writes the row ids of changed rows under a name that Iceberg readers do not look up.
    properties = {**FEATURES, "delta.columnMapping.mode": "none", "delta.enableRowTracking": "true"}
    walk = SparkWalk(spark, folder, seed=3, properties=properties)
    mirror = Mirror(http, folder)
    await mirror.delta.furnish()
    attach_spark(spark, server, "rows")
    for operation in (walk.append, walk.append, walk.update, walk.compact, walk.delete):
        operation()
        await mirror.follow()
        delta = spark.sql(
            f"SELECT id, _metadata.row_id AS row, _metadata.row_commit_version AS version FROM {walk.name}"
        )
        iceberg = spark.sql("SELECT id, _row_id AS row, _last_updated_sequence_number AS version FROM rows.sea.t")
        assert sorted(map(tuple, iceberg.collect())) == sorted(map(tuple, delta.collect()))
    # The first load converts the creation of the table and the first append together.
    require_metadata_tables(spark, "rows.sea.t", rows=spark.table(walk.name).count(), last=walk.version())


def require_metadata_tables(spark: SparkSession, table: str, *, rows: int, last: int) -> None:
    """Require metadata tables that agree with each other and with the rows of a table with deletion vectors."""

    def count(name: str, expression: str = "count(*)") -> int:
        found = spark.sql(f"SELECT {expression} AS n FROM {table}.{name}").first()
        assert found is not None
        return int(found.n)

    deleted = count("delete_files", "sum(record_count)")
    assert deleted > 0
    assert count("data_files", "sum(record_count)") - deleted == rows
    assert count("position_deletes") == deleted
    assert count("files") == count("data_files") + count("delete_files")
    assert count("entries WHERE status < 2") == count("files")
    assert count("manifests", "sum(added_data_files_count + existing_data_files_count)") == count("data_files")
    assert count("snapshots") == count("history") in (last, last + 1)
    assert count("refs") == 1
    assert count("all_data_files", "count(DISTINCT file_path)") >= count("data_files")
    assert count("metadata_log_entries", "max(latest_sequence_number)") == last
    assert count("partitions", "sum(record_count)") == count("data_files", "sum(record_count)")


@pytest.mark.slow
@pytest.mark.timeout(600 + 10 * STEPS)
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("tracks_rows", [False, True], ids=["vectors", "row-tracking"])
async def test_all_readers_agree_after_each_random_operation(
    server: ServerProcess, http: httpx.AsyncClient, spark: SparkSession, tmp_path: Path, *, tracks_rows: bool
) -> None:
    folder = tmp_path / "plain"
    properties = {**FEATURES, **({"delta.enableRowTracking": "true"} if tracks_rows else {})}
    walk = SparkWalk(spark, folder, seed=SEED + tracks_rows, properties=properties)
    mirror = Mirror(http, folder)
    await mirror.delta.furnish()
    readers = Readers(server)
    catalog = f"walk{int(tracks_rows)}"
    attach_spark(spark, server, catalog)
    java = JavaClients(spark, server.url)
    await mirror.follow()
    assert readers.pyiceberg() == []  # converts the creation of the table too, so that it is a snapshot
    for step in range(STEPS // 2):
        operation = walk.step()
        version = await mirror.follow()
        rows = spark_rows(spark.read.format("delta").load(str(folder)))
        expected = rows_of(rows)
        context = f"seed {walk.seed}, step {step} ({operation}), version {version}, after {walk.done}"
        assert readers.pyiceberg() == expected, context
        assert readers.duckdb() == expected, context
        assert readers.spark(spark, catalog) == expected, context
        delta, found = JavaTable(java, java.newer, "t", mirror.table.id, mirror.table.location).integers("id", "number")
        assert (delta, Counter(found)) == (version, Counter((row["id"], row["number"]) for row in rows)), context
        condition = walk.condition()
        filtered, context = rows_of([row for row in rows if condition.allows(row)]), f"{condition.sql}, {context}"
        assert readers.pyiceberg(row_filter=condition.row_filter) == filtered, context
        assert readers.duckdb(condition.sql) == filtered, context
        assert readers.spark(spark, catalog, condition.sql) == filtered, context
    await require_history(spark, readers, catalog, walk)


async def require_history(spark: SparkSession, readers: Readers, catalog: str, walk: SparkWalk) -> None:
    """Require a snapshot for every version, and the rows of Delta in some of them."""
    snapshots = readers.catalog.load_table(("sea", readers.name)).metadata.snapshots
    ids = {snapshot.sequence_number: snapshot.snapshot_id for snapshot in snapshots}
    last = walk.version()
    assert list(ids) == list(range(max(0, last - 499), last + 1))
    for version in walk.random.sample(list(ids), min(5, len(ids))):
        delta = rows_of(spark_rows(spark.read.format("delta").option("versionAsOf", version).load(str(walk.folder))))
        assert readers.pyiceberg(version) == delta, f"seed {walk.seed}, version {version}, after {walk.done}"
        assert readers.spark(spark, catalog, snapshot=ids[version]) == delta, f"seed {walk.seed}, version {version}"
