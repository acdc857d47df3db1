"""Metadata files are synced after the response. Files lost in a power cut are restored from the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.core.errors import Unavailable
from moorage.ledger.sqlite import SqliteLedger
from moorage.storage.local import LocalStorage
from moorage.testing.server import ServerProcess
from moorage.usecases.iceberg.metadata_files import MAX_STORED_BYTES
from moorage.usecases.local_state import LocalState
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.publish import make_durable, publish_due
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import House, done, until
from tests.api.iceberg.lake import V1, Lake, set_property, to_table
from tests.api.iceberg.test_locations import move
from tests.api.iceberg.test_views import create as create_view

GZIPPED = {"write.metadata.compression-codec": "gzip"}
LARGE = {"comment": "long " * 100_000}
WITHOUT_CHORES = ("--chores-interval-seconds", "3600")


def file_of(answer: httpx.Response) -> Path:
    return Path(done(answer)["metadata-location"].removeprefix("file://"))


async def versions_to_sync(house: House) -> list[int]:
    return [staged.version for staged in await house.ledger.staged()]


def as_after_a_restart(house: House) -> Ports:
    """The same ledger and disk, for a server that did not write the files."""
    return replace(house.ports, local=LocalState())


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:7])


@pytest.fixture
def cannot_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: LocalStorage) -> None:
        raise Unavailable("the disk is broken")

    monkeypatch.setattr(LocalStorage, "sync", broken)


async def test_written_files_wait_until_one_sync_makes_them_durable(lake: Lake) -> None:
    for name in ("a", "b"):
        await lake.create(name)
    for n in range(3):
        done(await lake.commit("a", set_property(f"p{n}")))
    assert sorted(await versions_to_sync(lake.house)) == [0, 0, 1, 2, 3]
    before = await lake.house.ledger.position()
    assert await make_durable(lake.house.ports) == 2
    assert await versions_to_sync(lake.house) == []
    assert await make_durable(lake.house.ports) == 0
    assert await lake.house.ledger.position() == before


@pytest.mark.parametrize("lose", [Path.unlink, cut_off, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("properties", [{}, GZIPPED, LARGE, GZIPPED | LARGE])
async def test_a_file_lost_in_a_power_cut_is_restored_byte_for_byte(
    lake: Lake, lose: Callable[[Path], Any], properties: dict[str, str]
) -> None:
    await lake.create("orders", properties=properties)
    file = file_of(await lake.commit("orders", set_property("p")))
    written = file.read_bytes()
    lose(file)
    assert await publish_due(as_after_a_restart(lake.house)) == 2
    assert file.read_bytes() == written
    assert await versions_to_sync(lake.house) == []


async def test_a_folder_lost_in_a_power_cut_is_restored(lake: Lake) -> None:
    file = file_of(await lake.create("orders"))
    written = file.read_bytes()
    file.unlink()
    file.parent.rmdir()
    file.parent.parent.rmdir()
    assert await publish_due(as_after_a_restart(lake.house)) == 1
    assert file.read_bytes() == written


async def test_the_lost_file_of_a_view_is_restored(lake: Lake) -> None:
    file = file_of(await create_view(lake, "v"))
    written = file.read_bytes()
    file.unlink()
    assert await publish_due(as_after_a_restart(lake.house)) == 1
    assert file.read_bytes() == written


async def test_the_lost_file_of_a_moved_table_is_restored_where_it_was_written(lake: Lake, own: str) -> None:
    await lake.create("orders")
    file = file_of(await lake.commit("orders", move(f"{own}/new")))
    assert f"file://{file}".startswith(own)
    written = file.read_bytes()
    file.unlink()
    assert await publish_due(as_after_a_restart(lake.house)) == 2
    assert file.read_bytes() == written


async def test_a_version_that_was_replaced_is_not_written_again(lake: Lake) -> None:
    first = file_of(await lake.create("orders"))
    done(await lake.commit("orders", set_property("p")))
    first.unlink()
    assert await publish_due(as_after_a_restart(lake.house)) == 2
    assert not first.exists()
    assert await versions_to_sync(lake.house) == []


async def test_files_that_this_server_has_yet_to_sync_are_not_published(lake: Lake) -> None:
    await lake.create("orders")
    assert await publish_due(lake.house.ports) == 0
    assert await versions_to_sync(lake.house) == [0]


async def test_a_file_written_during_a_sync_waits_for_the_next_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        await lake.create(name)

    async def slow(self: LocalStorage) -> None:
        done(await lake.commit("a", set_property("p")))
        assert await publish_due(lake.house.ports) == 0

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "sync", slow)
        assert await make_durable(lake.house.ports) == 2
    assert await versions_to_sync(lake.house) == [1]
    assert await make_durable(lake.house.ports) == 1
    assert await versions_to_sync(lake.house) == []


@pytest.mark.usefixtures("cannot_sync")
async def test_a_file_whose_sync_failed_is_written_again(lake: Lake) -> None:
    file = file_of(await lake.create("orders"))
    written = file.read_bytes()
    with pytest.raises(Unavailable):
        await make_durable(lake.house.ports)
    cut_off(file)
    assert await publish_due(lake.house.ports) == 1
    assert file.read_bytes() == written
    assert await versions_to_sync(lake.house) == []


async def test_a_document_too_large_for_the_ledger_is_synced_before_the_response(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable: list[str] = []
    overwrite = LocalStorage.overwrite

    async def watched(self: LocalStorage, root: str, path: str, data: bytes) -> None:
        durable.append(root + path)
        await overwrite(self, root, path, data)

    monkeypatch.setattr(LocalStorage, "overwrite", watched)
    answer = await lake.create("orders", properties={"p": "x" * MAX_STORED_BYTES})
    assert durable == [done(answer)["metadata-location"]]
    assert await versions_to_sync(lake.house) == []


async def test_a_registered_file_is_not_synced(lake: Lake) -> None:
    made = done(await lake.create("orders"))
    await make_durable(lake.house.ports)
    done(await lake.ask("POST", to_table("orders") + "/unregister"))
    body = {"name": "again", "metadata-location": made["metadata-location"]}
    done(await lake.ask("POST", "/namespaces/sales/register", body))
    assert await versions_to_sync(lake.house) == []


async def test_the_file_of_a_purged_table_is_not_restored(lake: Lake) -> None:
    file = file_of(await lake.create("orders"))
    await lake.ask("DELETE", to_table("orders"), purgeRequested="true")
    lake.house.clock.advance(lake.house.ports.hold_ms)
    assert await purge_due(lake.house.ports) == 1
    assert await publish_due(as_after_a_restart(lake.house)) == 0
    assert not file.exists()


@pytest.mark.slow
async def test_a_server_that_stops_leaves_nothing_to_sync(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", flags=WITHOUT_CHORES) as server:
        await make_tables(server, 1)
        assert server.stop() == 0
    ledger = await SqliteLedger.open(tmp_path / "data")
    assert await ledger.staged() == ()
    await ledger.close()


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def test_a_server_that_starts_restores_files_that_the_last_one_had_not_synced(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    data = tmp_path / "data"
    database = None if store == "sqlite" else request.getfixturevalue("database_url")
    with ServerProcess(data, database=database, flags=WITHOUT_CHORES) as server:
        files = await make_tables(server, 3)
    written = [file.read_bytes() for file in files]
    files[0].unlink()
    cut_off(files[1])

    async def are_restored() -> bool:
        found = await asyncio.to_thread(lambda: [file.exists() and file.read_bytes() for file in files])
        return found == written

    with ServerProcess(data, database=database):
        await until(are_restored, seconds=60)


async def make_tables(server: ServerProcess, count: int) -> list[Path]:
    """Create tables of two versions each, and return their metadata files."""
    files = []
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        await http.post("/api/moorage/v1/catalogs", json={"name": "lake"})
        await http.post(f"{V1}/lake/namespaces", json={"namespace": ["sales"]})
        for n in range(count):
            body = {"name": f"t{n}", "schema": EXAMPLE_SCHEMA}
            await http.post(f"{V1}/lake/namespaces/sales/tables", json=body)
            change = {"requirements": [], "updates": [set_property("p")]}
            files.append(file_of(await http.post(f"{V1}/lake{to_table(f't{n}')}", json=change)))
    return files
