"""Many writers commit to one Iceberg table while servers are killed: each commit is applied exactly once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess
from tests.api.iceberg.lake import V1

SECONDS = 300.0 if os.environ.get("MOORAGE_SOAK") else 3.0
"""The minimum time that the writers write. A slow machine takes longer, until `MIN_KILLS` kills have happened."""
MIN_KILLS = 3
WRITERS = 12
DELETE_OLD_METADATA = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Each metadata file lists all snapshots. Those of five minutes would fill a disk."""
SPACES = f"{V1}/lake/namespaces"
TABLE = f"{SPACES}/sea/tables/orders"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """One server on its folder, or two on one database with managed tables in one folder."""
    if request.param == "sqlite":
        with ServerProcess(tmp_path / "data") as server:
            yield [server]
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.new_database("iceberg_kills")
    (tmp_path / "shared").mkdir()
    both = [ServerProcess(tmp_path / name, database=url) for name in ("one", "two")]
    for server in both:
        server.data.mkdir()
        (server.data / "managed").symlink_to(tmp_path / "shared")
    with both[0], both[1]:
        yield both
    postgres.drop_database(url)


class Fleet:
    """Clients that send requests to any server that responds, each request with its own key."""

    def __init__(self, servers: list[ServerProcess], http: httpx.AsyncClient) -> None:
        self.servers, self.http = servers, http
        self.acknowledged: list[int] = []
        self.stop = False

    async def send(self, which: int, verb: str, path: str, body: Any = None) -> httpx.Response:
        """Retry until there is a response: after a broken connection, and after an unknown outcome."""
        key = {"idempotency-key": str(uuid4())}
        while True:
            which += 1
            url = self.servers[which % len(self.servers)].url + path
            try:
                answer = await self.http.request(verb, url, json=body, headers=key)
            except httpx.TransportError:
                await asyncio.sleep(0.02)
                continue
            if answer.status_code < 500:
                return answer

    async def write(self, number: int) -> None:
        """Add snapshots to the writer's own branch. A snapshot that was added twice would be refused."""
        branch, parent, count = f"b{number}", None, 0
        while not self.stop:
            count += 1
            id = number * 1_000_000 + count
            body = {
                "requirements": [{"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": parent}],
                "updates": [
                    {"action": "add-snapshot", "snapshot": _snapshot(id)},
                    {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": id},
                ],
            }
            answer = await self.send(number, "POST", TABLE, body)
            assert answer.status_code == 200, answer.text
            self.acknowledged.append(id)
            parent = id


def _snapshot(id: int) -> dict[str, Any]:
    return {
        "snapshot-id": id,
        "sequence-number": 1,
        "timestamp-ms": 1_800_000_000_000,
        "manifest-list": f"file:///x/snap-{id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_acknowledged_commit_exists_once(servers: list[ServerProcess]) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
        fleet = Fleet(servers, http)
        for path, body in (
            ("/api/moorage/v1/catalogs", {"name": "lake"}),
            (SPACES, {"namespace": ["sea"]}),
            (f"{SPACES}/sea/tables", {"name": "orders", "schema": EXAMPLE_SCHEMA, "properties": DELETE_OLD_METADATA}),
        ):
            assert (await fleet.send(0, "POST", path, body)).status_code in (200, 201)
        work = [asyncio.create_task(fleet.write(number)) for number in range(WRITERS)]
        until, kills = time.monotonic() + SECONDS, 0
        while time.monotonic() < until or kills < MIN_KILLS:
            await asyncio.sleep(0.7)
            await asyncio.to_thread(servers[kills % len(servers)].restart)
            kills += 1
        fleet.stop = True
        await asyncio.gather(*work)
        found = (await fleet.send(0, "GET", TABLE)).json()
    added = [snapshot["snapshot-id"] for snapshot in found["metadata"]["snapshots"]]
    assert sorted(added) == sorted(fleet.acknowledged)
    newest = {f"b{id // 1_000_000}": id for id in sorted(added)}
    assert {name: ref["snapshot-id"] for name, ref in found["metadata"]["refs"].items()} == newest
