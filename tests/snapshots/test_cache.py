"""What stays in memory, for how long, and when it must not be believed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moorage.core.errors import Damaged
from moorage.formats.delta.replay import to_files
from moorage.snapshots.predicates import Compare
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.local import LocalStorage
from tests.snapshots.log_builder import PROTOCOL, LogBuilder, add, metadata, remove, statistics
from tests.snapshots.test_ratified import Counting


def many(log: LogBuilder, count: int, *, prefix: str = "x") -> None:
    log.commit(*(add(f"{prefix}-{number:060}", stats=statistics(id=(number, number, 0))) for number in range(count)))


async def test_a_version_on_top_of_another_reads_only_its_own_commit(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    many(log, 10)
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage)
    await snapshots.at(log.ref())
    log.commit(add("new"))
    storage.asked.clear()
    assert (await snapshots.at(log.ref())).count == 11
    assert [name for name in storage.asked if name not in ("list", "_last_checkpoint")] == [f"{2:020}.json"]


async def test_versions_of_one_table_share_the_files_they_share(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata())
    many(log, 2_000)
    await snapshots.at(log.ref())
    one = snapshots._cache.nbytes
    for version in range(20):
        log.commit(add(f"small-{version}"), remove(f"x-{version:060}"))
        await snapshots.at(log.ref())
    assert len(snapshots._cache) == 21
    assert snapshots._cache.nbytes < one * 1.2


async def test_what_was_not_used_for_longest_makes_room(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    tables = [LogBuilder(tmp_path / f"t{number}") for number in range(4)]
    for table in tables:
        table.commit(PROTOCOL, metadata())
        many(table, 1_000)
    probe = Snapshots(LocalStorage(tmp_path))
    await probe.at(tables[0].ref())
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage, budget_bytes=int(probe._cache.nbytes * 2.5))
    for table in (*tables[:2], tables[0], tables[2]):  # 0 was used after 1, so 1 has to go
        await snapshots.at(table.ref())
    assert len(snapshots._cache) == 2
    assert snapshots._cache.nbytes <= probe._cache.nbytes * 2.5
    storage.asked.clear()
    await snapshots.at(tables[0].ref())
    assert f"{0:020}.json" not in storage.asked
    await snapshots.at(tables[1].ref())
    assert f"{0:020}.json" in storage.asked


async def test_a_table_larger_than_the_budget_is_read_and_not_kept(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    many(log, 1_000)
    snapshots = Snapshots(LocalStorage(tmp_path), budget_bytes=10_000)
    assert (await snapshots.at(log.ref())).count == 1_000
    assert (len(snapshots._cache), snapshots._cache.nbytes) == (0, 0)


async def test_bounds_that_were_read_count_towards_the_budget(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata())
    many(log, 1_000)
    snapshot = await snapshots.at(log.ref())
    before = snapshots._cache.nbytes
    assert (await snapshots.files(snapshot, Compare(("id",), "=", 7))).num_rows == 1
    assert snapshots._cache.nbytes > before + 16_000


async def test_a_folder_that_was_emptied_and_filled_anew_is_read_anew(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata(), add("old"), at_ms=1_000)
    log.commit(add("older"), at_ms=2_000)
    assert (await snapshots.at(log.ref())).count == 2
    log.commits.clear()
    log.commit(PROTOCOL, metadata(), add("new"), at_ms=5_000)
    log.commit(add("newer"), at_ms=6_000)
    log.commit(add("newest"), at_ms=7_000)
    files = to_files((await snapshots.at(log.ref())).select())
    assert {file.path for file in files} == {"new", "newer", "newest"}
    assert {file.path for file in to_files((await snapshots.at(log.ref(), 1)).select())} == {"new", "newer"}


async def test_ours_and_theirs_are_not_mixed_up(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata(), add("a"))
    ours, theirs = await snapshots.at(log.ref(head=0)), await snapshots.at(log.ref())
    assert (ours.seen, theirs.seen is None) == (None, False)


async def test_callers_who_ask_at_once_share_one_load(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    many(log, 100)
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage)
    found = await asyncio.gather(*(snapshots.at(log.ref(head=1)) for _ in range(20)))
    assert len({id(snapshot) for snapshot in found}) == 1
    assert storage.asked.count(f"{1:020}.json") == 1


async def test_a_caller_who_leaves_does_not_stop_the_others(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    many(log, 100)
    snapshots = Snapshots(LocalStorage(tmp_path))
    leaver, stayer = (asyncio.ensure_future(snapshots.at(log.ref(head=1))) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    assert (await stayer).count == 100
    with pytest.raises(asyncio.CancelledError):
        await leaver


async def test_a_failed_load_is_tried_again_by_the_next_caller(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata(), add("a"))
    log.write(f"{0:020}.json", b"{")
    with pytest.raises(Damaged):
        await snapshots.at(log.ref(head=0))
    log.write(f"{0:020}.json", log.bytes_of(0))
    assert (await snapshots.at(log.ref(head=0))).count == 1
