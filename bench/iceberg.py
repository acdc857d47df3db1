"""Iceberg tables over HTTP: the server's CPU for each kind of request, and a crowd at one table."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.lines import Line, cpu_ms
from bench.load import Server, serving
from bench.report import Row

_PREFIX = "/iceberg/v1/bench/namespaces"
_TABLES = "/sea/tables"
_COUNT = 100
_ROUNDS = 5
_CROWD = 16
_CROWD_SECONDS = 4.0
_MANY_SNAPSHOTS = 10_000
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "city", "required": False, "type": "string"},
        {"id": 3, "name": "at", "required": False, "type": "timestamptz"},
    ],
}


def _set(name: str, value: int) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {name: str(value)}}]}


def _snapshot(id: int, parent: int | None) -> list[dict[str, Any]]:
    snapshot = {
        "snapshot-id": id,
        "sequence-number": id,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"file:///data/metadata/snap-{id}.avro",
        "summary": {"operation": "append", "added-records": "100", "total-records": str(100 * id)},
        "schema-id": 0,
        **({} if parent is None else {"parent-snapshot-id": parent}),
    }
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id}
    return [{"action": "add-snapshot", "snapshot": snapshot}, ref]


def _append(id: int, parent: int | None) -> dict[str, Any]:
    at = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}
    return {"requirements": [at], "updates": _snapshot(id, parent)}


class _Metadata(msgspec.Struct, rename="kebab"):
    current_snapshot_id: int = 0


class _Table(msgspec.Struct):
    metadata: _Metadata


class _Crowd:
    """Writers at one table for a while: what each heard, and how long it took."""

    def __init__(self, server: Server, path: str) -> None:
        self._server, self._path = server, path
        self.accepted = self.refused = 0
        self._waited: list[float] = []

    async def set_properties(self) -> None:
        async def write(line: Line, writer: int) -> None:
            count = 0
            while time.monotonic() < end:
                count += 1
                await self._ask(line, _set(f"p{writer}", count))

        end = time.monotonic() + _CROWD_SECONDS
        await self._run(write)

    async def append(self) -> None:
        async def write(line: Line, writer: int) -> None:
            head = 0
            while time.monotonic() < end:
                if await self._ask(line, _append(head + 1, head or None)):
                    head += 1
                else:  # as every client does after a conflict
                    answer = await line.done("GET", self._path)
                    head = msgspec.json.decode(answer, type=_Table).metadata.current_snapshot_id

        end = time.monotonic() + _CROWD_SECONDS
        await self._run(write)

    async def _run(self, write: Any) -> None:
        lines = [await Line(self._server.url, _PREFIX).open() for _ in range(_CROWD)]
        await asyncio.gather(*(write(line, writer) for writer, line in enumerate(lines)))

    async def _ask(self, line: Line, body: Any) -> bool:
        started = time.monotonic()
        status, answer = await line.ask("POST", self._path, body)
        self._waited.append(time.monotonic() - started)
        if status not in (200, 409):
            raise RuntimeError(f"{status} {answer.decode()}")
        self.accepted += status == 200
        self.refused += status == 409
        return status == 200

    @property
    def p99_ms(self) -> float:
        return 1000 * sorted(self._waited)[int(len(self._waited) * 0.99)]

    @property
    def per_second(self) -> float:
        return self.accepted / _CROWD_SECONDS


async def _requests(server: Server) -> list[Row]:
    rows = []
    for clients in (1, _CROWD):
        tables = [f"t{clients}x{number}" for number in range(_COUNT)]
        creates = [("POST", _TABLES, {"name": name, "schema": _SCHEMA}) for name in tables]
        paths = [f"{_TABLES}/{name}" for name in tables]
        commits = [("POST", path, _set("v", n)) for n in range(_ROUNDS) for path in paths]
        appends = [("POST", path, _append(n + 1, n or None)) for n in range(_ROUNDS) for path in paths]
        for what, requests, limit in (
            ("create", creates, 0.7),
            ("set a property", commits, 0.5),
            ("add a snapshot", appends, 0.5),
            ("load", [("GET", path, None) for path in paths] * 20, 0.1),
        ):
            cpu = await cpu_ms(server, _PREFIX, clients, requests)
            rows.append(Row(f"{what}, {clients} clients", f"{cpu:.3f} ms CPU", f"≤ {limit} ms", cpu <= limit))
    return rows


async def _crowds(server: Server, line: Line) -> list[Row]:
    for name in ("hot", "raced"):
        await line.done("POST", _TABLES, {"name": name, "schema": _SCHEMA})
    hot, raced = _Crowd(server, f"{_TABLES}/hot"), _Crowd(server, f"{_TABLES}/raced")
    await hot.set_properties()
    await raced.append()
    return [
        Row("16 writers of properties", f"{hot.per_second:,.0f}/s", "≥ 570/s", hot.per_second >= 570),
        Row("their conflicts", str(hot.refused), "0", hot.refused == 0),
        Row("their p99", f"{hot.p99_ms:.1f} ms", "< 100 ms", hot.p99_ms < 100),
        Row("16 writers of snapshots", f"{raced.per_second:,.0f}/s", "≥ 250/s", raced.per_second >= 250),
        Row("their conflicts", str(raced.refused)),
    ]


async def _large(server: Server, line: Line) -> list[Row]:
    """What one more snapshot costs a table that has many: no more than they weigh."""
    await line.done("POST", _TABLES, {"name": "large", "schema": _SCHEMA})
    path, last, took = f"{_TABLES}/large", 0, []
    for many in (_MANY_SNAPSHOTS // 10, _MANY_SNAPSHOTS):
        updates = [update for id in range(last + 1, many + 1) for update in _snapshot(id, id - 1 or None)]
        await line.done("POST", path, {"requirements": [], "updates": updates})
        last = many + 10
        appends = [("POST", path, _append(id, id - 1)) for id in range(many + 1, last + 1)]
        took.append(await cpu_ms(server, _PREFIX, 1, appends))
    few, lot = took
    return [
        Row("one more snapshot after 1,000", f"{few:.1f} ms CPU"),
        Row("one more snapshot after 10,000", f"{lot:.1f} ms CPU", "≤ 15 × that", lot <= 15 * few),
    ]


async def _rows(server: Server) -> list[Row]:
    console = await Line(server.url, "/api/moorage/v1").open()
    await console.ask("POST", "/catalogs", {"name": "bench"})
    line = await Line(server.url, _PREFIX).open()
    await line.done("POST", "", {"namespace": ["sea"]})
    return [*await _requests(server), *await _crowds(server, line), *await _large(server, line)]


def iceberg_rows(folder: Path) -> list[Row]:
    with serving(folder) as server:  # with its chores: what they do for durable files belongs to the price
        return asyncio.run(_rows(server))
