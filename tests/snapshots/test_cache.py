"""What the cache of snapshots keeps, what it evicts, and when it must not be used."""

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


def add_files(log: LogBuilder, count: int, *, prefix: str = "x") -> None:
    log.commit(*(add(f"{prefix}-{number:060}", stats=statistics(id=(number, number, 0))) for number in range(count)))


async def test_a_version_after_a_cached_one_reads_only_its_own_commit(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    add_files(log, 10)
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage)
    await snapshots.at(log.ref())
    log.commit(add("new"))
    storage.reads.clear()
    assert (await snapshots.at(log.ref())).count == 11
    assert storage.reads == ["list", f"{2:020}.json"]


async def test_a_log_that_was_cut_back_behind_the_cached_version_is_read_again(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    log.commit(PROTOCOL, metadata())
    log.commit(add("a"))
    log.commit(add("b"))
    assert (await snapshots.at(log.ref())).version == 2
    (log.log / f"{2:020}.json").unlink()
    assert (await snapshots.at(log.ref())).version == 1


async def test_versions_of_one_table_share_the_memory_of_common_files(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata())
    add_files(log, 2_000)
    await snapshots.at(log.ref())
    one = snapshots._cache.nbytes
    for version in range(20):
        log.commit(add(f"small-{version}"), remove(f"x-{version:060}"))
        await snapshots.at(log.ref())
    assert len(snapshots._cache) == 21
    assert snapshots._cache.nbytes < one * 1.2


async def test_the_least_recently_used_snapshot_is_evicted(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    tables = [LogBuilder(tmp_path / f"t{number}") for number in range(4)]
    for table in tables:
        table.commit(PROTOCOL, metadata())
        add_files(table, 1_000)
    probe = Snapshots(LocalStorage(tmp_path))
    await probe.at(tables[0].ref())
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage, budget_bytes=int(probe._cache.nbytes * 2.5))
    for table in (*tables[:2], tables[0], tables[2]):  # table 0 was used after table 1, so table 1 is evicted
        await snapshots.at(table.ref())
    assert len(snapshots._cache) == 2
    assert snapshots._cache.nbytes <= probe._cache.nbytes * 2.5
    storage.reads.clear()
    await snapshots.at(tables[0].ref())
    assert f"{0:020}.json" not in storage.reads
    await snapshots.at(tables[1].ref())
    assert f"{0:020}.json" in storage.reads


async def test_a_table_larger_than_the_budget_is_read_and_not_cached(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    add_files(log, 1_000)
    snapshots = Snapshots(LocalStorage(tmp_path), budget_bytes=10_000)
    assert (await snapshots.at(log.ref())).count == 1_000
    assert (len(snapshots._cache), snapshots._cache.nbytes) == (0, 0)


async def test_parsed_bounds_count_towards_the_budget(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata())
    add_files(log, 1_000)
    snapshot = await snapshots.at(log.ref())
    before = snapshots._cache.nbytes
    assert (await snapshots.files(snapshot, Compare(("id",), "=", 7))).num_rows == 1
    assert snapshots._cache.nbytes > before + 16_000


async def test_a_folder_whose_log_was_replaced_is_read_again(log: LogBuilder, snapshots: Snapshots) -> None:
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


async def test_snapshots_of_a_managed_and_an_external_table_are_cached_separately(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    log.commit(PROTOCOL, metadata(), add("a"))
    ours, theirs = await snapshots.at(log.ref(head=0)), await snapshots.at(log.ref())
    assert (ours.seen, theirs.seen is None) == (None, False)


async def test_concurrent_callers_share_one_load(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    add_files(log, 100)
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage)
    found = await asyncio.gather(*(snapshots.at(log.ref(head=1)) for _ in range(20)))
    assert len({id(snapshot) for snapshot in found}) == 1
    assert storage.reads.count(f"{1:020}.json") == 1


async def test_a_cancelled_caller_does_not_cancel_the_others(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(PROTOCOL, metadata())
    add_files(log, 100)
    snapshots = Snapshots(LocalStorage(tmp_path))
    cancelled, other = (asyncio.ensure_future(snapshots.at(log.ref(head=1))) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await other).count == 100
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_failed_load_is_retried_by_the_next_caller(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata(), add("a"))
    log.write(f"{0:020}.json", b"{")
    with pytest.raises(Damaged):
        await snapshots.at(log.ref(head=0))
    log.write(f"{0:020}.json", log.bytes_of(0))
    assert (await snapshots.at(log.ref(head=0))).count == 1
