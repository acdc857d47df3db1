"""Versions of tables in an object store, where an object has one name only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import obstore
import pytest

from moorage.core.errors import Unavailable
from moorage.storage.s3 import S3Storage
from moorage.testing import lance_writer as write
from moorage.testing.minio import MinioServer
from moorage.testing.storage_kit import MUCH
from moorage.usecases.upkeep.publish import publish_due
from tests.api.house import House, done, on_s3, open_house
from tests.api.lance.lake import LanceClient, refused

pytestmark = pytest.mark.xdist_group("s3")

T = "lake$sea$t"
FINAL = f"_versions/{write.final_name(1)}"
STAGED = f"{FINAL}-0e1b2c3d"


@pytest.fixture
async def house(minio: MinioServer, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data", **on_s3(minio, f"s3://{minio.new_bucket()}/lake/")) as house:
        yield house


async def commit(lake: LanceClient, house: House) -> tuple[str, str]:
    """Create the first version of a table; its location, and the manifest path in the response."""
    location = f"{await lake.declare(T)}/"
    data = write.manifest()
    await house.ports.storage.put_new(location, STAGED, data)
    request = {"version": 1, "manifest_path": location.split("/", 3)[3] + STAGED, "manifest_size": len(data)}
    return location, done(await lake.create(T, request))["version"]["manifest_path"]


async def files(house: House, location: str) -> list[str]:
    return [each.path for each in await house.ports.storage.list(location, "_versions/")]


async def test_a_version_has_its_final_name_and_its_staged_manifest_is_deleted(lake: LanceClient, house: House) -> None:
    location, manifest_path = await commit(lake, house)
    assert manifest_path.endswith(FINAL)
    assert await house.ports.storage.read(location, FINAL, limit=MUCH) == write.manifest()
    house.clock.advance(10_000)
    assert await publish_due(house.ports) == 1
    assert await files(house, location) == [FINAL]
    assert done(await lake.table(T, "version/describe"))["version"]["manifest_path"] == manifest_path


async def test_a_commit_reads_its_manifest_once_and_writes_it_once(
    lake: LanceClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def watch(verb: str) -> None:
        ask = getattr(obstore, verb)

        def watched(*given: Any, **named: Any) -> Any:
            asked.append(verb)
            return ask(*given, **named)

        monkeypatch.setattr(obstore, verb, watched)

    for verb in ("head_async", "get_async", "put_async", "delete_async", "list"):
        watch(verb)
    _, manifest_path = await commit(lake, house)
    assert manifest_path.endswith(FINAL)
    assert asked == ["put_async", "get_async", "put_async"], "the first is the writer's own"


async def test_a_version_has_its_staged_name_while_the_store_is_unavailable(
    lake: LanceClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_new = S3Storage.put_new

    async def away(self: S3Storage, root: str, path: str, data: bytes) -> bool:
        if path == FINAL:
            raise Unavailable("the store is unavailable")
        return await put_new(self, root, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(S3Storage, "put_new", away)
        location, manifest_path = await commit(lake, house)
    assert manifest_path.endswith(STAGED)
    assert await publish_due(house.ports) == 1
    assert await files(house, location) == [FINAL]


async def test_a_version_or_branch_that_a_client_deleted_is_not_returned(lake: LanceClient, house: House) -> None:
    location, _ = await commit(lake, house)
    storage, data = house.ports.storage, write.manifest()

    async def grow(version: int, branch: str | None = None) -> None:
        folder = f"tree/{branch}/_versions" if branch else "_versions"
        path = f"{folder}/{write.final_name(version)}-0e1b2c3d"
        await storage.put_new(location, path, data)
        request = {"version": version, "manifest_path": location.split("/", 3)[3] + path, "branch": branch}
        done(await lake.create(T, request))

    await grow(2)
    await grow(2, "dev")
    house.clock.advance(10_000)
    await publish_due(house.ports)
    await storage.delete(location, FINAL)
    assert await lake.versions(T) == [2]
    refused(await lake.table(T, "version/describe", {"version": 1}), 404, 11)
    assert await lake.versions(T, branch="dev") == [2]
    await storage.delete(location, f"tree/dev/_versions/{write.final_name(2)}")
    refused(await lake.table(T, "version/list", branch="dev"), 404, 22)
    await grow(1, "dev")
    assert await lake.versions(T, branch="dev") == [1]


async def test_a_reader_gets_the_final_name_if_another_server_publishes_during_its_request(
    lake: LanceClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, _ = await commit(lake, house)
    link = S3Storage.link

    async def too_late(self: S3Storage, *given: Any, data: bytes | None) -> bool:
        await publish_due(house.ports)
        return await link(self, *given, data=data)

    house.ports.local.clear_caches()
    monkeypatch.setattr(S3Storage, "link", too_late)
    manifest_path = done(await lake.table(T, "version/describe"))["version"]["manifest_path"]
    assert manifest_path.endswith(FINAL)
    assert await files(house, location) == [FINAL]
