"""One after another: commits to one table or view wait for each other in this server.

Racing them would only make most of them try again. Those who lose all the same hear it one after another too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import lru_cache
from weakref import WeakValueDictionary

from moorage.core.errors import VersionTaken
from moorage.core.names import name_key
from moorage.usecases.catalog.addresses import Address

_LONGEST_HOLD_SECONDS = 0.1
_MOST_HOLDS = 10
"""Nobody waits longer than this many times that, whatever comes."""


class Losers:
    """Those who lost a race for the next version of one table and wait to hear it."""

    __slots__ = ("_held", "_longest_hold_s", "_may_retry", "_moves")

    def __init__(self, longest_hold_s: float = _LONGEST_HOLD_SECONDS) -> None:
        self._held: deque[asyncio.Future[None]] = deque()
        self._longest_hold_s = longest_hold_s
        self._may_retry = True
        self._moves = 0

    def moved(self) -> None:
        """There is a new version: one more of those who lost may try again on it."""
        self._moves += 1
        while self._held:
            loser = self._held.popleft()
            if not loser.done():
                loser.set_result(None)
                return
        self._may_retry = True

    async def hear_in_turn(self, is_contested: Callable[[], bool]) -> None:
        """Whoever hears of a conflict reads the table and tries again at once, and only one can win.

        Told all at the same time, all but one of them would lose again, and for nothing. So each waits as long as new
        versions come and its turn with them, or somebody is just about to make one: a slow machine, or a disk that
        stops for a moment, must not let go of those who would only lose again.
        """
        if self._may_retry:
            self._may_retry = False
            return
        turn = asyncio.get_running_loop().create_future()
        self._held.append(turn)
        try:
            for _ in range(_MOST_HOLDS):
                before = self._moves
                await asyncio.wait((turn,), timeout=self._longest_hold_s)
                if turn.done() or (self._moves == before and not is_contested()):
                    return
        finally:
            turn.cancel()  # whoever does not wait any more takes no turn


class Turn(asyncio.Lock):
    """The turn of whatever bears a name, to be held by `async with`."""

    losers: Losers | None = None
    """Of those who race for it; most of the time nobody loses."""


TurnKey = tuple[str, ...]
_turns: WeakValueDictionary[TurnKey, Turn] = WeakValueDictionary()
"""Only while somebody holds or awaits one."""


@lru_cache(maxsize=16_384)
def turn_key(address: Address) -> TurnKey:
    """The same for every spelling of a name."""
    return tuple(name_key(name) for name in address.path)


def take_turn(key: TurnKey) -> Turn:
    turn = _turns.get(key)
    if turn is None:
        turn = _turns[key] = Turn()
    return turn


@asynccontextmanager
async def take_turns(keys: Iterable[TurnKey]) -> AsyncIterator[None]:
    """Hold several turns, taken in one order by all: else two who want the same ones could wait for each other."""
    held: list[Turn] = []
    try:
        for key in sorted(set(keys)):
            turn = take_turn(key)
            await turn.acquire()
            held.append(turn)
        yield
    finally:
        for turn in held:
            turn.release()


class Race:
    """Those who want the next version of one table now, to be entered by `async with`.

    They come one after another, so that all but one lose before anything is read for them, and they hear
    of it in turn. Other servers need no turn: the ledger decides.
    """

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    async def __aenter__(self) -> None:
        await self._turn.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        turn = self._turn
        turn.release()
        if error is None:
            if turn.losers is not None:
                turn.losers.moved()
        elif isinstance(error, VersionTaken):
            turn.losers = turn.losers or Losers(_LONGEST_HOLD_SECONDS)
            await turn.losers.hear_in_turn(turn.locked)
            asyncio.get_running_loop().call_later(_LONGEST_HOLD_SECONDS, _forget, turn)


def _forget(turn: Turn) -> None:
    """Until now it was remembered, also if nobody waited: whoever heard of a loss is expected back, and those who
    lose meanwhile have to wait for that."""


def race_for(key: TurnKey) -> Race:
    """The race for the next version of a table, known by its name (`turn_key`) or by its id alone."""
    return Race(take_turn(key))
