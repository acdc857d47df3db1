"""Tables that deltalake wrote have the same content for deltalake and for us, at every version."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.formats.delta.replay import to_files
from moorage.snapshots.snapshot import Snapshot
from moorage.snapshots.snapshots import Snapshots
from moorage.snapshots.table_ref import TableRef
from moorage.storage.local import LocalStorage
from tests.snapshots.log_builder import CHECKPOINT_KINDS, CheckpointKind, LogBuilder
from tests.snapshots.test_versions import write_eight_versions

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
REGIONS = {1: "plain", 2: "a b/c", 4: "é%20:x"}
"""Partition values that need escaping in a path. The value of other days is null."""
Step = Callable[[Path], None]


def rows(start: int, count: int, day: int) -> pa.Table:
    return pa.table(
        {
            "day": pa.array([date(2024, 1, day)] * count, pa.date32()),
            "region": pa.array([REGIONS.get(day)] * count, pa.string()),
            "id": pa.array(range(start, start + count), pa.int64()),
            "name": pa.array([None if number % 3 == 0 else f"name {number}" for number in range(count)], pa.string()),
            "price": pa.array([number / 4 for number in range(count)], pa.float64()),
            "at": pa.array([datetime(2024, 1, day, 1, 2, 3, 456000, UTC)] * count, pa.timestamp("us", "UTC")),
        }
    )


def write(path: Path, data: pa.Table, mode: Literal["append", "overwrite"], **more: Any) -> None:
    # Columns that were added to the table are null in the new rows.
    write_deltalake(path, data, mode=mode, schema_mode="merge", post_commithook_properties=NO_HOOKS, **more)


def append(day: int, count: int) -> Step:
    def step(path: Path) -> None:
        properties = CommitProperties(custom_metadata={"day": f"{day}"}, app_transactions=[Transaction("app", count)])
        write(path, rows(day * 10, count, day), "append", commit_properties=properties)

    return step


def overwrite(path: Path) -> None:
    write(path, rows(0, 2, 9), "overwrite")


def overwrite_day(path: Path) -> None:
    write(path, rows(5, 2, 1), "overwrite", predicate="day = '2024-01-01'")


def delete_day(path: Path) -> None:
    DeltaTable(path).delete("day = '2024-01-02'", post_commithook_properties=NO_HOOKS)


def delete_rows(path: Path) -> None:
    DeltaTable(path).delete("id % 2 = 0", post_commithook_properties=NO_HOOKS)


def update(path: Path) -> None:
    DeltaTable(path).update(updates={"name": "'new'"}, predicate="id < 15", post_commithook_properties=NO_HOOKS)


def add_column(path: Path) -> None:
    table = DeltaTable(path)
    table.alter.add_columns(
        [Field(f"extra{table.version()}", PrimitiveType("string"))], post_commithook_properties=NO_HOOKS
    )


def describe(path: Path) -> None:
    table = DeltaTable(path)
    table.alter.set_table_properties({"delta.logRetentionDuration": f"interval {table.version() + 1} days"})


def compact(path: Path) -> None:
    DeltaTable(path).optimize.compact(post_commithook_properties=NO_HOOKS)


def restore(path: Path) -> None:
    table = DeltaTable(path)
    if table.version() > 0:
        table.restore(table.version() // 2)


def checkpoint(path: Path) -> None:
    DeltaTable(path).create_checkpoint()


def compact_log(path: Path) -> None:
    version = DeltaTable(path).version()
    if version > 0:
        DeltaTable(path).compact_logs(version // 2, version)


STEPS = st.lists(
    st.builds(append, st.integers(1, 4), st.integers(1, 5))
    | st.sampled_from([overwrite, overwrite_day, delete_day, delete_rows, update, add_column])
    | st.sampled_from([describe, compact, restore, checkpoint, compact_log]),
    max_size=7,
)
EXAMPLES = 300 if os.environ.get("MOORAGE_SOAK") else 20


def ours(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "files": sorted(
            (
                {
                    "path": file.path,
                    "size": file.size,
                    "time": file.modification_time,
                    # A compacted log of deltalake omits null partition values.
                    "partition": {
                        name: file.partition_values.get(name) for name in snapshot.metadata.partition_columns
                    },
                    "stats": _known(json.loads(file.stats)) if file.stats else {},
                }
                for file in to_files(snapshot.select())
            ),
            key=repr,
        ),
        "id": snapshot.metadata.id,
        "name": snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "partitions": list(snapshot.metadata.partition_columns),
        "created": snapshot.metadata.created_time,
        "configuration": snapshot.metadata.configuration,
        "schema": json.loads(snapshot.metadata.schema_string),
        "reader": snapshot.protocol.min_reader_version,
        "writer": snapshot.protocol.min_writer_version,
        "app": snapshot.transactions["app"].version if "app" in snapshot.transactions else None,
    }


def theirs(table: DeltaTable) -> dict[str, Any]:
    metadata, protocol = table.metadata(), table.protocol()
    return {
        "files": sorted(
            (
                {
                    "path": file["path"],
                    "size": file["size_bytes"],
                    "time": file["modification_time"],
                    "partition": {name: _text(value) for name, value in file["partition"].items()},
                    "stats": _known(
                        {
                            "numRecords": file["num_records"],
                            "minValues": {name: _text(value) for name, value in file["min"].items()},
                            "maxValues": {name: _text(value) for name, value in file["max"].items()},
                            "nullCount": file["null_count"],
                        }
                    ),
                }
                for file in pa.table(table.get_add_actions()).to_pylist()
            ),
            key=repr,
        ),
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "partitions": metadata.partition_columns,
        "created": metadata.created_time,
        "configuration": metadata.configuration,
        "schema": json.loads(table.schema().to_json()),
        "reader": protocol.min_reader_version,
        "writer": protocol.min_writer_version,
        "app": table.transaction_version("app"),
    }


def _known(stats: dict[str, Any]) -> dict[str, Any]:
    """Without nulls, and sorted: the two write unknown values differently."""
    inner = {name: _known(value) if isinstance(value, dict) else value for name, value in sorted(stats.items())}
    return {name: value for name, value in inner.items() if value is not None}


def _text(value: Any) -> Any:
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        case date():
            return value.isoformat()
    return value


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_version_reads_the_same_as_in_deltalake(tmp_path: Path, steps: list[Step]) -> None:
    asyncio.run(_compare(tmp_path, steps))


async def _compare(tmp_path: Path, steps: list[Step]) -> None:
    path = tmp_path / "table"
    shutil.rmtree(path, ignore_errors=True)
    write_deltalake(
        path,
        rows(0, 3, 1),
        partition_by=["day", "region"],
        name="t",
        description="d",
        post_commithook_properties=NO_HOOKS,
    )
    warm, ref = Snapshots(LocalStorage(tmp_path)), TableRef(id="t", location=f"file://{path}/")
    for step in steps:
        step(path)
        table = DeltaTable(path)
        assert ours(await warm.at(ref)) == theirs(table)
        assert ours(await Snapshots(LocalStorage(tmp_path)).at(ref)) == theirs(table)
    newest = DeltaTable(path)
    for version in range(newest.version() + 1):
        assert ours(await warm.at(ref, version)) == theirs(DeltaTable(path, version=version))
    history = {entry.pop("version"): entry for entry in newest.history()}
    assert {change.version: change.commit.commit_info async for change in warm.changes(ref, 0)} == history


@pytest.mark.parametrize("kind", [None, *CHECKPOINT_KINDS])
async def test_hand_written_logs_have_the_same_files_as_in_deltalake(
    log: LogBuilder, snapshots: Snapshots, kind: CheckpointKind | None
) -> None:
    write_eight_versions(log)
    if kind is not None:
        log.checkpoint(4, kind)
        log.hint(4)
    for version in range(8):
        table = DeltaTable(log.folder, version=version)
        files = to_files((await snapshots.at(log.ref(), version)).select())
        assert sorted(file.path for file in files) == sorted(pa.table(table.get_add_actions())["path"].to_pylist())


async def test_time_travel_finds_the_same_version_as_deltalake(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, rows(0, 1, 1), partition_by=["day", "region"])
    for day in (2, 3, 4):
        append(day, 1)(path)
    for version in range(4):
        os.utime(path / f"_delta_log/{version:020}.json", ns=(0, 1_700_000_000_000_000_000 + version * 10_000_000_000))
    snapshots, ref = Snapshots(LocalStorage(tmp_path)), TableRef(id="t", location=f"file://{path}/")
    for second in (0, 5, 10, 29, 30, 99):
        moment = datetime.fromtimestamp(1_700_000_000 + second, UTC)
        table = DeltaTable(path)
        table.load_as_version(moment)
        assert await snapshots.version_at(ref, moment) == table.version()
