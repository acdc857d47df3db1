"""A Delta table of 100,000 files, read by the server's log reader: CPU and memory, in a separate process."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

import msgspec

from bench.report import Row

FILES, COMMITS, CHECKPOINT = 1_000, 100, 89
_COLUMNS = {"day": "date", "id": "long", "name": "string", "price": "double", "at": "timestamp"}


class Measured(msgspec.Struct):
    """CPU seconds, and peak memory."""

    cold_s: float
    increment_s: float
    slowest_increment_s: float
    small_increment_s: float
    first_prune_s: float
    prune_s: float
    pruned_after_increment_s: float
    by_deltalake_s: float
    peak_mb: float


def snapshot_rows(folder: Path) -> list[Row]:
    write_table(folder)
    ours = msgspec.json.decode(_in_own_process(folder, "ours"), type=dict[str, float])
    theirs = msgspec.json.decode(_in_own_process(folder, "deltalake"), type=dict[str, float])
    found = Measured(**ours, **theirs)
    return [
        Row("cold, from the checkpoint", f"{found.cold_s:.2f} s CPU", "≤ 0.5 s", found.cold_s <= 0.5),
        Row("the same list by deltalake", f"{found.by_deltalake_s:.2f} s CPU"),
        Row(
            "one more commit of 1,000 files",
            f"{found.increment_s * 1e3:.1f} ms CPU",
            "≤ 10 ms",
            found.increment_s <= 0.01,
        ),
        Row("the slowest of ten, which merges slabs", f"{found.slowest_increment_s * 1e3:.1f} ms CPU"),
        Row("one more commit of 10 files", f"{found.small_increment_s * 1e3:.1f} ms CPU"),
        Row("pruned for the first time", f"{found.first_prune_s * 1e3:.0f} ms CPU"),
        Row("pruned again", f"{found.prune_s * 1e3:.1f} ms CPU", "tens of ms", found.prune_s <= 0.05),
        Row("pruned after another commit", f"{found.pruned_after_increment_s * 1e3:.1f} ms CPU"),
        Row("peak memory", f"{found.peak_mb:.0f} MB", "< 400 MB", found.peak_mb < 400),
    ]


def _in_own_process(folder: Path, who: str) -> bytes:
    return subprocess.run([sys.executable, "-m", "bench.snapshots", who, str(folder)], check=True, stdout=-1).stdout


# --- the table --------------------------------------------------------------------------------------


def write_table(folder: Path) -> None:
    """Writes 100 commits of 1,000 files each, and deltalake's checkpoint of the first 90."""
    from deltalake import DeltaTable

    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version in range(COMMITS):
        (log / f"{version:020}.json").write_bytes(commit(version, FILES))
        if version == CHECKPOINT:
            DeltaTable(folder).create_checkpoint()


def commit(version: int, count: int) -> bytes:
    actions: list[Any] = [{"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}}]
    if version == 0:
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS.items()]
        described = {"id": str(UUID(int=1)), "format": {"provider": "parquet", "options": {}}, "configuration": {}}
        described |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": ["day"]}
        actions += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": described}]
    actions += [{"add": _add(version * FILES + number)} for number in range(count)]
    return b"\n".join(map(msgspec.json.encode, actions))


def _add(number: int) -> dict[str, Any]:
    chance = random.Random(number)
    first, day = number * 1_000, f"2024-{number % 12 + 1:02}-{number % 28 + 1:02}"
    least = {"id": first, "name": f"name-{first:012}", "price": chance.random(), "at": "2024-01-01T00:00:00.000Z"}
    most = {"id": first + 999, "name": f"name-{first + 999:012}", "price": 9.9, "at": "2024-01-01T23:59:59.999Z"}
    stats = {"numRecords": 1_000, "minValues": least, "maxValues": most, "nullCount": dict.fromkeys(least, 0)}
    return {
        "path": f"day={day}/part-{number:05}-{UUID(int=chance.getrandbits(128))}-c000.snappy.parquet",
        "partitionValues": {"day": day},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }


# --- measured in a separate process -------------------------------------------------------------------


async def _cpu_of(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    before = time.process_time()
    result = await work()
    return time.process_time() - before, result


async def _ours(folder: Path) -> dict[str, float]:
    import moorage.snapshots.states  # noqa: F401 - the cost of a snapshot must not include loading Arrow
    from moorage.snapshots.predicates import And, Compare
    from moorage.snapshots.snapshots import Snapshots
    from moorage.snapshots.table_ref import Ratified, TableRef
    from moorage.storage.local import LocalStorage

    snapshots = Snapshots(LocalStorage(folder))
    location, last = f"file://{folder}/", COMMITS - 1

    async def at(version: int, count: int = 0) -> float:
        ratified = (Ratified(version=version, data=commit(version, count)),) if version > last else ()
        ref = TableRef(id="bench", location=location, head=version, ratified=ratified)
        cost, found = await _cpu_of(lambda: snapshots.at(ref))
        newest[0] = found
        return cost

    newest: list[Any] = [None]
    cold = await at(last)
    increments = [await at(last + step, FILES) for step in range(1, 11)]
    small = [await at(last + step, 10) for step in range(11, 21)]
    where = And((Compare(("id",), ">=", 50_000_000), Compare(("day",), "=", date(2024, 3, 3))))
    first, _ = await _cpu_of(lambda: snapshots.files(newest[0], where))
    again, _ = await _cpu_of(lambda: snapshots.files(newest[0], where))
    await at(last + 21, FILES)
    after, _ = await _cpu_of(lambda: snapshots.files(newest[0], where))
    return {
        "cold_s": cold,
        "increment_s": median(increments),
        "slowest_increment_s": max(increments),
        "small_increment_s": median(small),
        "first_prune_s": first,
        "prune_s": again,
        "pruned_after_increment_s": after,
        "peak_mb": _peak_mb(),
    }


def _peak_mb() -> float:
    # Not getrusage: a child starts with the peak of the process that forked it.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _theirs(folder: Path) -> dict[str, float]:
    from deltalake import DeltaTable

    before = time.process_time()
    DeltaTable(folder).get_add_actions()
    return {"by_deltalake_s": time.process_time() - before}


if __name__ == "__main__":
    who, where = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(asyncio.run(_ours(where)) if who == "ours" else _theirs(where)))
