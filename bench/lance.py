"""Lance tables over HTTP: the server's CPU for each kind of request, at one client and at sixteen."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from bench.lines import Line, cpu_ms
from bench.load import Server, serving
from bench.report import Row
from moorage.testing import lance_writer as write

_LANCE = "/lance/v1"
_TABLES = 100
_ROUNDS = 5
_BATCH = 10
_RACE_VERSIONS = 60
_MANY = 100_000
_DECLARED_AT_ONCE = 1_000


class _Table:
    def __init__(self, name: str, location: str) -> None:
        self.id, self.location = ["bench", "sea", name], location
        self.path = f"/table/bench%24sea%24{name}"

    def version(self, version: int) -> tuple[str, str, Any]:
        return (
            "POST",
            f"{self.path}/version/create?delimiter=%24",
            {"id": self.id, **write.stage(self.location, version)},
        )

    def item(self, version: int) -> dict[str, Any]:
        return {"create_table_version": {"id": self.id, **write.stage(self.location, version)}}


async def _declare(line: Line, names: list[str], space: str = "sea") -> list[_Table]:
    operations = [{"declare_table": {"id": ["bench", space, name]}} for name in names]
    answer = json.loads(await line.done("POST", "/table/batch-commit", {"operations": operations}))
    places = [result["declare_table"]["location"] for result in answer["results"]]
    return [_Table(name, place) for name, place in zip(names, places, strict=True)]


async def _race(server: Server, table: _Table) -> tuple[float, float]:
    """Sixteen writers on one table: CPU for each accepted version, losers included, and versions a second."""
    latest = 0

    async def write_on(line: Line) -> None:
        nonlocal latest
        while (version := latest + 1) <= _RACE_VERSIONS:
            status, _ = await line.ask(*table.version(version))
            if status == 409:
                found = await line.done("POST", f"{table.path}/version/list?limit=1&descending=true")
                latest = json.loads(found)["versions"][0]["version"]
            else:
                latest = max(latest, version)

    lines = [await Line(server.url, _LANCE).open() for _ in range(16)]
    before, started = server.cpu_seconds(), time.monotonic()
    await asyncio.gather(*map(write_on, lines))
    return 1000 * (server.cpu_seconds() - before) / latest, latest / (time.monotonic() - started)


async def _requests(line: Line, server: Server, tables: list[_Table]) -> list[Row]:
    rows, version = [], 1
    for clients in (1, 16):
        versions = range(version, version + _ROUNDS)
        version += _ROUNDS
        created = [table.version(v) for v in versions for table in tables]
        described = [("POST", f"{table.path}/describe?delimiter=%24", {"id": table.id}) for table in tables]
        listed = [("POST", f"{table.path}/version/list?limit=1&descending=true", None) for table in tables]
        declared: list[tuple[str, str, Any]] = [
            ("POST", f"/table/bench%24sea%24new{clients}-{n}/declare", {}) for n in range(300)
        ]
        for what, requests, limit in (
            ("create version, distinct tables", created, 0.25),
            ("describe table", described * 10, 0.12),
            ("list the newest version", listed * 10, None),
            ("declare table", declared, 0.3),
        ):
            cpu = await cpu_ms(server, _LANCE, clients, requests)
            promised = ("", None) if limit is None else (f"≤ {limit} ms", cpu <= limit)
            rows.append(Row(f"{what}, {clients} clients", f"{cpu:.3f} ms CPU", *promised))
    return rows


async def _batches(server: Server, tables: list[_Table], version: int) -> Row:
    """Both in turn, and the best of each: a disk that is busy for a moment would be counted to one of them."""
    batches = [tables[start : start + _BATCH] for start in range(0, len(tables), _BATCH)]
    alone, together = [], []
    for one in range(version, version + 4 * _ROUNDS, 4):
        alone.append(await cpu_ms(server, _LANCE, 1, [table.version(one) for table in tables]))
        posts = [
            ("POST", "/table/batch-commit", {"operations": [table.item(each) for table in batch]})
            for each in range(one + 1, one + 4)
            for batch in batches
        ]
        together.append(await cpu_ms(server, _LANCE, 1, posts))
    ratio = min(together) / min(alone)
    return Row(
        f"a batch of {_BATCH} tables against one", f"{ratio:.2f} × ({min(together):.2f} ms)", "≤ 3 ×", ratio <= 3
    )


async def _listing(line: Line, server: Server) -> Row:
    await line.done("POST", "/namespace/bench%24crowd/create", {})
    for start in range(0, _MANY, _DECLARED_AT_ONCE):
        await _declare(line, [f"t{n:06}" for n in range(start, start + _DECLARED_AT_ONCE)], "crowd")
    pages, token = [], ""
    for _ in range(30):
        path = f"/namespace/bench%24crowd/table/list?limit=100{token}"
        pages.append(("GET", path, None))
        token = f"&page_token={json.loads(await line.done('GET', path))['page_token']}"
    cpu = await cpu_ms(server, _LANCE, 1, pages * 5)
    return Row(f"list 100 of {_MANY:,} tables", f"{cpu:.3f} ms CPU", "≤ 0.5 ms", cpu <= 0.5)


async def _rows(server: Server) -> list[Row]:
    line = await Line(server.url, _LANCE).open()
    for space in ("bench", "bench%24sea"):
        await line.done("POST", f"/namespace/{space}/create", {})
    tables = await _declare(line, [f"t{number}" for number in range(_TABLES)])
    rows = await _requests(line, server, tables)
    rows.append(await _batches(server, tables, 2 * _ROUNDS + 1))
    cpu, rate = await _race(server, (await _declare(line, ["race"]))[0])
    rows.append(Row("16 writers on one table, a version", f"{cpu:.2f} ms CPU", "≤ 2 ms", cpu <= 2))
    rows.append(Row("versions of that table", f"{rate:,.0f}/s", "14/s (Lance's own server)"))
    rows.append(await _listing(line, server))
    return rows


def lance_rows(folder: Path) -> list[Row]:
    # Publishing is work of its own, and would be counted to whatever is measured two seconds later.
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        return asyncio.run(_rows(server))
