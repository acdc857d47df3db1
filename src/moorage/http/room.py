"""The memory that large bodies share, so that a crowd of them ends in a line and not in the end of the server."""

from __future__ import annotations

import asyncio
from collections import deque


class Room:
    """So many bytes for all. Whoever finds too few left waits, and is served in the order of arrival."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    async def take(self, size: int) -> int:
        """What was taken, to be given back; whoever wants more than there is at all gets all of it."""
        size = min(size, self._size)
        if not self._line and size <= self._free:
            self._free -= size
            return size
        turn = asyncio.get_running_loop().create_future()
        self._line.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._free += size
            self._go_on()  # those behind may want less
            raise
        return size

    def give_back(self, size: int) -> None:
        self._free += size
        self._go_on()

    def _go_on(self) -> None:
        while self._line:
            size, turn = self._line[0]
            if turn.cancelled():  # it leaves when it has come to the front
                self._line.popleft()
                continue
            if size > self._free:
                return
            self._line.popleft()
            self._free -= size
            turn.set_result(None)
