"""Requests to a warehouse of 10,000 namespaces and 100,000 Iceberg tables cost the same as to a small one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bench.lines import Line, cpu_ms
from bench.load import Server, serving
from bench.report import Row

_PREFIX = "/iceberg/v1/bench"
_TABLES_EACH = 10
_FEW, _MANY = 500, 10_000
_CLIENTS = 16
_ASKED = 500
_STRIDE = 7919
"""A prime: each request is for an object far from the previous one, and no object is requested twice."""
_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}


async def _fill(server: Server, namespaces: range) -> None:
    console = await Line(server.url, "/api/moorage/v1").open()
    await console.ask("POST", "/catalogs", {"name": "bench"})
    waiting = iter(namespaces)

    async def work(line: Line) -> None:
        for n in waiting:
            await line.done("POST", "/namespaces", {"namespace": [f"n{n}"]})
            for table in range(_TABLES_EACH):
                await line.done("POST", f"/namespaces/n{n}/tables", {"name": f"t{table}", "schema": _SCHEMA})

    lines = [await Line(server.url, _PREFIX).open() for _ in range(_CLIENTS)]
    await asyncio.gather(*map(work, lines))


def _requests(namespaces: int) -> dict[str, list[tuple[str, str, Any]]]:
    spaces = [f"/namespaces/n{number * _STRIDE % namespaces}" for number in range(_ASKED)]
    tables = [f"{space}/tables/t{number % _TABLES_EACH}" for number, space in enumerate(spaces)]
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"v": "1"}}]}
    return {
        "load a table": [("GET", table, None) for table in tables],
        "set a property": [("POST", table, update) for table in tables],
        "create a table": [
            ("POST", f"{space}/tables", {"name": f"new{namespaces}-{number}", "schema": _SCHEMA})
            for number, space in enumerate(spaces)
        ],
        "list the tables of a namespace": [("GET", f"{space}/tables", None) for space in spaces],
        "list 100 namespaces": [("GET", "/namespaces?pageToken=&pageSize=100", None)] * _ASKED,
    }


async def _costs(server: Server, namespaces: int) -> dict[str, float]:
    return {what: await cpu_ms(server, _PREFIX, _CLIENTS, requests) for what, requests in _requests(namespaces).items()}


def flat_rows(folder: Path) -> list[Row]:
    few, many = _costs_after_adding(folder, range(_FEW)), _costs_after_adding(folder, range(_FEW, _MANY))
    return [
        Row(what, f"{few[what]:.3f} → {many[what]:.3f} ms CPU", "≤ 1.5 × that", many[what] <= 1.5 * few[what])
        for what in few
    ]


def _costs_after_adding(folder: Path, namespaces: range) -> dict[str, float]:
    """Adds these namespaces to the warehouse, and returns what requests then cost a server that has just started."""
    with serving(folder) as server:
        asyncio.run(_fill(server, namespaces))
    # Chores are off: publishing would be counted in whatever is measured two seconds later.
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        return asyncio.run(_costs(server, namespaces.stop))
