"""Versions that clients cleaned up stay deleted, and abandoned staged manifests are deleted after a day."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from moorage.storage.local import LocalStorage
from moorage.testing import lance_writer as write
from moorage.usecases.upkeep.publish import publish_due
from moorage.usecases.upkeep.purge import purge_due
from moorage.usecases.upkeep.sweep import is_sweep_due, sweep_next
from tests.api.house import House, done
from tests.api.lance.lake import LanceClient

T = "lake$sea$t"
DAY_SECONDS = 24 * 60 * 60


@pytest.fixture
async def location(lake: LanceClient) -> str:
    return await lake.declare(T)


def versions_of(location: str) -> Path:
    return write.folder_of(location) / "_versions"


def names_in(location: str) -> set[str]:
    return {file.name for file in versions_of(location).iterdir()}


def transaction_of(location: str, version: int) -> Path:
    return write.folder_of(location) / "_transactions" / f"{version - 1}-a.txn"


def stage(location: str, version: int) -> dict[str, Any]:
    """Stage a version as pylance does: with its transaction file, which the manifest names."""
    file = transaction_of(location, version)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"what was done")
    fields = b"\x0a\x10" + uuid4().bytes  # another field, so that every manifest is different
    return write.stage(location, version, data=write.manifest(fields + write.transaction_field(file.name)))


@pytest.fixture
async def staged(lake: LanceClient, location: str) -> list[dict[str, Any]]:
    """Three unpublished versions."""
    made = [stage(location, version) for version in (1, 2, 3)]
    for each in made:
        done(await lake.create(T, each))
    return made


def clean_up(location: str, *versions: int) -> None:
    for version in versions:
        transaction_of(location, version).unlink()
        (versions_of(location) / write.final_name(version)).unlink()


@pytest.mark.usefixtures("staged")
async def test_a_version_that_is_cleaned_up_before_it_is_published_stays_deleted(
    lake: LanceClient, location: str, house: House
) -> None:
    clean_up(location, 1, 2)
    house.ports.local.clear_caches()  # as on another server
    assert await lake.versions(T) == [3]
    assert await publish_due(house.ports) == 3
    assert names_in(location) & {write.final_name(each) for each in (1, 2, 3)} == {write.final_name(3)}
    assert await lake.versions(T) == [3]


@pytest.mark.usefixtures("staged")
async def test_a_version_that_is_cleaned_up_while_it_is_published_raises_no_alarm(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_new = LocalStorage.put_new

    async def in_between(storage: LocalStorage, root: str, path: str, data: bytes) -> bool:
        is_new = await put_new(storage, root, path, data)
        if not is_new and path.endswith(write.final_name(2)):
            clean_up(location, 2)
        return is_new

    monkeypatch.setattr(LocalStorage, "put_new", in_between)
    assert await publish_due(house.ports) == 3
    assert (await lake.versions(T), write.final_name(2) in names_in(location)) == ([3, 1], False)
    assert house.ports.alarms.count == 0


async def test_a_version_that_a_power_cut_removed_is_published_from_the_ledger(
    lake: LanceClient, location: str, house: House, staged: list[dict[str, Any]]
) -> None:
    clean_up(location, 1)
    write.file_of(staged[0]["manifest_path"]).unlink()
    assert await publish_due(house.ports) == 3
    assert await lake.versions(T) == [3, 2, 1]


@pytest.mark.usefixtures("staged")
async def test_a_version_without_a_final_name_is_published(lake: LanceClient, location: str, house: House) -> None:
    (versions_of(location) / write.final_name(2)).unlink()
    house.ports.local.clear_caches()
    assert await lake.versions(T) == [3, 2, 1]
    (versions_of(location) / write.final_name(2)).unlink()
    assert await publish_due(house.ports) == 3
    assert await lake.versions(T) == [3, 2, 1]


@pytest.fixture
async def waiting(lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions without a final name, as after a killed server or while the store is unavailable."""

    async def cannot(*_: Any, **__: Any) -> bool:
        return False

    await lake.grow(T, location, 1)
    with monkeypatch.context() as away:
        away.setattr(house.ports.storage, "link", cannot)
        await lake.grow(T, location, 2)
        await lake.grow(T, location, 2, 3, branch="dev")
    branches = write.folder_of(location) / "_refs" / "branches"
    branches.mkdir(parents=True)
    (branches / "dev.json").write_text('{"parentVersion": 2, "createAt": 1, "manifestSize": 1}')


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("purged", [0, 1])
async def test_unpublished_versions_are_kept_when_their_table_is_deregistered(
    lake: LanceClient, location: str, house: House, purged: int
) -> None:
    done(await lake.table(T, "deregister", {}))
    house.clock.advance(purged * (house.ports.hold_ms + 1))
    assert await purge_due(house.ports) == purged
    done(await lake.table(T, "register", {"location": location}))
    assert (await lake.versions(T), await lake.versions(T, branch="dev")) == ([2, 1], [3, 2])
    await lake.grow(T, location, 3)
    assert await publish_due(house.ports) == 1


async def test_staged_manifests_that_can_never_be_versions_are_deleted_after_a_day(
    lake: LanceClient, location: str, house: House
) -> None:
    await lake.grow(T, location, *range(1, 63))
    lost, fresh, later = (write.stage(location, version) for version in (5, 5, 65))
    aside = versions_of(location) / f"{write.final_name(6)}-{'0' * 32}"
    aside.write_bytes(b"written without the catalog, and set aside")
    day_ago = house.clock.now_ms / 1000 - DAY_SECONDS
    for file in (*(write.file_of(each["manifest_path"]) for each in (lost, later)), aside):
        os.utime(file, (day_ago - 60, day_ago - 60))
    os.utime(write.file_of(fresh["manifest_path"]), (day_ago + 60, day_ago + 60))
    await publish_due(house.ports)
    assert await sweep_next(house.ports) == 0
    assert write.file_of(lost["manifest_path"]).exists()
    await lake.grow(T, location, 63, 64)
    await publish_due(house.ports)
    assert [await sweep_next(house.ports) for _ in range(2)] == [1, 0]
    finals = {write.final_name(version) for version in range(1, 65)}
    kept = {write.file_of(each["manifest_path"]).name for each in (fresh, later)}
    assert names_in(location) == finals | kept | {aside.name}
    done(await lake.create(T, later))


def test_a_longer_line_is_swept_less_often() -> None:
    swept = [version for version in range(1, 5_000) if is_sweep_due(version - 1, version)]
    assert swept[:3] == [64, 128, 192]
    assert all(later - earlier >= earlier / 8 for earlier, later in pairwise(swept))
    assert is_sweep_due(60, 70)
