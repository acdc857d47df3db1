"""One after another: commits to one table or view wait for each other in this server.

Racing them would only make most of them try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moorage.core.names import name_key
from moorage.usecases.addresses import Address


class _Queue:
    """The turn of one name, and how many commits hold or await it."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


_queues: dict[tuple[str, ...], _Queue] = {}


def turn_key(address: Address) -> tuple[str, ...]:
    """The same for every spelling of a name. Whoever needs several turns takes them in this order."""
    return tuple(name_key(name) for name in address.path)


@asynccontextmanager
async def take_turn(address: Address) -> AsyncIterator[None]:
    """Hold the turn of whatever bears this name."""
    key = turn_key(address)
    queue = _queues.setdefault(key, _Queue())
    queue.count += 1
    try:
        async with queue.lock:
            yield
    finally:
        queue.count -= 1
        if queue.count == 0:
            del _queues[key]
