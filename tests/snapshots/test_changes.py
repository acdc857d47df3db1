"""What each version changed, for change feeds and projections."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput, VersionNotFound
from moorage.snapshots.snapshots import Changes, Snapshots
from moorage.snapshots.table_ref import Ratified, TableRef
from tests.snapshots.log_builder import FEATURES, IN_COMMIT_TIMES, PROTOCOL, LogBuilder, add, metadata, remove


async def read(snapshots: Snapshots, ref: TableRef, first: int, last: int | None = None) -> list[Changes]:
    return [changes async for changes in snapshots.changes(ref, first, last)]


def write_three_versions(log: LogBuilder) -> None:
    log.commit(PROTOCOL, metadata(), add("a"), at_ms=1_000)
    log.commit(remove("a", size=1), add("b"), {"commitInfo": {"operation": "UPDATE"}}, at_ms=2_000)
    cdc = {"path": "_change_data/c", "partitionValues": {"p": None}, "size": 3, "dataChange": False}
    log.commit({"cdc": cdc}, remove("b"), add("c", dataChange=False), at_ms=3_000)


async def test_each_version_has_its_adds_removes_and_change_files(log: LogBuilder, snapshots: Snapshots) -> None:
    write_three_versions(log)
    first, second, third = await read(snapshots, log.ref(), 0)
    assert [change.version for change in (first, second, third)] == [0, 1, 2]
    assert [change.timestamp_ms for change in (first, second, third)] == [1_000, 2_000, 3_000]
    assert first.commit.metadata is not None
    assert first.commit.protocol is not None
    assert [file.path for file in second.commit.removes] == ["a"]
    assert [file.path for file in second.commit.adds] == ["b"]
    assert second.commit.commit_info == {"operation": "UPDATE"}
    assert [(file.path, file.partition_values) for file in third.commit.cdc] == [("_change_data/c", {"p": None})]
    assert [file.data_change for file in third.commit.adds] == [False]


async def test_changes_are_returned_from_the_first_to_the_last_requested_version(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    write_three_versions(log)
    assert [change.version for change in await read(snapshots, log.ref(), 1, 1)] == [1]
    assert [change.version for change in await read(snapshots, log.ref(), 1)] == [1, 2]
    assert await read(snapshots, log.ref(), 2, 1) == []


async def test_changes_of_ratified_commits_are_read_from_the_ledger(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(
        {"commitInfo": {"inCommitTimestamp": 7}}, {"protocol": FEATURES}, metadata(configuration=IN_COMMIT_TIMES)
    )
    log.commit({"commitInfo": {"inCommitTimestamp": 8}}, add("b"), publish=False)
    ref = log.ref(ratified=(Ratified(version=1, data=log.bytes_of(1)),))
    assert [change.timestamp_ms for change in await read(snapshots, ref, 0)] == [7, 8]


async def test_changes_that_only_a_checkpoint_contains_are_no_longer_available(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    write_three_versions(log)
    log.checkpoint(1)
    log.delete_commits(0, 1)
    for ref in (log.ref(), log.ref(head=2)):
        with pytest.raises(VersionNotFound, match="the changes of version 1 are no longer available"):
            await read(snapshots, ref, 1)
        assert [change.version for change in await read(snapshots, ref, 2)] == [2]


async def test_changes_below_the_floor_are_no_longer_available(log: LogBuilder, snapshots: Snapshots) -> None:
    write_three_versions(log)
    with pytest.raises(VersionNotFound, match="version 0 is no longer available; the oldest available version is 1"):
        await read(snapshots, log.ref(head=2, floor=1), 0)


async def test_changes_of_versions_that_do_not_exist_are_refused(log: LogBuilder, snapshots: Snapshots) -> None:
    write_three_versions(log)
    with pytest.raises(VersionNotFound, match="version 9 does not exist"):
        await read(snapshots, log.ref(), 0, 9)
    with pytest.raises(InvalidInput, match="version -1 is negative"):
        await read(snapshots, log.ref(), -1)


async def test_a_change_file_outside_the_table_is_refused(log: LogBuilder, snapshots: Snapshots) -> None:
    write_three_versions(log)
    log.commit({"cdc": {"path": "../other", "partitionValues": {}, "size": 1}})
    with pytest.raises(InvalidInput, match="outside the table"):
        await read(snapshots, log.ref(), 3)
