"""Iceberg tables over HTTP: the server's CPU for each kind of request, and concurrent writers of one table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.lines import Cost, Line, Request, Watch, cpu_ms, deal, measure, measure_shares
from bench.load import Server, serving
from bench.report import Row, against

OURS = "/iceberg/v1/bench/namespaces"
_COUNT = 100
_WRITERS = 16
_WRITE_SECONDS = 4.0
_MANY_SNAPSHOTS = 10_000
_LIMITS_MS = {"create": 0.7, "set a property": 0.5, "add a snapshot": 0.5, "load": 0.1}
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


def _property_of(path: str, value: int) -> Request:
    return "POST", path, _set("v", value)


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


class _ConcurrentWriters:
    """Concurrent writers of one table: the responses that they got, and the latencies."""

    cost: Cost
    """Per accepted commit, including the cost of refused ones."""

    def __init__(self, server: Server, prefix: str, path: str) -> None:
        self._server, self._prefix, self._path = server, prefix, path
        self.accepted = self.refused = 0
        self._waited: list[float] = []

    async def set_properties(self, seconds: float) -> None:
        async def write(line: Line, writer: int) -> None:
            count = 0
            while time.monotonic() < end:
                count += 1
                await self._ask(line, _set(f"p{writer}", count))

        end = time.monotonic() + seconds
        await self._run("writers of properties", write)

    async def append(self, seconds: float) -> None:
        async def write(line: Line, writer: int) -> None:
            head = 0
            while time.monotonic() < end:
                if await self._ask(line, _append(head + 1, head or None)):
                    head += 1
                else:  # as every client does after a conflict
                    answer = await line.done("GET", self._path)
                    head = msgspec.json.decode(answer, type=_Table).metadata.current_snapshot_id

        end = time.monotonic() + seconds
        await self._run("writers of snapshots", write)

    async def _run(self, what: str, write: Any) -> None:
        lines = [await Line(self._server.url, self._prefix).open() for _ in range(_WRITERS)]
        watch = Watch(self._server)
        await asyncio.gather(*(write(line, writer) for writer, line in enumerate(lines)))
        self.cost = watch.cost(what, len(lines), self.accepted)

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


class IcebergLoad:
    """The same requests for any Iceberg REST catalog. `prefix` is the path of its namespaces."""

    def __init__(self, server: Server, prefix: str, *, rounds: int = 5, crowd_seconds: float = _WRITE_SECONDS) -> None:
        self._server, self._prefix = server, prefix
        self._rounds, self._crowd_seconds = rounds, crowd_seconds

    async def costs(self, turn: int) -> list[Cost]:
        """Returns the cost of each kind of request, on tables that no other turn uses."""
        tables = await self.make_namespace(f"turn{turn}")
        requests = await self.requests(tables)
        hot, raced = await self.crowds(tables)
        return [*requests, hot.cost, raced.cost]

    async def make_namespace(self, name: str) -> str:
        """Creates a namespace, and returns the path of its tables."""
        line = await Line(self._server.url, self._prefix).open()
        await line.done("POST", "", {"namespace": [name]})
        return f"/{name}/tables"

    async def tables(self, name: str) -> list[Callable[[int], Request]]:
        """Creates tables in the catalog `bench`, and returns for each what sets a property of it."""
        tables = await self.make_namespace(name)
        line = await Line(self._server.url, self._prefix).open()
        for number in range(_COUNT):
            await line.done("POST", tables, {"name": f"t{number}", "schema": _SCHEMA})
        return [partial(_property_of, f"{tables}/t{number}") for number in range(_COUNT)]

    async def requests(self, tables: str) -> list[Cost]:
        return [cost for clients in (1, _WRITERS) for cost in await self._requests(tables, clients)]

    async def _requests(self, tables: str, clients: int) -> list[Cost]:
        names, rounds = [f"t{clients}x{number}" for number in range(_COUNT)], range(self._rounds)
        paths = [f"{tables}/{name}" for name in names]
        creates = [("POST", tables, {"name": name, "schema": _SCHEMA}) for name in names]
        loads = [("GET", path, None) for path in paths] * 20
        lists = [("GET", f"{tables}?pageToken=&pageSize=100", None)] * 100
        sets = deal(clients, paths, rounds, _property_of)
        appends = deal(clients, paths, rounds, lambda path, n: ("POST", path, _append(n + 1, n or None)))
        server, prefix = self._server, self._prefix
        return [
            await measure(server, prefix, "create", clients, creates),
            await measure_shares(server, prefix, "set a property", sets),
            await measure_shares(server, prefix, "add a snapshot", appends),
            await measure(server, prefix, "load", clients, loads),
            await measure(server, prefix, "list 100 tables", clients, lists),
        ]

    async def crowds(self, tables: str) -> tuple[_ConcurrentWriters, _ConcurrentWriters]:
        """Sixteen writers set properties of one table, then sixteen add snapshots to another."""
        line = await Line(self._server.url, self._prefix).open()
        for name in ("hot", "raced"):
            await line.done("POST", tables, {"name": name, "schema": _SCHEMA})
        hot, raced = (_ConcurrentWriters(self._server, self._prefix, f"{tables}/{name}") for name in ("hot", "raced"))
        await hot.set_properties(self._crowd_seconds)
        await raced.append(self._crowd_seconds)
        return hot, raced


async def _large(server: Server, tables: str) -> list[Row]:
    """Measures that the cost of one more snapshot grows at most with the size of the metadata."""
    line = await Line(server.url, OURS).open()
    await line.done("POST", tables, {"name": "large", "schema": _SCHEMA})
    path, last, took = f"{tables}/large", 0, []
    for many in (_MANY_SNAPSHOTS // 10, _MANY_SNAPSHOTS):
        updates = [update for id in range(last + 1, many + 1) for update in _snapshot(id, id - 1 or None)]
        await line.done("POST", path, {"requirements": [], "updates": updates})
        last = many + 10
        appends = [("POST", path, _append(id, id - 1)) for id in range(many + 1, last + 1)]
        took.append(await cpu_ms(server, OURS, 1, appends))
    few, lot = took
    return [
        Row("one more snapshot after 1,000", f"{few:.1f} ms CPU"),
        Row("one more snapshot after 10,000", f"{lot:.1f} ms CPU", "≤ 15 × that", lot <= 15 * few),
    ]


async def make_catalog(server: Server) -> None:
    console = await Line(server.url, "/api/moorage/v1").open()
    await console.done("POST", "/catalogs", {"name": "bench"})


async def _rows(server: Server) -> list[Row]:
    await make_catalog(server)
    load = IcebergLoad(server, OURS)
    tables = await load.make_namespace("sea")
    requests = await load.requests(tables)
    hot, raced = await load.crowds(tables)
    return [
        *(against(cost, _LIMITS_MS.get(cost.what)) for cost in requests),
        Row("16 writers of properties", f"{hot.cost.per_second:,.0f}/s", "≥ 570/s", hot.cost.per_second >= 570),
        Row("their conflicts", str(hot.refused), "0", hot.refused == 0),
        Row("their p99", f"{hot.p99_ms:.1f} ms", "< 100 ms", hot.p99_ms < 100),
        Row("16 writers of snapshots", f"{raced.cost.per_second:,.0f}/s", "≥ 500/s", raced.cost.per_second >= 500),
        against(raced.cost, 1.5),
        Row("their conflicts", str(raced.refused)),
        *await _large(server, tables),
    ]


def iceberg_rows(folder: Path) -> list[Row]:
    with serving(folder) as server:  # with chores: making metadata files durable is part of the cost
        return asyncio.run(_rows(server))
