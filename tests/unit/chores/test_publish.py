"""Publishing: in order, once, compared and never replaced. A damaged line stops no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from moorage.core.errors import Unavailable
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN
from moorage.storage.local import LocalStorage
from moorage.storage.port import NewObject, Placed
from moorage.testing import builders as make
from moorage.usecases.upkeep.publish import publish_due
from moorage.usecases.upkeep.purge import purge_due
from tests.unit.chores.lakes import (
    NO_LIMIT,
    ClockedPorts,
    commit,
    content,
    new_table,
    published_versions,
    ratified,
    target,
    waiting,
)

DAY_MS = 24 * 60 * 60 * 1000


async def test_the_bytes_reach_their_final_names_in_order(ports: ClockedPorts) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, *range(130))
    assert await publish_due(ports) == 130
    assert await published_versions(ports.storage, f"{ports.roots.managed}t/") == {n: content(n) for n in range(130)}
    head = await ports.ledger.head(table, MAIN)
    assert head is not None
    assert (head.version, head.published) == (129, 129)
    assert await waiting(ports) == []
    assert await publish_due(ports) == 0


async def test_a_staged_file_is_published_if_the_ledger_has_no_bytes(ports: ClockedPorts) -> None:
    table, root = await new_table(ports, "t"), f"{ports.roots.managed}t/"
    for version in range(3):
        await ports.storage.put_new(root, f"_staged/{version}.json", content(version))
        await commit(ports, table, version, keep_bytes=False)
    assert await publish_due(ports) == 3
    assert await published_versions(ports.storage, root) == {n: content(n) for n in range(3)}


async def test_a_file_that_already_has_the_ratified_bytes_is_accepted(ports: ClockedPorts) -> None:
    table, root = await new_table(ports, "t"), f"{ports.roots.managed}t/"
    await commit(ports, table, 0, 1, 2)
    await ports.storage.put_new(root, target(1), content(1))  # the client published it
    assert await publish_due(ports) == 3
    assert await waiting(ports) == []


@pytest.mark.parametrize("existing", [b"", content(1)[:-1], content(2), content(1) + b"\n"])
async def test_other_bytes_under_a_final_name_stop_the_line_and_no_other(
    ports: ClockedPorts, caplog: pytest.LogCaptureFixture, existing: bytes
) -> None:
    tables = [await new_table(ports, name) for name in ("a", "b", "c")]
    for table, versions in zip(tables, (3, 150, 3), strict=True):
        await commit(ports, table, *range(versions))
    root = f"{ports.roots.managed}b/"
    await ports.storage.put_new(root, target(1), existing)
    with caplog.at_level(logging.ERROR):
        assert await publish_due(ports) == 7
    assert f"{target(1)} of table {tables[1]} is not what was ratified as version 1" in caplog.text
    assert await published_versions(ports.storage, root) == {0: content(0), 1: existing}
    assert len(await published_versions(ports.storage, f"{ports.roots.managed}c/")) == 3
    assert [staged.version for staged in await waiting(ports)] == list(range(1, 150))
    assert {staged.table for staged in await waiting(ports)} == {tables[1]}


async def test_a_damaged_line_continues_once_it_is_repaired(ports: ClockedPorts) -> None:
    table, root = await new_table(ports, "t"), f"{ports.roots.managed}t/"
    await commit(ports, table, 0, 1, 2)
    await ports.storage.put_new(root, target(1), b"other")
    assert await publish_due(ports) == 1
    await ports.storage.delete(root, target(1))
    assert await publish_due(ports) == 2
    assert await waiting(ports) == []


async def test_a_damaged_line_is_logged_at_most_every_ten_minutes(
    ports: ClockedPorts, caplog: pytest.LogCaptureFixture
) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, 0)
    await ports.storage.put_new(f"{ports.roots.managed}t/", target(0), b"other")
    with caplog.at_level(logging.ERROR):
        for _ in range(20):
            await publish_due(ports)
            ports.clock.advance(1000)
        assert len(caplog.records) == 1
        ports.clock.advance(10 * 60 * 1000)
        await publish_due(ports)
    assert len(caplog.records) == 2


async def test_a_staged_file_that_was_changed_or_lost_is_never_published(
    ports: ClockedPorts, caplog: pytest.LogCaptureFixture
) -> None:
    lost, changed = await new_table(ports, "lost"), await new_table(ports, "changed")
    await commit(ports, lost, 0, keep_bytes=False)
    await commit(ports, changed, 0, keep_bytes=False)
    await ports.storage.put_new(f"{ports.roots.managed}changed/", "_staged/0.json", content(0).upper())
    with caplog.at_level(logging.ERROR):
        assert await publish_due(ports) == 0
    assert len(caplog.records) == 2
    for name in ("lost", "changed"):
        assert await published_versions(ports.storage, f"{ports.roots.managed}{name}/") == {}


async def test_a_line_whose_staged_file_was_changed_continues_once_the_ratified_bytes_are_published(
    ports: ClockedPorts,
) -> None:
    table, root = await new_table(ports, "t"), f"{ports.roots.managed}t/"
    await commit(ports, table, 0, keep_bytes=False)
    await ports.storage.put_new(root, "_staged/0.json", content(0).upper())
    assert await publish_due(ports) == 0
    await ports.storage.put_new(root, target(0), content(0))  # the client published it
    assert await publish_due(ports) == 1
    assert await waiting(ports) == []


async def test_a_location_that_storage_refuses_stops_no_other_line(
    ports: ClockedPorts, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = await new_table(ports, "a", location="s3://elsewhere/t/")
    nowhere = make.table((await make.lake(ports.ledger, catalog_name="x")).namespace, "n")
    await make.add(ports.ledger, nowhere)
    own = await new_table(ports, "own")
    for table in (foreign, nowhere.id, own):
        await commit(ports, table, 0)
    with caplog.at_level(logging.ERROR):
        assert await publish_due(ports) == 1
    assert {staged.table for staged in await waiting(ports)} == {foreign, nowhere.id}
    assert "is outside the folders" in caplog.text
    assert "no location" in caplog.text


async def test_a_commit_without_a_digest_is_compared_by_size(ports: ClockedPorts) -> None:
    table = await new_table(ports, "t")
    await ports.ledger.append(
        make.draft(ratified(table, 0, digest=False), attachments=[make.attached(table, 0, staged=content(0))])
    )
    assert await publish_due(ports) == 1


async def test_only_versions_older_than_the_limit_are_published(ports: ClockedPorts) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, 0)
    ports.clock.advance(1000)
    await commit(ports, table, 1)
    assert await publish_due(ports, older_than_ms=2000) == 0
    ports.clock.advance(1000)
    assert await publish_due(ports, older_than_ms=2000) == 1
    assert [staged.version for staged in await waiting(ports)] == [1]


async def test_concurrent_publishers_write_each_version_once(ports: ClockedPorts) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, *range(60))
    await asyncio.gather(*[publish_due(ports) for _ in range(4)])
    assert await published_versions(ports.storage, f"{ports.roots.managed}t/") == {n: content(n) for n in range(60)}
    assert await waiting(ports) == []


class Failing(LocalStorage):
    """A disk that fails after some writes."""

    def __init__(self, folder: Path, writes: int) -> None:
        super().__init__(folder)
        self.left = writes

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        if self.left == 0:
            raise Unavailable("the disk is full")
        self.left -= 1
        return await super().put_new(root, path, data)

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        raise Unavailable("the disk is full")


class Crowded(LocalStorage):
    """A disk that counts concurrent writes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.writing = self.most = 0
        self.batches: list[int] = []

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        self.batches.append(len(objects))
        return await super().put_all_new(objects)

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        self.writing += 1
        self.most = max(self.most, self.writing)
        try:
            await asyncio.sleep(0)
            return await super().put_new(root, path, data)
        finally:
            self.writing -= 1


