"""Those who lost a race are told one after another, and none of them for ever."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from moorage.core.errors import VersionTaken
from moorage.usecases.settling import turns
from moorage.usecases.settling.turns import Losers, race_for

LONG = 600.0


async def told(*hearing: asyncio.Task[None]) -> list[bool]:
    """Who has heard by now, once everybody who can has run."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in hearing]


def lose(losers: Losers, count: int, *, contested: bool = False) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(losers.hear_in_turn(lambda: contested)) for _ in range(count)]


async def test_the_first_who_loses_hears_it_at_once_and_the_others_wait() -> None:
    losers = Losers(LONG)
    hearing = lose(losers, 3)
    assert await told(*hearing) == [True, False, False]
    losers.moved()
    losers.moved()
    await asyncio.gather(*hearing)


async def test_each_new_version_lets_one_more_hear_it_in_the_order_of_their_losses() -> None:
    losers = Losers(LONG)
    hearing = lose(losers, 4)
    assert await told(*hearing) == [True, False, False, False]
    losers.moved()
    assert await told(*hearing) == [True, True, False, False]
    losers.moved()
    losers.moved()
    assert await told(*hearing) == [True, True, True, True]


async def test_a_version_that_nobody_waited_for_lets_the_next_loser_hear_at_once() -> None:
    losers = Losers(LONG)
    await asyncio.gather(*lose(losers, 1))
    losers.moved()
    assert await told(*lose(losers, 1)) == [True]


async def test_who_went_away_is_not_counted() -> None:
    losers = Losers(LONG)
    hearing = lose(losers, 3)
    await told(*hearing)
    hearing[1].cancel()
    await told(*hearing)
    losers.moved()
    assert await told(*hearing) == [True, True, True]
    assert not hearing[2].cancelled()


async def test_without_a_new_version_everybody_hears_it_in_the_end() -> None:
    await asyncio.gather(*lose(Losers(0.01), 5))


async def test_nobody_is_let_go_while_somebody_is_about_to_make_the_next_version() -> None:
    hold, losers = 0.2, Losers(0.2)
    hearing = lose(losers, 3, contested=True)
    await asyncio.sleep(1.5 * hold)  # the disk takes its time
    assert await told(*hearing) == [True, False, False]
    losers.moved()
    assert await told(*hearing) == [True, True, False]
    losers.moved()
    await asyncio.gather(*hearing)


async def test_nobody_is_let_go_before_its_turn_while_new_versions_come() -> None:
    hold, losers = 0.5, Losers(0.5)
    hearing = lose(losers, 40)
    began, moves = time.monotonic(), 0
    while time.monotonic() < began + 1.5 * hold:
        await asyncio.sleep(hold / 20)
        losers.moved()
        moves += 1
    assert sum(await told(*hearing)) == min(1 + moves, 40)
    await asyncio.gather(*hearing)


async def race(*, lose: bool) -> None:
    with suppress(VersionTaken):
        async with race_for(("a table",)):
            if lose:
                raise VersionTaken("somebody was faster")


async def test_whoever_loses_after_another_has_heard_waits_for_that_ones_next_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_LONGEST_HOLD_SECONDS", LONG)
    await race(lose=True)
    second = asyncio.create_task(race(lose=True))
    assert await told(second) == [False]
    await race(lose=False)
    assert await told(second) == [True]
