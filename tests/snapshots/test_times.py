"""Time travel uses the timestamps in the commits if a table has them, and otherwise those of the files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.core.errors import Damaged, InvalidInput, VersionNotFound
from moorage.snapshots.snapshots import Snapshots
from moorage.snapshots.table_ref import Ratified
from tests.snapshots.log_builder import FEATURES, IN_COMMIT_TIMES, PROTOCOL, LogBuilder, add, metadata

START = datetime(2024, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


SINCE_VERSION_2 = {
    **IN_COMMIT_TIMES,
    "delta.inCommitTimestampEnablementVersion": "2",
    "delta.inCommitTimestampEnablementTimestamp": str(START_MS + 20),
}


def moment(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def info(ms: int) -> dict[str, Any]:
    return {"commitInfo": {"inCommitTimestamp": START_MS + ms, "timestamp": 5}}


def by_files(log: LogBuilder, *times: int) -> None:
    log.commit(PROTOCOL, metadata(), at_ms=START_MS + times[0])
    for ms in times[1:]:
        log.commit(add(f"{ms}"), at_ms=START_MS + ms)


def by_commits(log: LogBuilder, *times: int) -> None:
    log.commit(
        info(times[0]), {"protocol": FEATURES}, metadata(configuration=IN_COMMIT_TIMES), at_ms=START_MS + 900_000
    )
    for ms in times[1:]:
        log.commit(info(ms), add(f"{ms}"), at_ms=START_MS + 900_000)


@pytest.mark.parametrize("write", [by_files, by_commits])
@pytest.mark.parametrize(("ms", "version"), [(0, 0), (9, 0), (10, 1), (15, 1), (20, 2), (29, 2), (30, 3), (99_999, 3)])
async def test_a_timestamp_selects_the_last_version_committed_by_then(
    log: LogBuilder, snapshots: Snapshots, write: Any, ms: int, version: int
) -> None:
    write(log, 0, 10, 20, 30)
    snapshot = await snapshots.at(log.ref(), moment(ms))
    assert snapshot.version == version
    assert snapshot.timestamp_ms == START_MS + version * 10


@pytest.mark.parametrize("write", [by_files, by_commits])
@pytest.mark.parametrize(("ms", "version"), [(-5, 0), (0, 0), (1, 1), (10, 1), (11, 2), (30, 3)])
async def test_version_from_is_the_first_version_at_or_after_a_timestamp(
    log: LogBuilder, snapshots: Snapshots, write: Any, ms: int, version: int
) -> None:
    write(log, 0, 10, 20, 30)
    assert await snapshots.version_from(log.ref(), moment(ms)) == version


@pytest.mark.parametrize("write", [by_files, by_commits])
async def test_timestamps_before_the_first_and_after_the_last_version_give_different_errors(
    log: LogBuilder, snapshots: Snapshots, write: Any
) -> None:
    write(log, 0, 10)
    with pytest.raises(VersionNotFound, match="no version committed at or before 2023-12-31T23:59:59"):
        await snapshots.at(log.ref(), moment(-1))
    with pytest.raises(VersionNotFound, match="no version committed at or after "):
        await snapshots.version_from(log.ref(), moment(11))


async def test_file_times_that_decrease_are_adjusted_to_increase(log: LogBuilder, snapshots: Snapshots) -> None:
    by_files(log, 100, 50, 50, 200)
    assert [(await snapshots.at(log.ref(), v)).timestamp_ms - START_MS for v in range(4)] == [100, 101, 102, 200]
    assert await snapshots.version_at(log.ref(), moment(100)) == 0
    assert await snapshots.version_at(log.ref(), moment(101)) == 1
    assert await snapshots.version_at(log.ref(), moment(199)) == 2


async def test_a_version_after_a_cached_one_gets_the_same_adjusted_time(log: LogBuilder, snapshots: Snapshots) -> None:
    by_files(log, 100, 50)
    assert (await snapshots.at(log.ref())).timestamp_ms - START_MS == 101
    log.commit(add("late"), at_ms=START_MS + 70)
    assert (await snapshots.at(log.ref())).timestamp_ms - START_MS == 102


async def test_in_commit_timestamps_may_begin_at_a_later_version(log: LogBuilder, snapshots: Snapshots) -> None:
    by_files(log, 0, 10)
    log.commit(info(20), {"protocol": FEATURES}, metadata(configuration=SINCE_VERSION_2), at_ms=START_MS + 900_000)
    log.commit(info(30), at_ms=START_MS + 900_000)
    for ms, version in ((0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3)):
        assert await snapshots.version_at(log.ref(), moment(ms)) == version


async def test_a_copied_table_keeps_the_timestamps_of_its_commits(log: LogBuilder, snapshots: Snapshots) -> None:
    by_files(log, 500_000, 500_001)  # the copy was made long after the commits of version 2 and 3
    log.commit(info(20), {"protocol": FEATURES}, metadata(configuration=SINCE_VERSION_2), at_ms=START_MS + 500_002)
    log.commit(info(30), at_ms=START_MS + 500_003)
    assert await snapshots.version_at(log.ref(), moment(25)) == 2


async def test_time_travel_in_a_cleaned_log_finds_only_the_remaining_versions(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    by_files(log, 0, 10, 20, 30)
    log.checkpoint(2)
    log.delete_commits(0, 1)
    assert await snapshots.version_at(log.ref(), moment(25)) == 2
    with pytest.raises(VersionNotFound, match="the oldest available version is 2"):
        await snapshots.version_at(log.ref(), moment(15))


async def test_time_travel_finds_ratified_commits(log: LogBuilder, snapshots: Snapshots) -> None:
    by_commits(log, 0, 10)
    log.commit(info(20), add("x"), publish=False)
    ref = log.ref(ratified=(Ratified(version=2, data=log.bytes_of(2)),))
    assert await snapshots.version_at(ref, moment(19)) == 1
    assert await snapshots.version_at(ref, moment(20)) == 2


async def test_a_commit_without_its_required_timestamp_is_damage(log: LogBuilder, snapshots: Snapshots) -> None:
    by_commits(log, 0, 10)
    log.commit(add("x"))
    with pytest.raises(Damaged, match="version 2 of the table has no inCommitTimestamp"):
        await snapshots.version_at(log.ref(), moment(15))


async def test_a_timestamp_without_a_time_zone_is_refused(log: LogBuilder, snapshots: Snapshots) -> None:
    by_files(log, 0)
    with pytest.raises(InvalidInput, match="no time zone"):
        await snapshots.at(log.ref(), datetime(2024, 1, 1))
