"""The memory that large request bodies share: when it is used up, requests wait instead of exhausting the server."""

from __future__ import annotations

import asyncio
from collections import deque


class Room:
    """A budget of bytes. A request that does not fit waits; waiting requests are served in order of arrival."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many requests wait for memory."""
        return len(self._queue)

    async def take(self, size: int) -> int:
        """Reserve memory and return the number of bytes to give back. A size above the budget takes all of it."""
        size = min(size, self._size)
        if not self._queue and size <= self._free:
            self._free -= size
            return size
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._free += size
            self._grant()  # a later request may need less
            raise
        return size

    def give_back(self, size: int) -> None:
        self._free += size
        self._grant()

    def _grant(self) -> None:
        while self._queue:
            size, turn = self._queue[0]
            if turn.cancelled():  # cancelled requests are removed when they reach the front
                self._queue.popleft()
                continue
            if size > self._free:
                return
            self._queue.popleft()
            self._free -= size
            turn.set_result(None)
