"""Unratified files: commits in the log of a managed table that the ledger never ratified, mostly after a restore."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from moorage.ledger.transfer.backup import back_up_folder
from moorage.ledger.transfer.restore import restore_folder
from moorage.storage.local import LocalStorage
from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from moorage.usecases.delta.unratified import QUIET_PERIOD_MS, set_aside_unratified
from moorage.usecases.upkeep.publish import publish_due
from tests.api.delta.cases import INVALID, refuses
from tests.api.delta.delta_client import Body, DeltaClient, Staged, ok
from tests.api.house import House, open_house


def log_of(table: Staged) -> Path:
    return table.folder / "_delta_log"


def at_final_names(table: Staged) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in log_of(table).iterdir() if file.is_file()}


def set_aside(table: Staged) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (log_of(table) / "_staged_commits").iterdir()}


def proposal_of(table: Staged, version: int) -> Body:
    """The request that proposes the one commit that was set aside for a version."""
    [file] = (log_of(table) / "_staged_commits").glob(f"{version:020}.*.json")
    data = file.read_bytes()
    timestamp = json.loads(data.splitlines()[0])["commitInfo"]["inCommitTimestamp"]
    proposal = {"version": version, "timestamp": timestamp, "file_name": file.name, "file_size": len(data)}
    return {**proposal, "file_modification_timestamp": timestamp}


async def commit_and_publish(client: DeltaClient, table: Staged, house: House, *versions: int) -> None:
    for version in versions:
        ok(await client.commit(table, table.stage(version)))
    await publish_due(house.ports)


def write_derived_files(table: Staged, version: int) -> None:
    """Write the files that clients derive from commits: a checkpoint with its hint, a checksum, a compacted log."""
    log = log_of(table)
    for name in (f"{version:020}.checkpoint.parquet", f"{version:020}.crc", f"{1:020}.{version:020}.compacted.json"):
        (log / name).write_bytes(f"{name} of {version}".encode())
    (log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": 3}))


@asynccontextmanager
async def restored(data: Path, family: str) -> AsyncIterator[tuple[House, DeltaClient, Staged, dict[str, bytes]]]:
    """A table at version 4 whose ledger was restored to version 1, and the content of its log."""
    async with open_house(data) as house:
        client = DeltaClient(house.console.http, family)
        await client.furnish()
        table = await client.make()
        await commit_and_publish(client, table, house, 1)
        back_up_folder(data, data.parent / "backup.db", lambda _: None)
        await commit_and_publish(client, table, house, 2, 3, 4)
        write_derived_files(table, 4)
    restore(data)
    async with open_house(data) as house:
        yield house, DeltaClient(house.console.http, family), table, at_final_names(table)


def restore(data: Path) -> None:
    for file in data.glob("ledger.db*"):
        file.unlink()
    restore_folder(data.parent / "backup.db", data, lambda _: None)


@pytest.fixture(params=["spec", "preview", "v1"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_after_a_restore_a_table_accepts_commits_and_no_unratified_file_is_lost(
    tmp_path: Path, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with restored(tmp_path / "data", family) as (house, client, table, before):
        info = table.stage(2, timestamp=START_MS + 50)
        ok(await client.commit(table, info))
        assert f"{2:020}.json of table {table.id} was never ratified" in caplog.text
        assert sorted(at_final_names(table)) == [f"{version:020}.json" for version in (0, 1)]
        kept = [data for name, data in before.items() if name not in at_final_names(table)]
        assert len(kept) == 7
        assert set(kept) <= set(set_aside(table).values())

        assert await publish_due(house.ports) == 1
        assert at_final_names(table)[f"{2:020}.json"] == set_aside(table)[info["file_name"]]
        ok(await client.commit(table, table.stage(3, timestamp=START_MS + 51), published=2))
        assert await client.announced(table) == ([3], 3)
        assert house.ports.alarms.count == 1


async def test_a_client_that_read_unratified_files_must_load_the_table_again(tmp_path: Path, family: str) -> None:
    """Spark reads all commits in the folder, and proposes the version after the last one."""
    async with restored(tmp_path / "data", family) as (_, client, table, _):
        refuses(await client.commit(table, table.stage(5)), 400, *INVALID, "skips 2", "load the table again")
        assert write.published(table.folder) == [0, 1]
        gap = await client.commit(table, table.stage(5))
        refuses(gap, 400, *INVALID, "skips 2")
        assert "load the table again" not in gap.text
        ok(await client.commit(table, table.stage(2)))


async def test_commits_that_a_restore_removed_can_be_proposed_again(tmp_path: Path) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, before):
        shutil.rmtree(log_of(table) / "_staged_commits")
        refuses(await client.commit(table, table.stage(9)), 400)
        for version in (2, 3, 4):
            ok(await client.commit(table, proposal_of(table, version)))
        assert await publish_due(house.ports) == 3
        commits = {name: data for name, data in before.items() if name.removesuffix(".json").isdigit()}
        assert at_final_names(table) == commits


async def test_a_published_file_with_the_proposed_bytes_stays(tmp_path: Path) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, before):
        for version in (2, 3, 4):
            ok(await client.commit(table, proposal_of(table, version)))
        assert await publish_due(house.ports) == 3
        assert at_final_names(table) == before
        assert house.ports.alarms.count == 0


async def test_files_derived_from_an_unratified_commit_are_set_aside_while_publishing(
    client: DeltaClient, house: House
) -> None:
    """Another writer bypassed the catalog after the version was ratified and before it was published."""
    table = await client.make()
    for version in (1, 2):
        ok(await client.commit(table, table.stage(version)))
    for version in (1, 2, 3):
        (log_of(table) / f"{version:020}.json").write_bytes(write.lines(write.commit_info(version)))
    write_derived_files(table, 2)
    await publish_due(house.ports)
    assert sorted(at_final_names(table)) == [f"{version:020}.json" for version in range(3)]
    staged = [data for name, data in set_aside(table).items() if name.startswith((f"{1:020}", f"{2:020}"))]
    assert at_final_names(table)[f"{2:020}.json"] in staged
    ok(await client.commit(table, table.stage(3), published=2))


def write_now(table: Staged, house: House, version: int, data: bytes) -> None:
    """Write a commit without the catalog, at the current time of its clock."""
    file = log_of(table) / f"{version:020}.json"
    file.write_bytes(data)
    os.utime(file, (house.clock() / 1000, house.clock() / 1000))


async def test_nothing_is_set_aside_while_another_catalog_may_be_writing(client: DeltaClient, house: House) -> None:
    """Two catalogs that manage the same table would set aside each other's commits."""
    table = await client.make()
    write_now(table, house, 1, b"one")
    first = table.stage(1)
    refuses(await client.commit(table, first), 503, "another catalog may still be writing")
    house.clock.advance(QUIET_PERIOD_MS - 1)
    write_now(table, house, 2, b"two")
    house.clock.advance(1)
    refuses(await client.commit(table, first), 503)
    refuses(await client.commit(table, table.stage(3)), 400, *INVALID, "skips 1")
    assert write.published(table.folder) == [0, 1, 2]
    assert house.ports.alarms.count > 0
    house.clock.advance(QUIET_PERIOD_MS)
    ok(await client.commit(table, first))
    assert write.published(table.folder) == [0]
    write_now(table, house, 1, b"three")
    assert await publish_due(house.ports) == 0
    assert at_final_names(table)[f"{1:020}.json"] == b"three"
    house.clock.advance(QUIET_PERIOD_MS)
    assert await publish_due(house.ports) == 1
    assert {b"one", b"two", b"three"} < set(set_aside(table).values())


