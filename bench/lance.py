"""Lance tables over HTTP: the server's CPU for each kind of request, with one client and with sixteen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.lines import Cost, Line, Request, Watch, cpu_ms, deal, measure, measure_shares
from bench.load import Server, serving
from bench.report import Row, against
from moorage.testing import lance_writer as write

OURS = "/lance/v1"
_TABLES = 100
_ROUNDS = 5
_BATCH = 10
_RACE_VERSIONS = 60
_MANY = 100_000
_DECLARED_PER_BATCH = 1_000
_LIMITS_MS = {"declare table": 0.3, "create version, distinct tables": 0.25, "describe table": 0.12}


class _Table:
    def __init__(self, space: str, name: str, location: str = "") -> None:
        self.id, self.location = ["bench", space, name], location
        self.path = f"/table/bench%24{space}%24{name}"

    def version(self, version: int) -> Request:
        body = {"id": self.id, **write.stage(self.location, version)}
        return "POST", f"{self.path}/version/create?delimiter=%24", body

    def item(self, version: int) -> dict[str, Any]:
        return {"create_table_version": {"id": self.id, **write.stage(self.location, version)}}

    def declare(self) -> Request:
        return "POST", f"{self.path}/declare?delimiter=%24", {"id": self.id}

    def describe(self) -> Request:
        return "POST", f"{self.path}/describe?delimiter=%24", {"id": self.id}

    def is_tidy(self) -> bool:
        """Whether no staged manifest is left: each exists only under its final name."""
        return not any((write.folder_of(self.location) / "_versions").glob("*.manifest-*"))

    def newest_version(self) -> Request:
        return "POST", f"{self.path}/version/list?limit=1&descending=true", None


class LanceLoad:
    """The same requests for any Lance namespace server. `prefix` is the path of its API.

    Lance's own server removes staged manifests within the request, ours in a chore. `with_chores` waits for the chore
    and reports its cost on a separate line.
    """

    def __init__(
        self, server: Server, prefix: str, *, declared: int = 300, rounds: int = _ROUNDS, with_chores: bool = False
    ) -> None:
        self._server, self._prefix = server, prefix
        self._declared, self._rounds, self._with_chores = declared, rounds, with_chores

    async def costs(self, turn: int = 0) -> list[Cost]:
        """Returns the cost of each kind of request, on tables that no other turn uses."""
        line = await Line(self._server.url, self._prefix).open()
        await line.ask("POST", "/namespace/bench/create", {"id": ["bench"]})
        alone = await self._requests(line, f"turn{turn}x1", 1)
        together = await self._requests(line, f"turn{turn}x16", 16)
        return [*alone, *together, await self._race(line, f"turn{turn}race")]

    async def tables(self, space: str) -> list[Callable[[int], Request]]:
        """Declares tables, and returns for each what creates one of its versions."""
        line = await Line(self._server.url, self._prefix).open()
        await line.ask("POST", "/namespace/bench/create", {"id": ["bench"]})
        await _make_namespace(line, space)
        return [table.version for table in await _declare(line, space, [f"t{number}" for number in range(_TABLES)])]

    async def crowd(self, tables: int) -> None:
        """Declares other tables, to measure requests in a catalog that is not empty."""
        line = await Line(self._server.url, self._prefix).open()
        await line.done("POST", "/namespace/crowd/create", {"id": ["crowd"]})
        for number in range(tables):
            await line.done("POST", f"/table/crowd%24t{number}/declare", {"id": ["crowd", f"t{number}"]})

    async def _requests(self, line: Line, space: str, clients: int) -> list[Cost]:
        def cost(what: str, requests: list[Request]) -> Awaitable[Cost]:
            return measure(self._server, self._prefix, what, clients, requests)

        await _make_namespace(line, space)
        names = [f"t{number}" for number in range(self._declared)]
        declared = await cost("declare table", [_Table(space, name).declare() for name in names])
        tables = [await _found(line, space, name) for name in names[:_TABLES]]
        listed = [("GET", f"/namespace/bench%24{space}/table/list?limit=100", None)]
        return [
            declared,
            *await self._create_versions(clients, tables),
            await cost("describe table", [table.describe() for table in tables] * 10),
            await cost("list the newest version", [table.newest_version() for table in tables] * 10),
            await cost("list 100 tables", listed * 100),
        ]

    async def _create_versions(self, clients: int, tables: list[_Table]) -> list[Cost]:
        versions = deal(clients, tables, range(1, self._rounds + 1), _Table.version)
        watch = Watch(self._server)
        alone = await measure_shares(self._server, self._prefix, "create version, distinct tables", versions)
        if not self._with_chores:
            return [alone]
        while not all(table.is_tidy() for table in tables):  # noqa: ASYNC110 - the disk sends no event
            await asyncio.sleep(0.05)
        return [alone, watch.cost("the same with chores", clients, self._rounds * len(tables))]

    async def _race(self, line: Line, space: str) -> Cost:
        """Sixteen writers on one table: CPU per accepted version, including lost races."""
        latest = 0

        async def write_on(line: Line) -> None:
            nonlocal latest
            while (version := latest + 1) <= _RACE_VERSIONS:
                status, answer = await line.ask(*table.version(version))
                if status == 409:
                    newest = json.loads(await line.done(*table.newest_version()))["versions"][0]["version"]
                    latest = max(latest, newest)
                elif status == 200:
                    latest = max(latest, version)
                else:
                    raise RuntimeError(f"{status} {answer.decode()}")

        await _make_namespace(line, space)
        await line.done(*_Table(space, "t").declare())
        table = await _found(line, space, "t")
        lines = [await Line(self._server.url, self._prefix).open() for _ in range(16)]
        watch = Watch(self._server)
        await asyncio.gather(*map(write_on, lines))
        return watch.cost("writers of one table, per version", len(lines), latest)


async def _make_namespace(line: Line, space: str) -> None:
    await line.done("POST", f"/namespace/bench%24{space}/create", {"id": ["bench", space]})


async def _found(line: Line, space: str, name: str) -> _Table:
    described = json.loads(await line.done(*_Table(space, name).describe()))
    return _Table(space, name, described["location"])


async def _declare(line: Line, space: str, names: list[str]) -> list[_Table]:
    operations = [{"declare_table": {"id": ["bench", space, name]}} for name in names]
    answer = json.loads(await line.done("POST", "/table/batch-commit", {"operations": operations}))
    locations = [result["declare_table"]["location"] for result in answer["results"]]
    return [_Table(space, name, location) for name, location in zip(names, locations, strict=True)]


async def _batches(line: Line, server: Server) -> Row:
    """Measures both in turns and takes the minimum of each, so that a briefly busy disk does not distort the ratio."""
    await _make_namespace(line, "batches")
    tables = await _declare(line, "batches", [f"t{number}" for number in range(_TABLES)])
    batches = [tables[start : start + _BATCH] for start in range(0, len(tables), _BATCH)]
    alone, together = [], []
    for one in range(1, 4 * _ROUNDS, 4):
        alone.append(await cpu_ms(server, OURS, 1, [table.version(one) for table in tables]))
        posts = [
            ("POST", "/table/batch-commit", {"operations": [table.item(each) for table in batch]})
            for each in range(one + 1, one + 4)
            for batch in batches
        ]
        together.append(await cpu_ms(server, OURS, 1, posts))
    ratio = min(together) / min(alone)
    return Row(
        f"a batch of {_BATCH} tables compared with one", f"{ratio:.2f} × ({min(together):.2f} ms)", "≤ 3 ×", ratio <= 3
    )


async def _listing(line: Line, server: Server) -> Row:
    await _make_namespace(line, "crowd")
    for start in range(0, _MANY, _DECLARED_PER_BATCH):
        await _declare(line, "crowd", [f"t{n:06}" for n in range(start, start + _DECLARED_PER_BATCH)])
    pages, token = [], ""
    for _ in range(30):
        path = f"/namespace/bench%24crowd/table/list?limit=100{token}"
        pages.append(("GET", path, None))
        token = f"&page_token={json.loads(await line.done('GET', path))['page_token']}"
    cpu = await cpu_ms(server, OURS, 1, pages * 5)
    return Row(f"list 100 of {_MANY:,} tables", f"{cpu:.3f} ms CPU", "≤ 0.5 ms", cpu <= 0.5)


async def _rows(server: Server) -> list[Row]:
    *requests, race = await LanceLoad(server, OURS).costs()
    line = await Line(server.url, OURS).open()
    return [
        *(against(cost, _LIMITS_MS.get(cost.what)) for cost in requests),
        await _batches(line, server),
        Row("16 writers of one table, per version", f"{race.cpu_ms:.2f} ms CPU", "≤ 2 ms", race.cpu_ms <= 2),
        Row("versions of that table", f"{race.per_second:,.0f}/s", "14/s (Lance's own server)"),
        await _listing(line, server),
    ]


def lance_rows(folder: Path) -> list[Row]:
    # Chores are off: publishing would be counted in whatever is measured two seconds later.
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        return asyncio.run(_rows(server))
