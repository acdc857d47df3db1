"""Tables that are dropped, replaced, renamed or moved while a job rewrites their files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import lance
import pyarrow as pa
import pytest

from moorage.client import Client
from moorage.client.answers import Job
from moorage.client.lance import Lake
from moorage.pipeline.program import Program, Progress
from moorage.pipeline.table_programs import run_table_program
from moorage.pipeline.worker import Worker
from moorage.testing.server import ServerProcess
from tests.conformance.lakes import pyiceberg_of
from tests.upkeep.conftest import OwnSession
from tests.upkeep.managed_lake import CATALOG, SCHEMA, UNITY, ManagedTable, rows_of, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


def finish_while(client: Client, spark: SparkSession, job: str, change: Callable[[], object]) -> Job:
    """Run a compaction in this process, during which something happens once it has planned its rewrite."""
    pending = [change]

    def compact(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        def watched(state: dict[str, Any]) -> None:
            progress(state)
            if str(state.get("step", "")).startswith("rewriting") and pending:
                pending.pop()()

        return run_table_program(job, client, watched, spark=OwnSession(spark))

    programs: dict[str, Program] = {"compact": compact}
    Worker(client, threading.Event(), programs=programs).run(once=True)
    assert not pending, client.jobs.get(job)
    return client.jobs.get(job)


def rename(table: ManagedTable, *to: str) -> None:
    operation = {"op": "rename", "kind": "table", "path": [CATALOG, SCHEMA, table.name], "to": list(to)}
    answer = table.http.post("/api/moorage/v1/transactions", json={"operations": [operation]})
    assert answer.is_success, answer.text
    table.name = to[-1]


def test_the_job_of_a_table_that_is_replaced_meanwhile_ends_with_the_reason(
    spark: SparkSession, http: httpx.Client, client: Client
) -> None:
    table = small_files(spark, http, "gone", times=2).adopt()
    other = small_files(spark, http, "other", times=1).adopt()

    def change() -> None:
        http.delete(f"{UNITY}/tables/{table.full_name}").raise_for_status()
        rename(other, CATALOG, SCHEMA, table.name)

    ended = finish_while(client, spark, table.compact()["id"], change)
    assert (ended.state, ended.error, ended.attempt) == ("failed", "the table was dropped", 1)
    assert len(other.files()) == 2, "the new table of that name is left alone"


def test_a_table_that_is_renamed_and_moved_meanwhile_is_compacted(
    spark: SparkSession, http: httpx.Client, client: Client, copy: Path
) -> None:
    table = small_files(spark, http, "moving", times=2).adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    http.post(f"{UNITY}/schemas", json={"name": "port", "catalog_name": CATALOG}).raise_for_status()
    ended = finish_while(client, spark, table.compact()["id"], lambda: rename(table, CATALOG, "port", "moved"))
    assert (ended.state, ended.error, ended.attempt) == ("succeeded", None, 1)
    assert len(table.files()) == 1
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


@pytest.mark.parametrize("kind", ["iceberg", "lance"])
def test_the_job_of_an_iceberg_or_lance_table_that_is_dropped_meanwhile_ends_with_the_reason(
    spark: SparkSession, server: ServerProcess, client: Client, kind: str
) -> None:
    name = f"gone_{kind}"
    if kind == "iceberg":
        table = pyiceberg_of(server).create_table(f"{SCHEMA}.{name}", ROWS.schema)
        for _ in range(4):
            table.append(ROWS)
    else:
        for number in range(4):
            id = [CATALOG, SCHEMA, name]
            mode = "append" if number else "create"
            lance.write_dataset(ROWS, namespace_client=Lake(server.url), table_id=id, mode=mode)
    job = client.namespaces.create_job(CATALOG, [SCHEMA], name, "compact")
    gone = f"{server.url}{UNITY}/tables/{CATALOG}.{SCHEMA}.{name}"
    ended = finish_while(client, spark, job.id, lambda: httpx.delete(gone, trust_env=False).raise_for_status())
    assert (ended.state, ended.error, ended.attempt) == ("failed", "the table was dropped", 1)
