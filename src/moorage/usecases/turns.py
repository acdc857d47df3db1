"""One after another: commits to one table or view wait for each other in this server.

Racing them would only make most of them try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from moorage.core.names import name_key
from moorage.usecases.addresses import Address


class _Queue:
    """The turn of one name, and how many commits hold or await it."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


TurnKey = tuple[str, ...]
_queues: dict[TurnKey, _Queue] = {}


def turn_key(address: Address) -> TurnKey:
    """The same for every spelling of a name."""
    return tuple(name_key(name) for name in address.path)


@asynccontextmanager
async def take_turn(key: TurnKey) -> AsyncIterator[None]:
    """Hold the turn of whatever bears this name."""
    queue = _queues.setdefault(key, _Queue())
    queue.count += 1
    try:
        async with queue.lock:
            yield
    finally:
        queue.count -= 1
        if queue.count == 0:
            del _queues[key]


@asynccontextmanager
async def take_turns(keys: Iterable[TurnKey]) -> AsyncIterator[None]:
    """Hold several turns, taken in one order by all: else two who want the same ones could wait for each other."""
    async with AsyncExitStack() as turns:
        for key in sorted(set(keys)):
            await turns.enter_async_context(take_turn(key))
        yield
