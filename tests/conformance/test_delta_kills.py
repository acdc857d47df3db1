"""Two servers on one database, sixteen writers, a reader, and repeated kills: nothing is lost or duplicated."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.testing import delta_writer as write
from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess
from moorage.usecases.delta.history import PAGE_SIZE
from tests.api.delta.delta_client import DeltaClient, Staged, ok

SECONDS = 300.0 if os.environ.get("MOORAGE_SOAK") else 8.0
"""The minimum time that the writers write. A slow machine takes longer, until `MIN_KILLS` kills have happened."""
MIN_KILLS = 3
WRITERS = 16


@pytest.fixture
def servers(tmp_path: Path, postgres: PostgresServer) -> Iterator[list[ServerProcess]]:
    """Both servers store managed tables in one folder, as with one bucket."""
    url = postgres.new_database("delta_kills")
    shared = tmp_path / "shared"
    shared.mkdir()
    both = [ServerProcess(tmp_path / name, database=url) for name in ("one", "two")]
    for server in both:
        server.data.mkdir()
        (server.data / "managed").symlink_to(shared)
    with both[0], both[1]:
        yield both
    postgres.drop_database(url)


class Fleet:
    """Clients that send requests to any server that responds, as behind a load balancer."""

    def __init__(self, servers: list[ServerProcess], http: httpx.AsyncClient) -> None:
        self.servers, self.http = servers, http
        self.ratified: dict[int, str] = {}
        self.stop = False

    async def send(self, which: int, table: Staged, *, start_version: int = 0, **sent: Any) -> httpx.Response:
        """Retry until there is a response: a broken connection leaves the outcome of a request unknown."""
        while True:
            which += 1
            client = DeltaClient(_At(self.http, self.servers[which % 2]), "spec")  # type: ignore[arg-type]
            try:
                if sent:
                    answer = await client.commit(table, **sent)
                else:
                    answer = await client.get_commits(table, start_version=start_version)
            except httpx.TransportError:
                await asyncio.sleep(0.02)
                continue
            if answer.status_code < 500:
                return answer

    async def write(self, number: int, table: Staged) -> None:
        """As Delta does: a commit reports what is published in the folder, and every other winner publishes."""
        version = 1
        while not self.stop:
            info = table.stage(version, timestamp=_time_of(version))
            listed = await asyncio.to_thread(write.published, table.folder)
            answer = await self.send(number, table, info=info, published=listed[-1] or None)
            if answer.status_code == 200:
                assert self.ratified.setdefault(version, info["file_name"]) == info["file_name"]
                if number % 2 and listed[-1] == version - 1:
                    write.publish(table.folder, info)
                version += 1
            else:
                assert answer.status_code == 409, answer.text
                version = ok(await self.send(number, table))["latest_table_version"] + 1

    async def read(self, table: Staged) -> int:
        rounds = 0
        while not self.stop:
            listed = await asyncio.to_thread(write.published, table.folder)
            seen = next(version for version, found in enumerate([*listed, None]) if found != version)
            answer = ok(await self.send(rounds, table, start_version=seen))
            returned = [info["version"] for info in answer["commits"]]
            # Also what clients published and reported since the listing.
            assert returned == list(range(seen, answer["latest_table_version"] + 1))[:PAGE_SIZE]
            rounds += 1
            await asyncio.sleep(0.01)
        return rounds


class _At:
    """An HTTP client for a server whose port may have changed."""

    def __init__(self, http: httpx.AsyncClient, server: ServerProcess) -> None:
        self._http, self._server = http, server

    async def post(self, path: str, **given: Any) -> httpx.Response:
        return await self._http.post(self._server.url + path, **given)

    async def request(self, verb: str, path: str, **given: Any) -> httpx.Response:
        return await self._http.request(verb, self._server.url + path, **given)


_START_MS = int(time.time() * 1000) - 3_600_000


def _time_of(version: int) -> int:
    return _START_MS + version


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_acknowledged_version_exists_once_and_a_reader_sees_no_gap(
    servers: list[ServerProcess],
) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        first = DeltaClient(http, "spec")
        first.http = _At(http, servers[0])  # type: ignore[assignment]
        await first.furnish()
        staged = await first.stage()
        write.write_first(
            staged.folder,
            write.commit_info(_START_MS),
            write.protocol(),
            write.metadata(write.configuration(staged.id)),
        )
        properties = {"delta.lastCommitTimestamp": str(_START_MS)}
        ok(await first.create(staged, properties=properties))
        fleet = Fleet(servers, http)
        work = [asyncio.create_task(fleet.write(number, staged)) for number in range(WRITERS)]
        reader = asyncio.create_task(fleet.read(staged))
        until, kills = time.monotonic() + SECONDS, 0
        while time.monotonic() < until or kills < MIN_KILLS:
            await asyncio.sleep(0.7)
            await asyncio.to_thread(servers[kills % 2].restart)
            kills += 1
        fleet.stop = True
        await asyncio.gather(*work)
        assert await reader > 5
        latest = ok(await fleet.send(0, staged))["latest_table_version"]
    assert latest > kills
    assert sorted(fleet.ratified) == list(range(1, latest + 1))
    await _require_published_as_ratified(staged, fleet.ratified)


async def _require_published_as_ratified(table: Staged, ratified: dict[int, str]) -> None:
    """Wait until the servers have published the rest. Then the folder has the bytes of each winner, and no others."""
    deadline = time.monotonic() + 60
    while len(write.published(table.folder)) <= len(ratified):
        assert time.monotonic() < deadline, "the servers did not publish"
        await asyncio.sleep(0.1)
    log = table.folder / "_delta_log"
    for version, name in ratified.items():
        staged = (log / "_staged_commits" / name).read_bytes()
        assert (log / f"{version:020}.json").read_bytes() == staged
