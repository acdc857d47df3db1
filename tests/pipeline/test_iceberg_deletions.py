"""Which files the upkeep of Iceberg tables does not delete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from moorage.client import Client
from moorage.client.answers import LocatedTable
from moorage.core.ids import JobId
from moorage.pipeline.iceberg_upkeep import expire_iceberg, remove_orphans
from moorage.testing.server import ServerProcess
from tests.conformance.lakes import pyiceberg_of
from tests.upkeep.conftest import OwnSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER = {"history.expire.max-snapshot-age-ms": str(2**63 - 1)}


def located_table(client: Client, space: str) -> LocatedTable:
    (found,) = [each for each in client.namespaces.tables("lake", [space]) if each.name == "t"]
    return client.namespaces.table_by_id(found.id)


def test_a_snapshot_that_a_query_reads_stays_although_others_are_committed_during_the_expiry(
    spark: SparkSession, server: ServerProcess, client: Client, schema: str
) -> None:
    rows = pa.table({"id": [1, 2]})
    space = schema.partition(".")[2]
    table = pyiceberg_of(server).create_table(f"{space}.t", rows.schema, properties=NEVER)
    table.append(rows)
    for _ in range(2):
        table.overwrite(rows)
    current = table.current_snapshot()
    assert current is not None
    located = located_table(client, space)

    def expire(**args: Any) -> dict[str, Any]:
        job = client.namespaces.create_job("lake", [space], "t", "expire", args)

        def progress(state: dict[str, Any]) -> None:
            if args and "removing" in str(state.get("step")):
                for _ in range(2):
                    table.refresh().overwrite(rows)

        try:
            return expire_iceberg(job, located, client, progress, OwnSession(spark))
        finally:
            client.jobs.cancel(JobId(job.id))

    assert expire()["deleted"]["deleted_data_files_count"] == 0, "the table states that nothing expires"
    assert expire(older_than_days=0)["deleted"]["deleted_data_files_count"] == 2
    assert table.refresh().scan(snapshot_id=current.snapshot_id).to_arrow() == rows


def test_the_state_of_ingests_is_no_orphan(
    spark: SparkSession, server: ServerProcess, client: Client, schema: str
) -> None:
    rows = pa.table({"id": [1, 2]})
    space = schema.partition(".")[2]
    table = pyiceberg_of(server).create_table(f"{space}.t", rows.schema)
    table.append(rows)
    folder = Path(unquote(table.location().removeprefix("file://")))
    state, orphan = folder / "_ingest" / "a1" / "1.json", folder / "data" / "orphan.parquet"
    state.parent.mkdir(parents=True)
    for file in (state, orphan):
        file.write_bytes(b"{}")
        os.utime(file, (1, 1))
    job = client.namespaces.create_job("lake", [space], "t", "orphans")
    try:
        found = remove_orphans(job, located_table(client, space), client, lambda _: None, OwnSession(spark))
    finally:
        client.jobs.cancel(JobId(job.id))
    assert (found["deleted"], orphan.exists(), state.exists()) == (1, False, True)
    assert table.refresh().scan().to_arrow() == rows
