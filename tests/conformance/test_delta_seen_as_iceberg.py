"""A Delta table whose writer also wrote Iceberg metadata, read by Iceberg clients."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import RESTError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata
from pyiceberg.types import LongType, NestedField, StringType

from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.conformance.delta_java import JavaClients, JavaTable
from tests.conformance.ducks import duck
from tests.conformance.lakes import attach_spark, pyiceberg_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
COLUMNS = (
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "city", "type": "string", "nullable": True, "metadata": {}},
)
ON = {"delta.universalFormat.enabledFormats": "iceberg"}
START_MS = int(time.time() * 1000) - 3_600_000


class Converter(NoopCatalog):
    """A catalog for PyIceberg that writes each commit as the next metadata file in a folder."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        after = update_table_metadata(table.metadata, updates)
        number = len(after.snapshots)
        location = f"{after.location}/metadata/{number:05d}.metadata.json"
        ToOutputFile.table_metadata(after, table.io.new_output(location))
        return CommitTableResponse.model_validate({"metadata": after, "metadata-location": location})


class Twin:
    """A Delta table, and the Iceberg metadata of each of its versions in the same folder."""

    def __init__(self, delta: DeltaClient, table: Staged) -> None:
        self.delta, self.table, self.version = delta, table, 0
        metadata = new_table_metadata(
            SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, table.location, {"format-version": "2"}
        )
        self.iceberg = Table(("sea", "t"), metadata, "", load_file_io(), Converter("converter"))

    async def append(self, *rows: tuple[int, str]) -> None:
        """Append a version: the same Parquet file for Delta and for Iceberg, in one commit."""
        self.version += 1
        ids, cities = zip(*rows, strict=True)
        with self.iceberg.transaction() as both:
            both.set_properties({"delta-version": str(self.version)})
            both.append(pa.table({"id": pa.array(ids, pa.int64()), "city": cities}))
        added = self.iceberg.inspect.entries().filter(pa.compute.field("snapshot_id") == self.snapshot)
        files = [
            write.add(file["file_path"].removeprefix(f"{self.table.location}/"), size=file["file_size_in_bytes"])
            for file in added["data_file"].to_pylist()
        ]
        await self.commit(*files, location=self.iceberg.metadata_location)

    async def commit(self, *actions: dict[str, Any], location: str) -> None:
        block = {
            "metadata_location": location,
            "converted_delta_version": self.version,
            "converted_delta_timestamp": "2026-02-09T17:00:00.000000Z",
        }
        info = self.table.stage(self.version, *actions, timestamp=START_MS + self.version)
        ok(await self.delta.commit(self.table, info, uniform={"iceberg": block}))

    @property
    def snapshot(self) -> int:
        assert self.iceberg.metadata.current_snapshot_id is not None
        return self.iceberg.metadata.current_snapshot_id


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("twins") / "data") as server:
        yield server


@pytest.fixture
async def twin(server: ServerProcess) -> AsyncIterator[Twin]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        delta = DeltaClient(http)
        await delta.furnish()
        table = await delta.stage()
        first = write.commit_info(START_MS, "CREATE TABLE")
        table.write_first(info=first, described={"columns": COLUMNS}, properties=ON)
        ok(await delta.create(table, properties={**ON, "delta.lastCommitTimestamp": str(START_MS)}))
        twin = Twin(delta, table)
        await twin.append((1, "Oslo"), (2, "Rome"))
        yield twin


def rows_of(table: Table, **how: Any) -> list[tuple[int, str]]:
    found = table.scan(**how).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["city"].to_pylist(), strict=True))


async def test_pyiceberg_reads_every_version_and_writes_none(server: ServerProcess, twin: Twin) -> None:
    catalog = pyiceberg_of(server)
    assert catalog.list_tables("sea") == [("sea", "t")]
    assert catalog.table_exists(("sea", "t"))
    first, seen = twin.snapshot, catalog.load_table(("sea", "t"))
    assert rows_of(seen) == [(1, "Oslo"), (2, "Rome")]
    await twin.append((3, "Kyiv"))
    seen = seen.refresh()
    assert rows_of(seen) == [(1, "Oslo"), (2, "Rome"), (3, "Kyiv")]
    assert rows_of(seen, snapshot_id=first) == [(1, "Oslo"), (2, "Rome")]
    planned = pyiceberg_of(server, **{"scan-planning-mode": "server"}).load_table(("sea", "t"))
    assert rows_of(planned, row_filter="id > 2") == [(3, "Kyiv")]
    with pytest.raises(RESTError, match="is a Delta table"):
        seen.append(pa.table({"id": pa.array([4], pa.int64()), "city": ["Bonn"]}))
    for change in (catalog.drop_table, catalog.purge_table):
        with pytest.raises(RESTError, match="is a Delta table"):
            change(("sea", "t"))
    assert await twin.delta.announced(twin.table) == ([1, 2], 2)


async def test_duckdb_reads_the_newest_version(server: ServerProcess, twin: Twin) -> None:
    with duck("avro", "httpfs", "iceberg") as db:
        db.execute(f"ATTACH 'lake' (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none')")
        assert db.execute("SELECT * FROM lake.sea.t ORDER BY id").fetchall() == [(1, "Oslo"), (2, "Rome")]
        await twin.append((3, "Kyiv"))
        assert db.execute("SELECT count(*), max(id) FROM lake.sea.t").fetchall() == [(3, 3)]


@pytest.mark.slow
@pytest.mark.timeout(300)  # the first test waits until Spark has started
@pytest.mark.xdist_group("spark")
async def test_spark_cannot_write_drop_or_clean_up_the_table(
    server: ServerProcess, twin: Twin, spark: SparkSession
) -> None:
    attach_spark(spark, server, "twins")
    (twin.table.folder / "only-delta-knows.parquet").write_bytes(b"rows")
    files = sorted(twin.table.folder.rglob("*"))
    for statement, words in (
        ("INSERT INTO twins.sea.t VALUES (4, 'Bonn')", "is a Delta table"),
        ("DROP TABLE twins.sea.t PURGE", "GC is disabled"),
        ("CALL twins.system.expire_snapshots('sea.t', TIMESTAMP '2999-01-01 00:00:00')", "GC is disabled"),
        ("CALL twins.system.remove_orphan_files('sea.t', TIMESTAMP '2999-01-01 00:00:00')", "GC is disabled"),
    ):
        with pytest.raises(Exception, match=words):
            spark.sql(statement).collect()
    assert set(twin.table.folder.rglob("*")).issuperset(files)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("spark")
async def test_deltas_kernel_and_spark_with_iceberg_read_the_same_rows(
    server: ServerProcess, twin: Twin, spark: SparkSession
) -> None:
    attach_spark(spark, server, "siblings")
    java = JavaClients(spark, server.url)
    kernel = JavaTable(java, java.newer, "t", twin.table.id, twin.table.location)

    def as_iceberg() -> list[int]:
        return [row.id for row in spark.sql("SELECT id FROM siblings.sea.t ORDER BY id").collect()]

    assert kernel.rows() == as_iceberg() == [1, 2]
    await twin.append((3, "Kyiv"))
    assert kernel.rows() == as_iceberg() == [1, 2, 3]
