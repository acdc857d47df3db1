"""Eight writers append to a table while all upkeep runs on it: none of them meets an error, and no row is lost."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from moorage.client import Client
from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.crash.children import SOAK
from tests.crash.test_upkeep_kills import expire_leases
from tests.upkeep.conftest import Finish
from tests.upkeep.managed_lake import DELTA, ManagedTable, rows_of, small_files
from tests.upkeep.test_checkpoints_delta import request
from tests.upkeep.test_compact_delta import ROW_IDS
from tests.upkeep.test_compaction_beside_writers import propose
from tests.upkeep.test_vacuum_delta import NOTHING, data_files, expire, server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["server"]

WRITERS = 8
SECONDS = 75 if SOAK else 5
"""The long form lasts until a vacuum that is announced beside the writers is due, too."""
LEAST = 5 * WRITERS
MARK = "delta.rowTracking.rowIdHighWaterMark"


class Writers:
    """Threads that append one row at a time, as clients of a table with row tracking do."""

    def __init__(self, table: ManagedTable) -> None:
        self._table, self._stop = table, threading.Event()
        self.errors: list[str] = []
        self.written: list[int] = []
        self._threads = [threading.Thread(target=self._write_on, args=(n,)) for n in range(WRITERS)]

    def __enter__(self) -> Writers:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def _write_on(self, writer: int) -> None:
        number = 10_000 * (writer + 1)
        while not self._stop.is_set():
            answer = self._append(number)
            if not answer.is_success:
                self.errors.append(answer.text)
                return
            self.written.append(number)
            number += 1
            time.sleep(0.02)

    def _append(self, number: int) -> httpx.Response:
        """Append a row, and try again after each conflict, which another appender or a rewrite may cause."""
        name, folder = f"part-{uuid4()}.parquet", self._table.folder
        pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "city": ["new"]}), folder / name)
        file = {"size": (folder / name).stat().st_size, "stats": json.dumps({"numRecords": 1})}
        while True:
            shown = self._table.http.get(f"{DELTA}/tables/{self._table.name}").raise_for_status().json()
            version = shown["latest-table-version"] + 1
            row = int(shown["metadata"]["properties"][MARK]) + 1
            actions: list[dict[str, Any]] = [
                write.domain("delta.rowTracking", {"rowIdHighWaterMark": row}),
                write.add(name, **file, baseRowId=row, defaultRowCommitVersion=version),
            ]
            at_ms = time.time_ns() // 1_000_000 + 1000
            answer = propose(self._table, write.stage(folder, version, at_ms, *actions))
            if answer.status_code != 409:
                return answer


def test_appending_writers_meet_no_error_while_all_upkeep_runs(
    spark: SparkSession, http: httpx.Client, client: Client, server: ServerProcess, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "busy", times=4, **NOTHING, **{"delta.enableRowTracking": "true"}).adopt()
    first = rows_of(spark, table.plain_copy(copy / "first"), ROW_IDS)
    assert finish(table.compact()).state == "succeeded"
    announced = finish(expire(table))
    assert announced.result is not None
    expire_leases(server)  # the files of the first versions are deleted beside the writers
    rounds, end = [], time.monotonic() + SECONDS
    with Writers(table) as writers:
        while not writers.errors and (time.monotonic() < end or len(writers.written) < LEAST):
            jobs = [table.compact(), request(table), expire(table)]
            finish(jobs[0])
            rounds += [client.jobs.get(job["id"]) for job in jobs]
    assert writers.errors == []
    assert {job.kind: job.error for job in rounds if job.state != "succeeded"} == {}
    vacuum = client.jobs.get(announced.result["vacuum_job"])
    assert vacuum.result is not None, vacuum
    assert (vacuum.state, vacuum.result["files_deleted"]) == ("succeeded", announced.result["files"])
    before = rows_of(spark, table.plain_copy(copy / "before"), ROW_IDS)
    assert finish(table.compact()).state == "succeeded"
    after = rows_of(spark, table.plain_copy(copy / "after"), ROW_IDS)
    assert after == before
    assert [row for row in after if row[0] < 10_000] == first
    assert sorted(row[0] for row in after) == sorted([*(row[0] for row in first), *writers.written])
    assert len({row[1] for row in after}) == len(after), "two rows have one id"
    assert len(table.files()) <= len(writers.written) // 10
    assert data_files(table) >= set(table.files())
