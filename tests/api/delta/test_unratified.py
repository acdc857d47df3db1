"""Strays: commits in the log of a managed table that its ledger does not know, above all after a restore."""

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
from moorage.usecases.delta.unratified import STILL_MS, set_unratified_aside
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


def proposed_anew(table: Staged, version: int) -> Body:
    """What a request says of the one commit that was set aside for a version."""
    [file] = (log_of(table) / "_staged_commits").glob(f"{version:020}.*.json")
    data = file.read_bytes()
    timestamp = json.loads(data.splitlines()[0])["commitInfo"]["inCommitTimestamp"]
    said = {"version": version, "timestamp": timestamp, "file_name": file.name, "file_size": len(data)}
    return {**said, "file_modification_timestamp": timestamp}


async def go_on(client: DeltaClient, table: Staged, house: House, *versions: int) -> None:
    for version in versions:
        ok(await client.commit(table, table.stage(version)))
    await publish_due(house.ports)


def sum_up(table: Staged, version: int) -> None:
    """What clients write beside commits: a checkpoint with its hint, checksums, a compaction."""
    log = log_of(table)
    for name in (f"{version:020}.checkpoint.parquet", f"{version:020}.crc", f"{1:020}.{version:020}.compacted.json"):
        (log / name).write_bytes(f"{name} of {version}".encode())
    (log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": 3}))


@asynccontextmanager
async def restored(data: Path, family: str) -> AsyncIterator[tuple[House, DeltaClient, Staged, dict[str, bytes]]]:
    """A table that is at version 1 again and was at 4; and what its log held then."""
    async with open_house(data) as house:
        client = DeltaClient(house.console.http, family)
        await client.furnish()
        table = await client.make()
        await go_on(client, table, house, 1)
        back_up_folder(data, data.parent / "backup.db", lambda _: None)
        await go_on(client, table, house, 2, 3, 4)
        sum_up(table, 4)
    put_back(data)
    async with open_house(data) as house:
        yield house, DeltaClient(house.console.http, family), table, at_final_names(table)


def put_back(data: Path) -> None:
    for file in data.glob("ledger.db*"):
        file.unlink()
    restore_folder(data.parent / "backup.db", data, lambda _: None)


@pytest.fixture(params=["spec", "preview", "v1"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_after_a_restore_a_table_goes_on_and_nothing_of_what_lay_there_is_lost(
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
        assert await client.told(table) == ([3], 3)
        assert house.ports.alarms.count == 1


async def test_a_client_that_took_strays_for_versions_is_told_to_load_the_table_again(
    tmp_path: Path, family: str
) -> None:
    """Spark does: it reads all commits that it finds, and asks for the version behind the last one."""
    async with restored(tmp_path / "data", family) as (_, client, table, _):
        refuses(await client.commit(table, table.stage(5)), 400, *INVALID, "skips 2", "load the table again")
        assert write.published(table.folder) == [0, 1]
        gap = await client.commit(table, table.stage(5))
        refuses(gap, 400, *INVALID, "skips 2")
        assert "load the table again" not in gap.text
        ok(await client.commit(table, table.stage(2)))


async def test_what_a_restore_forgot_may_be_proposed_again(tmp_path: Path) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, before):
        shutil.rmtree(log_of(table) / "_staged_commits")
        refuses(await client.commit(table, table.stage(9)), 400)
        for version in (2, 3, 4):
            ok(await client.commit(table, proposed_anew(table, version)))
        assert await publish_due(house.ports) == 3
        commits = {name: data for name, data in before.items() if name.removesuffix(".json").isdigit()}
        assert at_final_names(table) == commits


async def test_the_same_bytes_under_a_final_name_are_no_stray(tmp_path: Path) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, before):
        for version in (2, 3, 4):
            ok(await client.commit(table, proposed_anew(table, version)))
        assert await publish_due(house.ports) == 3
        assert at_final_names(table) == before
        assert house.ports.alarms.count == 0


async def test_sums_of_another_history_go_when_its_commit_is_found_while_publishing(
    client: DeltaClient, house: House
) -> None:
    """Somebody wrote past the catalog after the version was ratified, and before it was published."""
    table = await client.make()
    for version in (1, 2):
        ok(await client.commit(table, table.stage(version)))
    for version in (1, 2, 3):
        (log_of(table) / f"{version:020}.json").write_bytes(write.lines(write.commit_info(version)))
    sum_up(table, 2)
    await publish_due(house.ports)
    assert sorted(at_final_names(table)) == [f"{version:020}.json" for version in range(3)]
    staged = [data for name, data in set_aside(table).items() if name.startswith((f"{1:020}", f"{2:020}"))]
    assert at_final_names(table)[f"{2:020}.json"] in staged
    ok(await client.commit(table, table.stage(3), published=2))


def write_now(table: Staged, house: House, version: int, data: bytes) -> None:
    """A commit that somebody writes past the catalog at this moment of its clock."""
    file = log_of(table) / f"{version:020}.json"
    file.write_bytes(data)
    os.utime(file, (house.clock() / 1000, house.clock() / 1000))


async def test_nothing_is_touched_while_another_catalog_may_be_at_work(client: DeltaClient, house: House) -> None:
    """Two that hold the same table for their own would set aside each other's commits."""
    table = await client.make()
    write_now(table, house, 1, b"one")
    first = table.stage(1)
    refuses(await client.commit(table, first), 503, "another catalog may be at work")
    house.clock.advance(STILL_MS - 1)
    write_now(table, house, 2, b"two")
    house.clock.advance(1)
    refuses(await client.commit(table, first), 503)
    refuses(await client.commit(table, table.stage(3)), 400, *INVALID, "skips 1")
    assert write.published(table.folder) == [0, 1, 2]
    assert house.ports.alarms.count > 0
    house.clock.advance(STILL_MS)
    ok(await client.commit(table, first))
    assert write.published(table.folder) == [0]
    write_now(table, house, 1, b"three")
    assert await publish_due(house.ports) == 0
    assert at_final_names(table)[f"{1:020}.json"] == b"three"
    house.clock.advance(STILL_MS)
    assert await publish_due(house.ports) == 1
    assert {b"one", b"two", b"three"} < set(set_aside(table).values())


async def test_a_checksum_of_a_commit_that_was_lost_before_it_was_published_is_set_aside(client: DeltaClient) -> None:
    """Spark takes the protocol and the columns of a version from it."""
    table = await client.make()
    checksum = log_of(table) / f"{1:020}.crc"
    checksum.write_bytes(b"lost")
    ok(await client.commit(table, table.stage(1)))
    assert not checksum.exists()
    assert b"lost" in set_aside(table).values()


async def test_what_sums_up_ratified_versions_stays(client: DeltaClient, house: House) -> None:
    table = await client.make()
    await go_on(client, table, house, 1, 2)
    sum_up(table, 2)
    before = at_final_names(table)
    (log_of(table) / f"{3:020}.json").write_bytes(b"stray")
    ok(await client.commit(table, table.stage(3)))
    assert at_final_names(table) == before


class Interrupted(LocalStorage):
    """A disk on which only some files can be removed before the server dies."""

    def __init__(self, folder: Path, deletes: int) -> None:
        super().__init__(folder)
        self.left = deletes

    async def delete(self, root: str, path: str) -> None:
        if self.left == 0:
            raise ConnectionResetError
        self.left -= 1
        await super().delete(root, path)


@pytest.mark.parametrize("deletes", [0, 2, 4, 6])
async def test_setting_aside_may_be_interrupted_anywhere(tmp_path: Path, deletes: int) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, before):
        [found] = (await house.ledger.lineage(table.id)).chain[-1:]  # type: ignore[arg-type]
        dying = replace(house.ports, storage=Interrupted(tmp_path / "data", deletes))
        with pytest.raises(ConnectionResetError):
            await set_unratified_aside(dying, found, sound=1)
        left = [version for version in range(5) if f"{version:020}.json" in at_final_names(table)]
        assert left == list(range(left[-1] + 1)), "no hole"
        assert 2 in left, "so that the next one knows"
        ok(await client.commit(table, table.stage(2)))
        assert write.published(table.folder) == [0, 1]
        assert set(before.values()) <= {*at_final_names(table).values(), *set_aside(table).values()}


class Slow(LocalStorage):
    """A disk that removes a stray so late that another server has ratified and published the version by then."""

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


async def test_two_servers_at_the_same_stray_take_nothing_away_that_was_published(tmp_path: Path) -> None:
    async with restored(tmp_path / "data", "spec") as (house, client, table, _):
        [found] = (await house.ledger.lineage(table.id)).chain[-1:]  # type: ignore[arg-type]
        slow = replace(house.ports, storage=Slow(tmp_path / "data", client, table))
        await set_unratified_aside(slow, found, sound=1)
        assert await client.told(table) == ([], 2)
        assert write.published(table.folder) == [0, 1, 2]
        ok(await client.commit(table, table.stage(3), published=2))
