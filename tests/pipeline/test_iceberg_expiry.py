"""What the expiry of an Iceberg table keeps while other writers commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from moorage.client import Client
from moorage.core.ids import JobId
from moorage.pipeline.iceberg_upkeep import expire_iceberg
from moorage.testing.server import ServerProcess
from tests.conformance.lakes import pyiceberg_of
from tests.upkeep.conftest import OwnSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER = {"history.expire.max-snapshot-age-ms": str(2**63 - 1)}


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
    located = client.namespaces.table_by_id(
        next(each.id for each in client.namespaces.tables("lake", [space]) if each.name == "t")
    )

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
