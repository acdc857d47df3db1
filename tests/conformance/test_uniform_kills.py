"""Conversions that are killed at every step, and conversions by two servers at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from moorage.ledger.faults import UNIFORM
from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess
from tests.api.delta.delta_client import ok
from tests.conformance.lakes import pyiceberg_of
from tests.conformance.mirrors import Mirror

TABLE = "/iceberg/v1/lake/namespaces/sea/tables/t"
STEPS = [*(f"{step}:1" for step in UNIFORM), "append.checked:2", "append.applied:2"]
"""The first append on the server that dies ratifies the Delta commit. The second records its conversion, whose files
are written by then."""


def append_ids(folder: Path, *ids: int) -> None:
    write_deltalake(folder, pa.table({"id": pa.array(ids, pa.int64())}), mode="append")


def client_of(server: ServerProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60)


def ids_in(server: ServerProcess) -> list[int]:
    found = pyiceberg_of(server).load_table(("sea", "t")).scan().to_arrow_batch_reader().read_all()
    return sorted(found["id"].to_pylist())


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_leaves_the_old_version_or_the_new_one(tmp_path: Path, step: str) -> None:
    folder, data = tmp_path / "plain", tmp_path / "data"
    append_ids(folder, 1, 2)
    with ServerProcess(data) as server:
        async with client_of(server) as http:
            mirror = Mirror(http, folder)
            await mirror.delta.furnish()
            await mirror.follow()
        assert ids_in(server) == [1, 2]
    append_ids(folder, 3)
    with ServerProcess(data, environment={"MOORAGE_DIE_AT": step}) as dying:
        async with client_of(dying) as http:
            mirror.delta.http = http
            await mirror.follow()
            with contextlib.suppress(httpx.TransportError):
                for _ in range(100):
                    await http.get(TABLE)
            assert not await is_up(dying)
    with ServerProcess(data) as server:
        async with client_of(server) as http:
            loaded = ok(await http.get(TABLE))["metadata"]
        assert [each["sequence-number"] for each in loaded["snapshots"]] == [0, 1]
        assert ids_in(server) == [1, 2, 3]
        assert not server.errors()


async def is_up(server: ServerProcess) -> bool:
    async with client_of(server) as http:
        for _ in range(50):
            try:
                await http.get("/healthz")
            except httpx.TransportError:
                return False
            await asyncio.sleep(0.1)
    return True


@pytest.fixture
def servers(tmp_path: Path, postgres: PostgresServer) -> Iterator[list[ServerProcess]]:
    """Both servers store managed tables in one folder, as with one bucket."""
    url = postgres.new_database("uniform")
    shared = tmp_path / "shared"
    shared.mkdir()
    both = [ServerProcess(tmp_path / name, database=url) for name in ("one", "two")]
    for server in both:
        server.data.mkdir()
        (server.data / "managed").symlink_to(shared)
    with both[0], both[1]:
        yield both
        assert not any(server.errors() for server in both)
    postgres.drop_database(url)


@pytest.mark.postgres
async def test_two_servers_convert_each_version_once(servers: list[ServerProcess], tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    async with client_of(servers[0]) as one, client_of(servers[1]) as two:
        mirror = Mirror(one, folder)
        for version in range(12):
            append_ids(folder, version)
            if not version:
                await mirror.delta.furnish()
            await mirror.follow()
            answers = await asyncio.gather(*(http.get(TABLE) for http in (one, two) for _ in range(3)))
            assert {ok(each)["metadata"]["properties"]["delta-version"] for each in answers} == {str(version)}
            assert len({each.json()["metadata-location"] for each in answers}) == 1
        feed = ok(await one.get("/api/moorage/v1/feed", params={"after": 0, "limit": 1000}))["entries"]
    changes = [change for entry in feed for change in entry["story"]["changes"]]
    converted = [change["version"] for change in changes if change.get("ref") == "iceberg"]
    assert converted == sorted(set(converted))
    assert converted[-1] == 11
    files = list((mirror.table.folder / "_iceberg").glob("*.metadata.json"))
    assert len(files) == len(converted)
    assert ids_in(servers[1]) == list(range(12))