@pytest.mark.parametrize(
    ("keep_bytes", "together", "most"), [(True, [18], 0), (False, [], 1)], ids=["in the ledger", "in a staged file"]
)
async def test_versions_are_published_together_unless_they_may_be_large(
    ports: ClockedPorts, folder: Path, *, keep_bytes: bool, together: list[int], most: int
) -> None:
    for name in "abcdef":
        table = await new_table(ports, name)
        for version in range(3):
            await ports.storage.put_new(f"{ports.roots.managed}{name}/", f"_staged/{version}.json", content(version))
            await commit(ports, table, version, keep_bytes=keep_bytes)
    disk = Crowded(folder)
    assert await publish_due(replace(ports, storage=disk)) == 18
    assert (disk.batches, disk.most) == (together, most)
    assert await waiting(ports) == []


async def test_an_interrupted_run_is_continued_by_the_next(
    ports: ClockedPorts, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, *range(10))
    assert await publish_due(replace(ports, storage=Failing(folder, 4))) == 4
    head = await ports.ledger.head(table, MAIN)
    assert head is not None
    assert head.published == 3
    assert await publish_due(ports) == 6


async def test_a_dropped_table_is_still_published_and_a_purged_one_is_not(ports: ClockedPorts) -> None:
    dropped, purged = await new_table(ports, "dropped"), await new_table(ports, "purged")
    for table in (dropped, purged):
        await commit(ports, table, 0)
        await make.add(ports.ledger, make.drop(table))
    await make.add(ports.ledger, make.purge(purged))
    assert await publish_due(ports) == 1
    assert await ports.storage.read(f"{ports.roots.managed}dropped/", target(0), limit=NO_LIMIT) == content(0)
    assert await published_versions(ports.storage, f"{ports.roots.managed}purged/") == {}


class PurgedDuringWrite(LocalStorage):
    """A disk on which the table is dropped and purged just before its file is written."""

    def __init__(self, folder: Path, ports: ClockedPorts, table: SecurableId) -> None:
        super().__init__(folder)
        self.ports = ports
        self.table = table

    async def purge(self) -> None:
        await make.add(self.ports.ledger, make.drop(self.table, hold_ms=0))
        assert await purge_due(self.ports) == 1

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        await self.purge()
        return await super().put_new(root, path, data)

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        if objects:
            await self.purge()
        return await super().put_all_new(objects)


@pytest.mark.parametrize("versions", [1, 20])
async def test_a_table_that_is_purged_while_it_is_published_leaves_no_file(
    ports: ClockedPorts, folder: Path, versions: int
) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, *range(versions))
    assert await publish_due(replace(ports, storage=PurgedDuringWrite(folder, ports, table))) == 0
    assert await ports.storage.list(ports.roots.managed, "") == ()
    assert await waiting(ports) == []
