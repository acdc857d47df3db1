"""Checkpoints of managed Delta tables, and the log clean-up behind them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck
from tests.crash.test_upkeep_kills import expire_leases
from tests.upkeep.conftest import Finish
from tests.upkeep.managed_lake import (
    CATALOG,
    CATALOG_ONLY,
    DELTA,
    SCHEMA,
    ManagedTable,
    read_actions,
    rows_of,
    small_files,
)
from tests.upkeep.test_vacuum_delta import NOTHING, expire, server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["server"]


def request(table: ManagedTable, **args: Any) -> dict[str, Any]:
    where = f"/api/moorage/v1/catalogs/{CATALOG}/namespaces/{SCHEMA}/tables/{table.name}/jobs"
    answer = table.http.post(where, json={"kind": "checkpoint", "args": args})
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    return job


def plain_copy(table: ManagedTable, folder: Path) -> Path:
    """The table with its log as it is now, without the features that readers need a catalog for."""
    folder.mkdir(parents=True)
    for entry in table.folder.iterdir():
        if entry.name != "_delta_log":
            (folder / entry.name).symlink_to(entry)
    (folder / "_delta_log").mkdir()
    for entry in table.log.iterdir():
        (folder / "_delta_log" / entry.name).symlink_to(entry)
    for entry in table.log.glob("*.checkpoint.*.parquet"):
        found = pq.read_table(entry)
        at = found.schema.get_field_index("protocol")
        protocols = found["protocol"].to_pylist()
        for protocol in filter(None, protocols):
            for names in ("readerFeatures", "writerFeatures"):
                protocol[names] = [name for name in protocol[names] if name not in CATALOG_ONLY]
        copy = folder / "_delta_log" / entry.name
        copy.unlink()
        field = found.schema.field("protocol")
        pq.write_table(found.set_column(at, field, [pa.array(protocols, field.type)]), copy)
    return folder


def test_readers_start_at_the_checkpoint_when_earlier_commits_are_gone(
    spark: SparkSession, http: httpx.Client, server: ServerProcess, finish: Finish, copy: Path
) -> None:
    more = {**NOTHING, "delta.logRetentionDuration": "interval 0 days", "delta.enableRowTracking": "true"}
    table = small_files(
        spark,
        http,
        "marked",
        ddl="id BIGINT, city STRING, part STRING",
        rows="id, concat('c', id), if(id % 3 = 0, null, 'a b/é%')",
        rest="PARTITIONED BY (part)",
        times=4,
        **more,
    )
    spark.sql(f"DELETE FROM {table.path} WHERE id = 7")
    table.adopt()
    before, files = rows_of(spark, table.plain_copy(copy / "before")), set(table.files())

    done = finish(request(table))
    assert (done.state, done.error) == ("succeeded", None)
    assert done.result is not None
    assert (done.result["version"], done.result["before"]) == (5, {"commits_to_replay": 6})
    again = finish(request(table))
    assert again.result is not None
    assert (again.result["before"], len(list(table.log.glob("*.checkpoint.*")))) == ({"commits_to_replay": 0}, 1)
    assert json.loads((table.log / "_last_checkpoint").read_bytes())["version"] == 5

    announced = finish(expire(table))
    assert announced.result is not None
    assert (announced.state, announced.result["floor"]) == ("succeeded", 5)
    expire_leases(server)  # the vacuum is due now, not in a minute
    vacuum = finish({"id": announced.result["vacuum_job"]})
    assert (vacuum.state, vacuum.error) == ("succeeded", None)
    assert [int(file.stem) for file in sorted(table.log.glob("*.json"))] == [5]
    assert [file.name for file in (table.log / "_staged_commits").iterdir() if int(file.name[:20]) < 5] == []

    bare = plain_copy(table, copy / "after")
    assert rows_of(spark, f"delta.`{bare}`") == before
    some = rows_of(spark, f"delta.`{bare}` WHERE id > 25 AND part IS NULL")
    assert some == [row for row in before if row[0] > 25 and row[2] is None]
    with duck("delta") as db:
        ducks = db.execute("select id, city, part from delta_scan(?)", [str(bare)]).fetchall()
    assert sorted(ducks, key=repr) == before

    server.restart()  # with an empty cache
    shown = http.get(f"{DELTA}/tables/{table.name}/files").raise_for_status().json()
    assert {file["path"] for file in shown["files"]} == files


def test_spark_reads_a_log_compaction_instead_of_the_commits(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "joined", times=3)
    spark.sql(f"DELETE FROM {table.path} WHERE id < 15")
    table.adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    done = finish(request(table, commits_only=True))
    assert (done.state, done.error) == ("succeeded", None)
    assert done.result is not None
    assert (done.result["before"], done.result["after"]) == ({"commits_to_replay": 5}, {"commits_to_replay": 1})

    log = plain_copy(table, copy / "after") / "_delta_log"
    (joined,) = log.glob("*.compacted.json")
    assert joined.name == f"{0:020}.{4:020}.compacted.json"
    actions = read_actions(joined)
    for protocol in (action["protocol"] for action in actions if "protocol" in action):
        for names in ("readerFeatures", "writerFeatures"):
            protocol[names] = [name for name in protocol[names] if name not in CATALOG_ONLY]
    joined.unlink()
    joined.write_bytes(write.lines(*actions))
    for version in range(1, 4):
        (log / f"{version:020}.json").unlink()
        (log / f"{version:020}.json").write_text("a reader of this file fails")
    assert rows_of(spark, f"delta.`{copy / 'after'}`") == before
