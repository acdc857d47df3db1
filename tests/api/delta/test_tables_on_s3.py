"""Managed and external Delta tables in an object store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import force_setattr, replace

from moorage.server.stores import ServerStores
from moorage.storage.s3 import S3Storage
from moorage.storage.secrets import SecretKeys
from moorage.testing import delta_writer as write
from moorage.testing.minio import MinioServer
from moorage.testing.storage_kit import MUCH
from moorage.usecases.upkeep.publish import publish_due
from moorage.usecases.upkeep.purge import purge_due
from tests.api.delta.delta_client import CLASSIC, TABLES, UNITY, V1, DeltaClient, Staged, ok
from tests.api.house import House, on_s3, open_house

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture
def location(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture
def storage(minio: MinioServer, location: str) -> S3Storage:
    """The object store as a writer uses it."""
    return S3Storage(minio.account(location))


@pytest.fixture
async def house(minio: MinioServer, location: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data", **{**on_s3(minio, location), "hold_days": 0}) as house:
        yield house


class Table:
    """A staging table that is written to the local disk and then uploaded to the object store."""

    def __init__(self, staged: Staged, folder: Path, storage: S3Storage) -> None:
        self.staged, self.storage = staged, storage
        self.root = f"{staged.location}/"
        staged.folder = folder

    async def upload(self) -> None:
        for file in self.staged.folder.rglob("*.json"):
            await self.storage.put_new(self.root, str(file.relative_to(self.staged.folder)), file.read_bytes())

    async def log(self) -> list[str]:
        found = await self.storage.list(self.root, "_delta_log/")
        return [each.path.removeprefix("_delta_log/") for each in found if "_staged" not in each.path]


@pytest.mark.parametrize("family", ["spec", "v1"])
async def test_a_managed_table_is_staged_created_committed_published_and_purged(
    house: House, storage: S3Storage, location: str, tmp_path: Path, family: str
) -> None:
    client = DeltaClient(house.console.http, family)
    await client.furnish()
    table = Table(await client.stage(), tmp_path / "t", storage)
    assert table.root.startswith(f"{location}managed/tables/")
    assert (await client.create(table.staged)).status_code == 400, "without a first commit"
    table.staged.write_first()
    await table.upload()
    ok(await client.create(table.staged))

    for version in (1, 2):
        info = table.staged.stage(version)
        refused = await client.commit(table.staged, info)
        assert refused.status_code == 400, "a file that does not exist yet"
        await table.upload()
        ok(await client.commit(table.staged, info))
        ok(await client.commit(table.staged, info))
    outside = table.staged.stage(3, write.add(f"{location}managed/tables/other/part.parquet"))
    await table.upload()
    assert (await client.commit(table.staged, outside)).status_code == 400
    _, latest = await client.announced(table.staged)
    assert latest == 2

    await publish_due(house.ports)
    assert await table.log() == [f"{version:020}.json" for version in range(3)]
    published = await storage.read(table.root, f"_delta_log/{2:020}.json", limit=MUCH)
    assert published is not None
    assert b"inCommitTimestamp" in published

    ok(await house.console.http.delete(f"{UNITY}/tables/lake.sea.t"))
    house.clock.advance(1)
    await purge_due(house.ports)
    assert await storage.list(table.root, "") == ()


async def test_unratified_files_in_the_store_are_set_aside_before_a_commit_and_while_publishing(
    house: House, storage: S3Storage, tmp_path: Path
) -> None:
    client = DeltaClient(house.console.http)
    await client.furnish()
    table = Table(await client.stage(), tmp_path / "t", storage)
    table.staged.write_first()
    await table.upload()
    ok(await client.create(table.staged))

    before, later = write.lines(write.commit_info(1)), write.lines(write.commit_info(2))
    await storage.put_new(table.root, f"_delta_log/{1:020}.json", before)
    infos = [table.staged.stage(version) for version in (1, 2)]
    await table.upload()
    ok(await client.commit(table.staged, infos[0]))
    assert await table.log() == [f"{0:020}.json"]
    ok(await client.commit(table.staged, infos[1]))
    await storage.put_new(table.root, f"_delta_log/{1:020}.json", later)
    assert await publish_due(house.ports) == 2

    for info in infos:
        published = await storage.read(table.root, f"_delta_log/{info['version']:020}.json", limit=MUCH)
        assert published == await storage.read(
            table.root, f"_delta_log/_staged_commits/{info['file_name']}", limit=MUCH
        )
    staged = [each.path for each in await storage.list(table.root, f"_delta_log/_staged_commits/{1:020}.")]
    assert {before, later} < {await storage.read(table.root, path, limit=MUCH) for path in staged}


async def test_an_external_table_has_the_columns_of_its_log(
    house: House, storage: S3Storage, location: str, tmp_path: Path
) -> None:
    client = DeltaClient(house.console.http)
    await client.furnish()
    table = Table(Staged("e", "e", f"{location}own/e"), tmp_path / "e", storage)
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    write.write_first(table.staged.folder, protocol, write.metadata({}))
    await table.upload()
    body = {"name": "e", **CLASSIC, "table_type": "EXTERNAL", "data_source_format": "DELTA", "columns": []}
    made = ok(await client.http.post(f"{UNITY}/tables", json={**body, "storage_location": table.staged.location}))
    assert [column["name"] for column in made["columns"]] == ["id"]


async def test_a_store_without_sessions_gives_no_credentials(
    house: House, storage: S3Storage, minio: MinioServer, location: str, tmp_path: Path
) -> None:
    without_sessions = replace(minio.account(location), is_strict=True)
    force_setattr(house.ports, "stores", ServerStores(house.ledger, SecretKeys(), without_sessions))
    client = DeltaClient(house.console.http, "v1")
    await client.furnish()
    table = Table(await client.stage(), tmp_path / "t", storage)
    staged = await client.http.get(f"{V1}/staging-tables/{table.staged.id}/credentials")
    table.staged.write_first()
    await table.upload()
    ok(await client.create(table.staged))
    for answer in (
        staged,
        await client.http.get(f"{TABLES}/t/credentials", params={"operation": "READ"}),
        await client.http.post(
            f"{UNITY}/temporary-table-credentials", json={"table_id": table.staged.id, "operation": "READ"}
        ),
        await client.http.post(
            f"{UNITY}/temporary-path-credentials", json={"url": table.staged.location, "operation": "PATH_READ"}
        ),
    ):
        assert answer.status_code in (400, 501), answer.text
        assert "vends no credentials" in answer.text
