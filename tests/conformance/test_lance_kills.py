"""Batches over five Lance tables while the server is killed: each changes all five or none, and only once."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.testing import lance_writer as write
from moorage.testing.server import ServerProcess
from tests.api.house import done
from tests.api.lance.lake import LANCE, create, declare

SECONDS = 300.0 if os.environ.get("MOORAGE_SOAK") else 6.0
"""The minimum time that the writers write. A slow machine takes longer, until `MIN_KILLS` kills have happened."""
MIN_KILLS = 3
WRITERS = 4
NAMES = [f"lake$sea$t{n}" for n in range(5)]


class Fleet:
    """Writers and readers that retry until there is a response."""

    def __init__(self, server: ServerProcess, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        self.locations: list[str] = []
        self.acknowledged: dict[int, list[str]] = {}
        self.stop = False

    async def send(self, path: str, body: Any = None, **query: Any) -> httpx.Response:
        """A refused or broken connection leaves the outcome unknown: the same request is sent again."""
        while True:
            try:
                answer = await self.http.post(self.server.url + LANCE + path, json=body, params=query)
            except httpx.TransportError:
                await asyncio.sleep(0.02)
                continue
            if answer.status_code < 500:
                return answer

    async def create_tables(self) -> None:
        for id in ("lake", "lake$sea"):
            done(await self.send(f"/namespace/{id}/create", {"mode": "ExistOk"}))
        declared = done(await self.send("/table/batch-commit", {"operations": [declare(name) for name in NAMES]}))
        self.locations = [result["declare_table"]["location"] for result in declared["results"]]

    async def tags(self, name: str) -> dict[int, str]:
        """The e_tag of each version of a table."""
        found: dict[int, str] = {}
        query: dict[str, Any] = {}
        while query.get("page_token", "first"):
            page = done(await self.send(f"/table/{name}/version/list", **query))
            found |= {each["version"]: each["e_tag"] for each in page["versions"]}
            query = {"page_token": page.get("page_token", "")}
        return found

    async def head(self, name: str) -> int:
        listed = done(await self.send(f"/table/{name}/version/list", limit=1, descending=True))
        return max((each["version"] for each in listed["versions"]), default=0)

    async def write(self, number: int) -> None:
        """Each writer names the tables in another order, so that locks taken in that order would block."""
        order = NAMES[number:] + NAMES[:number]
        while not self.stop:
            version = await self.head(order[0]) + 1
            staged = {
                name: write.stage(location, version) for name, location in zip(NAMES, self.locations, strict=True)
            }
            answer = await self.send(
                "/table/batch-commit", {"operations": [create(name, staged[name]) for name in order]}
            )
            if answer.status_code == 200:
                e_tags = [staged[name]["e_tag"] for name in NAMES]
                assert self.acknowledged.setdefault(version, e_tags) == e_tags
            else:
                assert (answer.status_code, answer.json()["code"]) == (409, 14), answer.text

    async def read(self) -> int:
        """A table that is read later is never behind one that was read before."""
        rounds = 0
        while not self.stop:
            order = NAMES if rounds % 2 else NAMES[::-1]
            heads = [await self.head(name) for name in order]
            assert heads == sorted(heads)
            rounds += 1
        return rounds


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_five_tables_change_together_though_the_server_is_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            fleet = Fleet(server, http)
            await fleet.create_tables()
            work = [asyncio.create_task(fleet.write(number)) for number in range(WRITERS)]
            reader = asyncio.create_task(fleet.read())
            until, kills = time.monotonic() + SECONDS, 0
            while time.monotonic() < until or kills < MIN_KILLS:
                await asyncio.sleep(0.7)
                await asyncio.to_thread(server.restart)
                kills += 1
            fleet.stop = True
            await asyncio.gather(*work)
            assert await reader > 0
            found = [await fleet.tags(name) for name in NAMES]
    latest = max(found[0])
    assert sorted(fleet.acknowledged) == list(range(1, latest + 1))
    for version, e_tags in fleet.acknowledged.items():
        assert [tags[version] for tags in found] == e_tags
    assert all(sorted(tags) == list(range(1, latest + 1)) for tags in found)
