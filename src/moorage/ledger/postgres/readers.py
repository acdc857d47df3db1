"""The connections that reads and notes share. They change no session state, so they need no reset between statements.

asyncpg's own pool creates a task for every release, which costs as much as most of our statements. It also waits for a
response that the network has lost until TCP times out.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import asyncpg

from moorage.core.errors import Unavailable
from moorage.ledger.postgres.connections import connect

_CLOSE_TIMEOUT_S: Final = 5.0


class Readers:
    """A limited number of connections, opened on demand, each with one statement at a time."""

    def __init__(self, url: str, most: int, *, answer_s: float) -> None:
        self._url = url
        self._most = most
        self._answer_s = answer_s
        self._slots = asyncio.Semaphore(most)
        self._idle: list[asyncpg.Connection[asyncpg.Record]] = []
        self._busy: set[asyncpg.Connection[asyncpg.Record]] = set()
        self._closed = False

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        if self._closed:
            raise Unavailable("the server is stopping; retry on another server or after its restart")
        async with self._slots:
            connection = await self._take()
            self._busy.add(connection)
            try:
                return await connection.fetch(sql, *args, timeout=self._answer_s)
            except TimeoutError:  # the fault that lost the response may have cut the idle connections too
                _terminate(connection, *self._idle)
                raise
            except asyncio.CancelledError:  # the next user must not wait for the outstanding response
                _terminate(connection)
                raise
            finally:
                self._busy.discard(connection)
                if not connection.is_closed():
                    self._idle.append(connection)

    async def _take(self) -> asyncpg.Connection[asyncpg.Record]:
        """The most recently used idle connection, so that few stay in use. A new one if none is idle."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await connect(self._url, synchronous_commit="off")  # a crash may lose the latest notes

    async def close(self) -> None:
        """Wait for running statements, but not longer than the timeout: the network may have lost the response."""
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                for _ in range(self._most):
                    await self._slots.acquire()
        _terminate(*self._busy, *self._idle)


def _terminate(*connections: asyncpg.Connection[asyncpg.Record]) -> None:
    for connection in connections:
        connection.terminate()
