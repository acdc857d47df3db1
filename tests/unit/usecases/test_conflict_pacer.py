"""Writers that conflicted over a version retry one after another, and none waits forever."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from moorage.core.errors import VersionTaken
from moorage.usecases import local_state
from moorage.usecases.local_state import ConflictPacer, LocalState, TableIdQueue

LONG = 600.0


async def released(*waiting: asyncio.Task[None]) -> list[bool]:
    """Which writers may retry by now, once every task that can has run."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in waiting]


def conflict(pacer: ConflictPacer, count: int, *, contested: bool = False) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(pacer.wait(lambda: contested)) for _ in range(count)]


async def test_the_first_conflict_is_answered_immediately_and_the_others_wait() -> None:
    pacer = ConflictPacer(LONG, retry_s=0)
    waiting = conflict(pacer, 3)
    assert await released(*waiting) == [True, False, False]
    pacer.record_version()
    pacer.record_version()
    await asyncio.gather(*waiting)


async def test_each_new_version_releases_one_writer_in_the_order_of_their_conflicts() -> None:
    pacer = ConflictPacer(LONG, retry_s=0)
    waiting = conflict(pacer, 4)
    assert await released(*waiting) == [True, False, False, False]
    pacer.record_version()
    assert await released(*waiting) == [True, True, False, False]
    pacer.record_version()
    pacer.record_version()
    assert await released(*waiting) == [True, True, True, True]


async def test_versions_in_quick_succession_release_one_writer_at_a_time() -> None:
    pacer = ConflictPacer(LONG, retry_s=0.5)
    waiting = conflict(pacer, 4)
    assert await released(*waiting) == [True, False, False, False]
    for _ in range(3):
        pacer.record_version()
    assert await released(*waiting) == [True, True, False, False]
    await asyncio.sleep(0.6)  # no further version: the next writer retries on the newest one
    assert await released(*waiting) == [True, True, True, False]
    await asyncio.sleep(0.6)
    pacer.record_version()
    await asyncio.gather(*waiting)


async def test_a_version_without_waiting_writers_releases_the_next_one_immediately() -> None:
    pacer = ConflictPacer(LONG, retry_s=0)
    await asyncio.gather(*conflict(pacer, 1))
    pacer.record_version()
    assert await released(*conflict(pacer, 1)) == [True]


async def test_a_cancelled_writer_uses_up_no_turn() -> None:
    pacer = ConflictPacer(LONG, retry_s=0)
    waiting = conflict(pacer, 3)
    await released(*waiting)
    waiting[1].cancel()
    await released(*waiting)
    pacer.record_version()
    assert await released(*waiting) == [True, True, True]
    assert not waiting[2].cancelled()


async def test_without_a_new_version_every_writer_is_released_in_the_end() -> None:
    await asyncio.gather(*conflict(ConflictPacer(0.01), 5))


async def test_no_writer_is_released_while_the_next_version_is_being_made() -> None:
    hold, pacer = 0.2, ConflictPacer(0.2, retry_s=0)
    waiting = conflict(pacer, 3, contested=True)
    await asyncio.sleep(1.5 * hold)  # the disk is slow
    assert await released(*waiting) == [True, False, False]
    pacer.record_version()
    assert await released(*waiting) == [True, True, False]
    pacer.record_version()
    await asyncio.gather(*waiting)


async def test_no_writer_is_released_before_its_turn_while_versions_appear() -> None:
    hold, pacer = 0.5, ConflictPacer(0.5, retry_s=0)
    waiting = conflict(pacer, 40)
    began, moves = time.monotonic(), 0
    while time.monotonic() < began + 1.5 * hold:
        await asyncio.sleep(hold / 20)
        pacer.record_version()
        moves += 1
    assert sum(await released(*waiting)) == min(1 + moves, 40)
    await asyncio.gather(*waiting)


async def race(local: LocalState, *, conflict: bool) -> None:
    with suppress(VersionTaken):
        async with local.race(TableIdQueue("a table")):
            if conflict:
                raise VersionTaken("another writer was faster")


async def test_a_later_conflict_waits_for_the_version_of_the_released_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_state, "_LONGEST_WAIT_SECONDS", LONG)
    local = LocalState()
    await race(local, conflict=True)
    second = asyncio.create_task(race(local, conflict=True))
    assert await released(second) == [False]
    await race(local, conflict=False)
    assert await released(second) == [True]
