"""What other writers do to a table while a worker rewrites its files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moorage.client import Client, ClientError
from moorage.client.answers import Lease
from moorage.core.rewrites import NextShadow, OfferOutcome, Shadow
from moorage.pipeline.delta_upkeep import optimise
from moorage.testing import delta_writer as write
from tests.upkeep.conftest import Finish, OwnSession
from tests.upkeep.managed_lake import UNITY, ManagedTable, rows_of, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def append(table: ManagedTable, ids: list[int], *, version: int | None = None) -> httpx.Response:
    """Append a file as a Delta writer does: one proposal, at the version after the newest."""
    name = f"part-{uuid4()}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "city": [f"new{n}" for n in ids]}), table.folder / name)
    size = (table.folder / name).stat().st_size
    number = table.version() + 1 if version is None else version
    at_ms = time.time_ns() // 1_000_000 + 1000
    stats = json.dumps({"numRecords": len(ids)})
    info = write.stage(table.folder, number, at_ms, write.add(name, size=size, stats=stats))
    return propose(table, info)


def propose(table: ManagedTable, info: dict[str, Any]) -> httpx.Response:
    body = {"table_id": table.id, "table_uri": table.location, "commit_info": info}
    return table.http.post(f"{UNITY}/delta/commit", json=body)


def lease_of(client: Client, table: ManagedTable, **options: Any) -> Lease:
    job = table.compact(**options)
    lease = client.jobs.take("test", ["compact"])
    assert lease is not None
    assert lease.job.id == job["id"]
    return lease


def rewritten(client: Client, table: ManagedTable, spark: SparkSession) -> tuple[Client, Lease, Shadow]:
    """A shadow that Spark has rewritten, and that is not offered yet."""
    lease = lease_of(client, table)
    worker = client.for_job(lease)
    shadow = worker.rewrites.next_shadow(table.id).shadow
    assert shadow is not None
    optimise(OwnSession(spark), shadow, lease.job, lambda _: None)
    return worker, lease, shadow


def test_an_append_during_the_rewrite_stays(
    spark: SparkSession, http: httpx.Client, client: Client, copy: Path
) -> None:
    table = small_files(spark, http, "appended").adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    worker, lease, shadow = rewritten(client, table, spark)
    assert append(table, [1000]).is_success
    result = worker.rewrites.offer(table.id, shadow)
    assert (result.outcome, result.version) == (OfferOutcome.COMMITTED, table.version())
    assert sorted(rows_of(spark, table.plain_copy(copy / "after"))) == sorted([*before, (1000, "new1000")])
    assert worker.rewrites.next_shadow(table.id) == NextShadow()
    client.jobs.succeed(lease.job.id, lease.fence, {})


def test_a_rewrite_is_dropped_if_one_of_its_files_was_removed_meanwhile(
    spark: SparkSession, http: httpx.Client, client: Client
) -> None:
    table = small_files(spark, http, "removed").adopt()
    worker, lease, shadow = rewritten(client, table, spark)
    gone = next(iter(table.files()))
    version = table.version() + 1
    at_ms = time.time_ns() // 1_000_000 + 1000
    info = write.stage(table.folder, version, at_ms, write.remove(gone))
    assert propose(table, info).is_success
    result = worker.rewrites.offer(table.id, shadow)
    assert result.outcome is OfferOutcome.DROPPED
    assert "no longer a file of the table" in (result.reason or "")
    assert table.version() == version
    assert not (table.folder / shadow.folder).exists(), "its files are deleted"
    client.jobs.cancel(lease.job.id)


def test_only_the_partitions_whose_files_were_removed_meanwhile_are_left_out(
    spark: SparkSession, http: httpx.Client, client: Client, copy: Path
) -> None:
    table = small_files(spark, http, "parted", rest="PARTITIONED BY (city)", rows="id, concat('c ', id % 3)").adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    worker, lease, shadow = rewritten(client, table, spark)
    gone = next(path for path, file in table.files().items() if file["partitionValues"]["city"] == "c 1")
    lost = {row[0] for row in before} - {row[0] for row in _rows_without(spark, table, gone)}
    version = table.version() + 1
    at_ms = time.time_ns() // 1_000_000 + 1000
    assert propose(table, write.stage(table.folder, version, at_ms, write.remove(gone))).is_success
    result = worker.rewrites.offer(table.id, shadow)
    assert (result.outcome, result.version) == (OfferOutcome.COMMITTED, version + 1)
    assert "no longer a file of the table" in (result.reason or "")
    assert result.rewritten is not None
    assert result.rewritten.files_added == 2
    rewritten_files = [path for path in table.files() if path.startswith(shadow.folder)]
    assert {table.files()[path]["partitionValues"]["city"] for path in rewritten_files} == {"c 0", "c 2"}
    on_disk = {str(path.relative_to(table.folder)) for path in (table.folder / shadow.folder).rglob("*.parquet")}
    assert on_disk == {unquote(path) for path in rewritten_files}, "the files that were left out are deleted"
    assert rows_of(spark, table.plain_copy(copy / "after")) == [row for row in before if row[0] not in lost]
    again = worker.rewrites.next_shadow(table.id).shadow
    assert again is not None
    assert again.files == shadow.files - result.rewritten.files_removed - 1
    client.jobs.cancel(lease.job.id)


def _rows_without(spark: SparkSession, table: ManagedTable, gone: str) -> list[tuple[Any, ...]]:
    """The rows of the table in all other files."""
    kept = [str(table.folder / unquote(path)) for path in table.files() if path != gone]
    return [tuple(row) for row in spark.read.parquet(*kept).select("id").collect()]


def test_a_rewrite_is_dropped_if_the_metadata_changed_meanwhile(
    spark: SparkSession, http: httpx.Client, client: Client
) -> None:
    table = small_files(spark, http, "altered").adopt()
    worker, lease, shadow = rewritten(client, table, spark)
    (metadata,) = [action for action in table.commits()[0] if "metaData" in action]
    metadata["metaData"]["configuration"]["owner"] = "new"
    at_ms = time.time_ns() // 1_000_000 + 1000
    assert propose(table, write.stage(table.folder, table.version() + 1, at_ms, metadata)).is_success
    result = worker.rewrites.offer(table.id, shadow)
    assert result.outcome is OfferOutcome.DROPPED
    assert "changed more than rows" in (result.reason or "")
    client.jobs.cancel(lease.job.id)


def test_an_offer_is_refused_once_the_job_is_lost(spark: SparkSession, http: httpx.Client, client: Client) -> None:
    table = small_files(spark, http, "lost").adopt()
    worker, lease, shadow = rewritten(client, table, spark)
    client.jobs.cancel(lease.job.id)
    version = table.version()
    with pytest.raises(ClientError) as refused:
        worker.rewrites.offer(table.id, shadow)
    assert refused.value.code == "LEASE_LOST"
    assert table.version() == version


def test_the_job_of_a_table_that_was_dropped_ends_with_the_reason(
    spark: SparkSession, http: httpx.Client, finish: Finish, client: Client
) -> None:
    table = small_files(spark, http, "dropped", times=1).adopt()
    job = table.compact()
    http.delete(f"{UNITY}/tables/{table.full_name}").raise_for_status()
    ended = finish(job)
    assert (ended.state, ended.error) == ("failed", "the table was dropped")
