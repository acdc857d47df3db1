"""Conversions that are killed at every step, and conversions by two servers at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from moorage.faults import FILE_WRITTEN
from moorage.ledger.faults import UNIFORM
from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess
from tests.api.delta.delta_client import ok
from tests.conformance.lakes import pyiceberg_of
from tests.conformance.mirrors import Mirror

TABLES = "/iceberg/v1/lake/namespaces/sea/tables"
TABLE = f"{TABLES}/t"
_WRITES = tuple(f"{FILE_WRITTEN}:{nth}" for nth in (1, 2, 3))
"""A conversion of one version writes a manifest, a manifest list and the metadata."""
_CONVERSION = (UNIFORM[0] + ":1", UNIFORM[1] + ":1", *_WRITES, UNIFORM[2] + ":1")
STEPS = (*_CONVERSION, "append.checked:2", "append.applied:2")
"""The first append on the server that dies ratifies the Delta commit. The second records its conversion, whose files
are written by then."""
STEPS_OF_POSTGRES = (*_CONVERSION, "append.begun:2", "append.committed:2")
"""There, an append is one statement."""


def append_ids(folder: Path, *ids: int) -> None:
    write_deltalake(folder, pa.table({"id": pa.array(ids, pa.int64())}), mode="append")


def change_ids(folder: Path, version: int) -> list[int]:
    """Write a version: an append, or the removal of an id, which rewrites a manifest. Returns the ids of the table."""
    if version % 3 == 0:
        DeltaTable(folder).delete(f"id = {version - 1}")
    else:
        append_ids(folder, version)
    return sorted(DeltaTable(folder).to_pyarrow_table()["id"].to_pylist())


def client_of(server: ServerProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60)


def ids_in(server: ServerProcess, name: str = "t") -> list[int]:
    found = pyiceberg_of(server).load_table(("sea", name)).scan().to_arrow_batch_reader().read_all()
    return sorted(found["id"].to_pylist())


@pytest.mark.timeout(300)
async def test_a_kill_at_any_step_leaves_the_old_version_or_the_new_one(tmp_path: Path) -> None:
    folder, data = tmp_path / "plain", tmp_path / "data"
    append_ids(folder, 0)
    with ServerProcess(data) as server:
        async with client_of(server) as http:
            mirror = Mirror(http, folder)
            await mirror.delta.furnish()
            await mirror.follow()
        assert ids_in(server) == [0]
    for version, step in enumerate(STEPS, 1):
        ids = change_ids(folder, version)
        with ServerProcess(data, environment={"MOORAGE_DIE_AT": step}) as dying:
            async with client_of(dying) as http:
                mirror.delta.http = http
                await mirror.follow()
                await load_until_dead(http, version)
                assert not await is_up(dying), step
        with ServerProcess(data) as server:
            async with client_of(server) as http:
                await require_versions(http, version)
            assert ids_in(server) == ids, step
            assert not server.errors()


@pytest.mark.timeout(300)
async def test_a_kill_at_any_step_of_a_first_conversion_leaves_none_or_all_of_it(tmp_path: Path) -> None:
    folder, data = tmp_path / "plain", tmp_path / "data"
    append_ids(folder, 0)
    with ServerProcess(data) as server:
        async with client_of(server) as http:
            await Mirror(http, folder).delta.furnish()
    for number, step in enumerate(_CONVERSION):
        name = f"t{number}"
        with ServerProcess(data, environment={"MOORAGE_DIE_AT": step}) as dying:
            async with client_of(dying) as http:
                await Mirror(http, folder, name).follow()
                await load_until_dead(http, 0, name)
                assert not await is_up(dying), step
        with ServerProcess(data) as server:
            async with client_of(server) as http:
                await require_versions(http, 0, name)
            assert ids_in(server, name) == [0], step
            assert not server.errors()


async def require_versions(http: httpx.AsyncClient, last: int, name: str = "t") -> None:
    """Require a snapshot for each version."""
    loaded = ok(await http.get(f"{TABLES}/{name}"))["metadata"]
    assert [each["sequence-number"] for each in loaded["snapshots"]] == list(range(last + 1))


async def load_until_dead(http: httpx.AsyncClient, last: int, name: str = "t") -> None:
    """Load the table until the server is gone. Each answer has the newest Delta version."""
    with contextlib.suppress(httpx.TransportError):
        for _ in range(100):
            await require_versions(http, last, name)


async def is_up(server: ServerProcess) -> bool:
    async with client_of(server) as http:
        for _ in range(50):
            try:
                await http.get("/healthz")
            except httpx.TransportError:
                return False
            await asyncio.sleep(0.1)
    return True


class Cluster:
    """Servers on one database. They store managed tables in one folder, as with one bucket."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database = folder, database
        (folder / "shared").mkdir()

    def server(self, name: str, **environment: str) -> ServerProcess:
        made = ServerProcess(self.folder / name, database=self.database, environment=environment)
        made.data.mkdir()
        (made.data / "managed").symlink_to(self.folder / "shared")
        return made


@pytest.fixture
def cluster(tmp_path: Path, postgres: PostgresServer) -> Iterator[Cluster]:
    url = postgres.new_database("uniform")
    yield Cluster(tmp_path, url)
    postgres.drop_database(url)


async def converted_versions(http: httpx.AsyncClient) -> list[int]:
    """The versions that the ledger records as converted, in the order of its entries."""
    feed = ok(await http.get("/api/moorage/v1/feed", params={"after": 0, "limit": 1000}))["entries"]
    changes = [change for entry in feed for change in entry["story"]["changes"]]
    return [change["version"] for change in changes if change.get("ref") == "iceberg"]


@pytest.mark.postgres
async def test_two_servers_convert_each_version_once(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    with cluster.server("one") as first, cluster.server("two") as second:
        async with client_of(first) as one, client_of(second) as two:
            mirror = Mirror(one, folder)
            for version in range(12):
                append_ids(folder, version)
                if not version:
                    await mirror.delta.furnish()
                await mirror.follow()
                answers = await asyncio.gather(*(http.get(TABLE) for http in (one, two) for _ in range(3)))
                assert {ok(each)["metadata"]["properties"]["delta-version"] for each in answers} == {str(version)}
                assert len({each.json()["metadata-location"] for each in answers}) == 1
            converted = await converted_versions(one)
        assert converted == sorted(set(converted))
        assert converted[-1] == 11
        files = list((mirror.table.folder / "_iceberg").glob("*.metadata.json"))
        assert len(files) == len(converted)
        assert ids_in(second) == list(range(12))
        assert not first.errors()
        assert not second.errors()


@pytest.mark.postgres
@pytest.mark.timeout(300)
async def test_a_server_that_dies_during_a_conversion_leaves_the_version_to_another(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    append_ids(folder, 0)
    with cluster.server("one") as surviving:
        async with client_of(surviving) as http:
            mirror = Mirror(http, folder)
            await mirror.delta.furnish()
            await mirror.follow()
            ok(await http.get(TABLE))
            for version, step in enumerate(STEPS_OF_POSTGRES, 1):
                ids = change_ids(folder, version)
                with cluster.server(f"dying{version}", MOORAGE_DIE_AT=step) as dying:
                    async with client_of(dying) as other:
                        mirror.delta.http = other
                        await mirror.follow()
                        await load_until_dead(other, version)
                    assert not await is_up(dying), step
                await require_versions(http, version)
                assert ids_in(surviving) == ids, step
            assert await converted_versions(http) == list(range(len(STEPS_OF_POSTGRES) + 1))
        assert not surviving.errors()
