"""Manifests get their final names by a link in the request; one sync for many of them then publishes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.core.errors import Unavailable
from moorage.storage.local import LocalStorage
from moorage.testing import lance_writer as write
from moorage.usecases.upkeep.publish import make_durable, publish_due
from tests.api.house import House
from tests.api.lance.lake import LanceClient, create

T, U = "lake$sea$t", "lake$sea$u"


@pytest.fixture
async def location(lake: LanceClient) -> str:
    return await lake.declare(T)


def manifests(location: str) -> list[str]:
    return sorted(file.name for file in (write.folder_of(location) / "_versions").iterdir())


def final_names(*versions: int) -> list[str]:
    return sorted(write.final_name(version) for version in versions)


def final_file(location: str, version: int) -> Path:
    return write.folder_of(location) / "_versions" / write.final_name(version)


async def waiting_versions(house: House) -> list[int]:
    return [staged.version for staged in await house.ledger.staged()]


async def test_one_sync_publishes_the_versions_of_all_tables(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, sync = [], LocalStorage.sync

    async def counted(storage: LocalStorage) -> None:
        syncs.append(storage)
        await sync(storage)

    monkeypatch.setattr(LocalStorage, "sync", counted)
    other = await lake.declare(U)
    await lake.grow(T, location, 1, 2, 3)
    await lake.commit(create(U, write.stage(other, 1)))
    assert len(manifests(location)) == 6
    assert await make_durable(house.ports) == 2
    assert (manifests(location), manifests(other)) == (final_names(1, 2, 3), final_names(1))
    assert await waiting_versions(house) == []
    assert len(syncs) == 1
    await lake.grow(T, location, 4)
    assert await make_durable(house.ports) == 1
    assert manifests(location) == final_names(1, 2, 3, 4)
    assert await make_durable(house.ports) == 0


async def test_a_version_waits_for_those_of_another_server_before_it(
    lake: LanceClient, location: str, house: House
) -> None:
    await lake.grow(T, location, 1)
    house.ports.local.linked.clear()  # as if another server had committed version 1
    await lake.grow(T, location, 2)
    await make_durable(house.ports)
    assert await waiting_versions(house) == [1, 2]
    (first, *_) = await house.ledger.staged(limit=1)
    await house.ledger.record_published(first.table, first.ref, 1)
    await make_durable(house.ports)
    assert await waiting_versions(house) == []


@pytest.mark.parametrize("other", [b"other bytes", b""])
async def test_the_ledger_keeps_the_bytes_of_a_version_whose_file_has_others(
    lake: LanceClient, location: str, house: House, other: bytes
) -> None:
    await lake.grow(T, location, 1, 2)
    final_file(location, 2).write_bytes(other)
    await make_durable(house.ports)
    assert await waiting_versions(house) == [2]
    assert await make_durable(house.ports) == 0
    await publish_due(house.ports)
    assert house.ports.alarms.count == 1


async def test_after_a_failed_sync_manifests_are_written_again(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(storage: LocalStorage) -> None:
        raise Unavailable("the disk is broken")

    await lake.grow(T, location, 1)
    before = final_file(location, 1).stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "sync", broken)
        with pytest.raises(Unavailable):
            await make_durable(house.ports)
    assert await waiting_versions(house) == [1]
    assert await make_durable(house.ports) == 0
    assert await publish_due(house.ports) == 1
    assert manifests(location) == final_names(1)
    assert final_file(location, 1).stat().st_ino != before


async def test_a_table_that_is_erased_in_between_is_forgotten(lake: LanceClient, location: str, house: House) -> None:
    await lake.grow(T, location, 1)
    await lake.table(T, "drop")
    await make_durable(house.ports)
    assert house.ports.local.linked == {}
