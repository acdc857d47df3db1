"""Conversion of a Delta table of 100,000 files for Iceberg clients: CPU of the server process, and delays of others."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Iterator
from datetime import date, timedelta
from itertools import count, islice
from pathlib import Path
from statistics import quantiles
from typing import Any
from uuid import uuid4

import httpx

from bench.report import Row
from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.api.delta.delta_client import DeltaClient, Staged, ok

FILES, PARTITIONS, COMMITS, COMMIT_FILES, PLAIN_COMMITS = 100_000, 1_000, 30, 10, 300
_ON = {"delta.universalFormat.enabledFormats": "iceberg"}
_TYPES = {
    "day": "date",
    **{f"l{n}": "long" for n in range(3)},
    **{f"s{n}": "string" for n in range(2)},
    "at": "timestamp",
    "x": "double",
    "price": "decimal(12,2)",
    "n": "integer",
}
_COLUMNS = tuple({"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _TYPES.items())
_numbers = count(FILES)
_TABLE = "/iceberg/v1/lake/namespaces/sea/tables/"


def _add(number: int) -> dict[str, Any]:
    day = (date(2020, 1, 1) + timedelta(number % PARTITIONS)).isoformat()
    low = {"l0": number, "l1": -number, "l2": 7, "s0": f"name {number}", "s1": "a"}
    low |= {"at": "2024-01-01T00:00:00.123Z", "x": number / 2, "price": number + 0.25, "n": number % 100}
    high = {**low, "s1": "z", "at": "2024-01-02T00:00:00.123Z"}
    stats = {"numRecords": 1_000, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
    path = f"day={day}/part-{number:05d}-{uuid4()}.c000.snappy.parquet"
    return write.add(path, partitionValues={"day": day}, size=1_000_000, stats=json.dumps(stats))


def _new(files: int) -> list[dict[str, Any]]:
    return [_add(next(_numbers)) for _ in range(files)]


class _Bench:
    def __init__(self, server: ServerProcess, http: httpx.AsyncClient) -> None:
        self.server, self.http, self.delta = server, http, DeltaClient(http)
        self.start_ms = int(time.time() * 1000) - 3_600_000

    async def make(self, name: str, properties: dict[str, str]) -> Staged:
        table = await self.delta.stage(name)
        described = {"columns": _COLUMNS, "partition_columns": ("day",)}
        info = write.commit_info(self.start_ms, "CREATE TABLE")
        table.write_first(info=info, described=described, properties=properties)
        stated = {**properties, "delta.lastCommitTimestamp": str(self.start_ms)}
        ok(await self.delta.create(table, properties=stated))
        return table

    async def commit(self, table: Staged, version: int, *actions: dict[str, Any]) -> float:
        """Commit a version, and return the CPU seconds that it took."""
        info = table.stage(version, *actions, timestamp=self.start_ms + version)
        before = self.server.cpu_seconds()
        ok(await self.delta.commit(table, info))
        return self.server.cpu_seconds() - before

    async def append(self, table: Staged, versions: Iterator[int], commits: int) -> float:
        """Commit as many versions of 10 files, and return the CPU seconds of all: one is too short for its clock."""
        before = self.server.cpu_seconds()
        for version in islice(versions, commits):
            await self.commit(table, version, *_new(COMMIT_FILES))
        return self.server.cpu_seconds() - before

    async def load(self, table: Staged) -> float:
        """Load the table as an Iceberg client, and return the CPU seconds that it took."""
        before = self.server.cpu_seconds()
        ok(await self.http.get(_TABLE + table.name))
        return self.server.cpu_seconds() - before

    async def others_ms(self, done: asyncio.Event) -> list[float]:
        """The response times of short requests for another table, one after the other."""
        found = []
        while not done.is_set():
            started = time.perf_counter()
            ok(await self.http.get("/api/2.1/unity-catalog/tables/lake.sea.plain"))
            found.append((time.perf_counter() - started) * 1e3)
            await asyncio.sleep(0.002)
        return found

    async def others_during(self, work: Awaitable[object]) -> list[float]:
        """Their response times while some work runs."""
        done = asyncio.Event()
        others = asyncio.create_task(self.others_ms(done))
        await work
        done.set()
        return await others


async def _measure(server: ServerProcess) -> list[Row]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=300) as http:
        bench = _Bench(server, http)
        await bench.delta.furnish()
        table, other = await bench.make("converted", _ON), await bench.make("plain", {})
        adds = [_add(number) for number in range(FILES)]
        versions = count(1)
        await bench.append(other, versions, COMMITS)  # the first ones load modules
        unconverted = await bench.append(other, versions, PLAIN_COMMITS)
        await bench.commit(table, 1, *adds)
        before = server.cpu_seconds()
        alone = await bench.others_during(asyncio.sleep(3))
        other_cpu = (server.cpu_seconds() - before) / len(alone)
        first = asyncio.create_task(bench.load(table))
        started = time.perf_counter()
        during = await bench.others_during(first)
        first_cpu, first_s = await first - len(during) * other_cpu, time.perf_counter() - started
        appends, commits = 0.0, 0.0
        for version in range(2, 2 + COMMITS):
            commits += await bench.commit(table, version, *_new(COMMIT_FILES))
            appends += await bench.load(table)
        plain, rewrites = await bench.append(other, versions, PLAIN_COMMITS), 0.0
        for at, version in enumerate(range(2 + COMMITS, 12 + COMMITS)):
            gone = adds[at * 97 * COMMIT_FILES : (at * 97 + 1) * COMMIT_FILES]
            removed = [write.remove(each["add"]["path"]) for each in gone]
            await bench.commit(table, version, *removed, *_new(10))
            rewrites += await bench.load(table)
    append_ms, rewrite_ms = appends / COMMITS * 1e3, rewrites / 10 * 1e3
    return [
        Row("first conversion", f"{first_cpu:.2f} s CPU, {first_s:.2f} s", "≤ 3 s", first_cpu <= 3),
        Row("p99 of other requests, alone", f"{_p99(alone):.1f} ms"),
        Row("p99 of other requests meanwhile", f"{_p99(during):.1f} ms", "≤ 20 ms", _p99(during) <= 20),
        Row(f"conversion of a commit of {COMMIT_FILES} files", f"{append_ms:.1f} ms CPU", "≤ 20 ms", append_ms <= 20),
        Row("10 files in 10 partitions replaced by 10 others", f"{rewrite_ms:.0f} ms CPU"),
        Row("Delta commit to this table", f"{commits / COMMITS * 1e3:.1f} ms CPU"),
        Row(
            "Delta commit to a table without UniForm",
            f"{plain / PLAIN_COMMITS * 1e3:.1f} ms CPU, {plain / unconverted:.2f} of a server without conversions",
            "≤ 1.2",
            plain <= 1.2 * unconverted,
        ),
    ]


def _p99(found: list[float]) -> float:
    return quantiles(found, n=100)[98]


def uniform_rows(folder: Path) -> list[Row]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pandas.py").write_text('raise ImportError("requirements.lock does not have it")')
    # Arrow loads pandas if there is one, which takes most of a second. Only the environment of the tests has it.
    without_pandas = {"PYTHONPATH": str(folder)}
    flags = ("--chores-interval-seconds", "3600")
    with ServerProcess(folder / "data", flags=flags, environment=without_pandas) as server:
        return asyncio.run(_measure(server))


if __name__ == "__main__":
    import tempfile

    from bench.report import show

    with tempfile.TemporaryDirectory() as name:
        show("A Delta table of 100,000 files for Iceberg clients", uniform_rows(Path(name)))
