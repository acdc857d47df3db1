"""Managed Delta tables over HTTP: the server's CPU for each kind of request, with one client and with sixteen."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.lines import Cost, Line, Request, Watch, deal, measure, measure_shares
from bench.load import Server, serving
from bench.report import Row, against
from moorage.testing import delta_writer as write

UNITY = "/api/2.1/unity-catalog"
_TABLES = 100
_VERSIONS = 10
"""Per table. Unity Catalog's own server accepts no more before they are published."""
_RACES = 6
_START_MS = int(time.time() * 1000) - 3_600_000
_FIELD = json.dumps({"name": "id", "type": "long", "nullable": True, "metadata": {}})
_COLUMN = {"name": "id", "type_text": "bigint", "type_json": _FIELD, "type_name": "LONG", "position": 0}
_LIMITS_MS = {"commit, distinct tables": 0.2, "get table": 0.1, "get commits": 0.1, "list 100 tables": 0.5}


class _Table:
    """One managed table. `preview` selects the older APIs, which Unity Catalog's own server also implements."""

    def __init__(self, id: str, location: str, *, preview: bool) -> None:
        self.id, self.location, self.folder = id, location, write.folder_of(location)
        self._preview = preview

    def commit(self, version: int) -> Request:
        info = write.stage(self.folder, version, _START_MS + version)
        proposal = {"table_id": self.id, "table_uri": self.location, "commit_info": info}
        return "POST", "/delta/preview/commits" if self._preview else "/delta/commit", proposal

    def commits_from(self, version: int) -> Request:
        if self._preview:
            asked = {"table_id": self.id, "table_uri": self.location, "start_version": version}
            return "GET", "/delta/preview/commits", asked
        return "GET", f"/delta/commits?table_id={self.id}&start_version={version}", None


class DeltaLoad:
    """The same requests for any server that implements Unity's API."""

    def __init__(self, server: Server, *, preview: bool = False) -> None:
        self._server, self._preview = server, preview

    async def costs(self, turn: int = 0) -> list[Cost]:
        """Returns the cost of each kind of request, on tables that no other turn and no earlier run uses."""
        schema = f"run{_START_MS}_{turn}"
        line = await Line(self._server.url, UNITY).open()
        await line.ask("POST", "/catalogs", {"name": "bench"})
        alone = await self._requests(f"{schema}_1", 1)
        together = await self._requests(f"{schema}_16", 16)
        raced, _ = await self._schema(f"{schema}_race", _RACES)
        return [*alone, *together, await self._race(raced)]

    async def tables(self, schema: str) -> list[Callable[[int], Request]]:
        """Creates tables, and returns for each what commits one of its versions."""
        line = await Line(self._server.url, UNITY).open()
        await line.ask("POST", "/catalogs", {"name": "bench"})
        return [table.commit for table in (await self._schema(schema, _TABLES))[0]]

    async def _requests(self, schema: str, clients: int) -> list[Cost]:
        # One client for Unity Catalog's own server: concurrent creation of tables was not tested there.
        tables, created = await self._schema(schema, _TABLES, 1 if self._preview else clients)
        commits = deal(clients, tables, range(1, _VERSIONS + 1), _Table.commit)
        names = [("GET", f"/tables/bench.{schema}.t{number}", None) for number in range(_TABLES)]
        asked = [table.commits_from(_VERSIONS) for table in tables]
        listed = [("GET", f"/tables?catalog_name=bench&schema_name={schema}", None)]
        reads = (("get table", names * 20), ("get commits", asked * 20), ("list 100 tables", listed * 200))
        return [
            created,
            await measure_shares(self._server, UNITY, "commit, distinct tables", commits),
            *[await measure(self._server, UNITY, what, clients, requests) for what, requests in reads],
        ]

    async def _race(self, tables: list[_Table]) -> Cost:
        """Sixteen writers on one table, then on the next: CPU per ratified version, including lost races.

        Unity Catalog's own server answers some of these with an internal error, which quotes that of PostgreSQL.
        """
        latest = [0] * len(tables)

        async def write_on(line: Line) -> None:
            for index, table in enumerate(tables):
                while (version := latest[index] + 1) <= _VERSIONS:
                    status, answer = await line.ask(*table.commit(version))
                    if status == 200:
                        latest[index] = max(latest[index], version)
                    elif status == 409 or b"duplicate key" in answer:
                        found = json.loads(await line.done(*table.commits_from(version)))
                        latest[index] = max(latest[index], found["latest_table_version"])
                    else:
                        raise RuntimeError(f"version {version} of a raced table failed: {status} {answer.decode()}")

        lines = [await Line(self._server.url, UNITY).open() for _ in range(16)]
        watch = Watch(self._server)
        await asyncio.gather(*map(write_on, lines))
        return watch.cost("writers of one table, per version", len(lines), sum(latest))

    async def _schema(self, schema: str, tables: int, clients: int = 1) -> tuple[list[_Table], Cost]:
        """Creates tables in a new schema, each with two requests; returns them and the cost per table."""
        lines = [await Line(self._server.url, UNITY).open() for _ in range(clients)]
        await lines[0].done("POST", "/schemas", {"name": schema, "catalog_name": "bench"})
        parent = {"catalog_name": "bench", "schema_name": schema}

        async def make(line: Line, numbers: range) -> list[_Table]:
            return [await self._table(line, {"name": f"t{number}", **parent}) for number in numbers]

        watch = Watch(self._server)
        shares = (range(n, tables, clients) for n in range(clients))
        made = await asyncio.gather(*map(make, lines, shares))
        cost = watch.cost("stage and create a table", clients, tables)
        return [table for share in made for table in share], cost

    async def _table(self, line: Line, name: dict[str, Any]) -> _Table:
        staged = json.loads(await line.done("POST", "/staging-tables", name))
        table = _Table(staged["id"], staged["staging_location"], preview=self._preview)
        properties = write.configuration(table.id)
        first = (write.commit_info(_START_MS), write.protocol(), write.metadata(properties))
        write.write_first(table.folder, *first)
        described = {"delta.lastUpdateVersion": "0", "delta.lastCommitTimestamp": str(_START_MS), **properties}
        kind = {"table_type": "MANAGED", "data_source_format": "DELTA", "storage_location": table.location}
        await line.done("POST", "/tables", {**name, **kind, "columns": [_COLUMN], "properties": described})
        return table


def delta_rows(folder: Path) -> list[Row]:
    # Chores are off: publishing would be counted in whatever is measured two seconds later.
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        *requests, race = asyncio.run(DeltaLoad(server).costs())
    return [
        *(against(cost, _LIMITS_MS.get(cost.what)) for cost in requests),
        Row("16 writers of one table, per version", f"{race.cpu_ms:.2f} ms CPU", "≤ 2 ms", race.cpu_ms <= 2),
        Row("versions of that table", f"{race.per_second:,.0f}/s"),
    ]