async def test_the_checksum_of_a_commit_that_was_never_ratified_is_set_aside(client: DeltaClient) -> None:
    """Spark reads the protocol and the columns of a version from the checksum file."""
    table = await client.make()
    checksum = log_of(table) / f"{1:020}.crc"
    checksum.write_bytes(b"lost")
    ok(await client.commit(table, table.stage(1)))
    assert not checksum.exists()
    assert b"lost" in set_aside(table).values()


async def test_files_derived_from_ratified_versions_stay(client: DeltaClient, house: House) -> None:
    table = await client.make()
    await commit_and_publish(client, table, house, 1, 2)
    write_derived_files(table, 2)
    before = at_final_names(table)
    (log_of(table) / f"{3:020}.json").write_bytes(b"unratified")
    ok(await client.commit(table, table.stage(3)))
    assert at_final_names(table) == before


class FailingStorage(LocalStorage):
    """A storage that fails after some deletions, as if the server were killed."""

    def __init__(self, folder: Path, deletes: int) -> None:
        super().__init__(folder)
        self.left = deletes

    async def delete(self, root: str, path: str) -> None:
        if self.left == 0:
            raise ConnectionResetError
        self.left -= 1
        await super().delete(root, path)


@pytest.mark.parametrize("deletes", [0, 2, 4, 6])
async def test_setting_files_aside_can_be_interrupted_at_any_point(tmp_path: Path, deletes: int) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, before):
        [found] = (await house.ledger.lineage(table.id)).chain[-1:]  # type: ignore[arg-type]
        failing = replace(house.ports, storage=FailingStorage(tmp_path / "data", deletes))
        with pytest.raises(ConnectionResetError):
            await set_aside_unratified(failing, found, above=1)
        left = [version for version in range(5) if f"{version:020}.json" in at_final_names(table)]
        assert left == list(range(left[-1] + 1)), "no gap"
        assert 2 in left, "so that the next call detects it"
        ok(await client.commit(table, table.stage(2)))
        assert write.published(table.folder) == [0, 1]
        assert set(before.values()) <= {*at_final_names(table).values(), *set_aside(table).values()}


class SlowStorage(LocalStorage):
    """A storage that deletes a file only after another server has ratified and published its version."""

    def __init__(self, folder: Path, client: DeltaClient, table: Staged) -> None:
        super().__init__(folder)
        self.client, self.table = client, table

    async def delete(self, root: str, path: str) -> None:
        if path.endswith(f"{2:020}.json"):
            info = self.table.stage(2)
            ok(await self.client.commit(self.table, info))
            write.publish(self.table.folder, info)
            ok(await self.client.commit(self.table, published=2))
        await super().delete(root, path)


async def test_two_servers_that_set_aside_the_same_file_do_not_remove_a_published_version(tmp_path: Path) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, _):
        [found] = (await house.ledger.lineage(table.id)).chain[-1:]  # type: ignore[arg-type]
        slow = replace(house.ports, storage=SlowStorage(tmp_path / "data", client, table))
        await set_aside_unratified(slow, found, above=1)
        assert await client.announced(table) == ([], 2)
        assert write.published(table.folder) == [0, 1, 2]
        ok(await client.commit(table, table.stage(3), published=2))
