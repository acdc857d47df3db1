"""Managed Delta tables over HTTP: the server's CPU for each kind of request, at one client and at sixteen."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from bench.lines import Line, cpu_ms
from bench.load import Server, serving
from bench.report import Row
from moorage.testing import delta_writer as write

_UNITY = "/api/2.1/unity-catalog"
_PLACE = {"catalog_name": "bench", "schema_name": "sea"}
_TABLES = 100
_ROUNDS = 10
_RACE_VERSIONS = 60
_START_MS = int(time.time() * 1000) - 3_600_000


class _Table:
    def __init__(self, id: str, location: str) -> None:
        self.id, self.location, self.folder = id, location, write.folder_of(location)

    def proposal(self, version: int) -> dict[str, Any]:
        info = write.stage(self.folder, version, _START_MS + version)
        return {"table_id": self.id, "table_uri": self.location, "commit_info": info}


async def _make(line: Line, name: str) -> _Table:
    staged = json.loads(await line.done("POST", "/staging-tables", {"name": name, **_PLACE}))
    table = _Table(staged["id"], staged["staging_location"])
    properties = write.configuration(table.id)
    first = (write.commit_info(_START_MS), write.protocol(), write.metadata(properties))
    write.write_first(table.folder, *first)
    described = {"delta.lastUpdateVersion": "0", "delta.lastCommitTimestamp": str(_START_MS), **properties}
    kind = {"table_type": "MANAGED", "data_source_format": "DELTA", "storage_location": table.location}
    await line.done("POST", "/tables", {"name": name, **_PLACE, **kind, "properties": described})
    return table


async def _race(server: Server, table: _Table) -> tuple[float, float]:
    """Sixteen writers on one table: CPU for each ratified version, losers included, and versions a second."""
    latest = 0

    async def write_on(line: Line) -> None:
        nonlocal latest
        while (version := latest + 1) <= _RACE_VERSIONS:
            status, _ = await line.ask("POST", "/delta/commit", table.proposal(version))
            if status == 409:
                asked = f"/delta/commits?table_id={table.id}&start_version={version}"
                latest = json.loads(await line.done("GET", asked))["latest_table_version"]
            else:
                latest = max(latest, version)

    lines = [await Line(server.url, _UNITY).open() for _ in range(16)]
    before, started = server.cpu_seconds(), time.monotonic()
    await asyncio.gather(*map(write_on, lines))
    return 1000 * (server.cpu_seconds() - before) / latest, latest / (time.monotonic() - started)


async def _rows(server: Server) -> list[Row]:
    line = await Line(server.url, _UNITY).open()
    await line.done("POST", "/catalogs", {"name": "bench"})
    await line.done("POST", "/schemas", {"name": "sea", "catalog_name": "bench"})
    tables = [await _make(line, f"t{number}") for number in range(_TABLES)]
    rows, version = [], 1
    for clients in (1, 16):
        versions = range(version, version + _ROUNDS)
        version += _ROUNDS
        commits = [("POST", "/delta/commit", table.proposal(v)) for v in versions for table in tables]
        names = [("GET", f"/tables/bench.sea.t{number}", None) for number in range(_TABLES)]
        asked = [("GET", f"/delta/commits?table_id={table.id}&start_version={version - 1}", None) for table in tables]
        listed = [("GET", "/tables?catalog_name=bench&schema_name=sea", None)] * 200
        for what, requests, limit in (
            ("commit, distinct tables", commits, 0.2),
            ("get table", names * 20, 0.1),
            ("get commits", asked * 20, 0.1),
            ("list 100 tables", listed, 0.5),
        ):
            cpu = await cpu_ms(server, _UNITY, clients, requests)
            rows.append(Row(f"{what}, {clients} clients", f"{cpu:.3f} ms CPU", f"≤ {limit} ms", cpu <= limit))
    cpu, rate = await _race(server, await _make(line, "race"))
    rows.append(Row("16 writers on one table, a version", f"{cpu:.2f} ms CPU", "≤ 2 ms", cpu <= 2))
    rows.append(Row("versions of that table", f"{rate:,.0f}/s"))
    return rows


def delta_rows(folder: Path) -> list[Row]:
    # Publishing is work of its own, and would be counted to whatever is measured two seconds later.
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        return asyncio.run(_rows(server))
