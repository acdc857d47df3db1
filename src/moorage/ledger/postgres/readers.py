"""The connections that reads and notes share. They change no session state, so none is reset between two statements.

asyncpg's own pool makes a task of every return, which costs as much as most of our statements, and waits for an
answer that the network has swallowed for as long as TCP does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import asyncpg

from moorage.core.errors import Unavailable
from moorage.ledger.postgres.connections import connect

_FAREWELL_S: Final = 5.0


class Readers:
    """At most so many connections, opened when they are needed, each with one statement at a time."""

    def __init__(self, url: str, most: int, *, answer_s: float) -> None:
        self._url = url
        self._most = most
        self._answer_s = answer_s
        self._turns = asyncio.Semaphore(most)
        self._idle: list[asyncpg.Connection[asyncpg.Record]] = []
        self._busy: set[asyncpg.Connection[asyncpg.Record]] = set()
        self._closed = False

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        if self._closed:
            raise Unavailable("the server is stopping; send the request to the next one")
        async with self._turns:
            connection = await self._take()
            self._busy.add(connection)
            try:
                return await connection.fetch(sql, *args, timeout=self._answer_s)
            except TimeoutError:  # whatever swallowed the answer may have forgotten the idle ones, too
                _hang_up(connection, *self._idle)
                raise
            except asyncio.CancelledError:  # the next one must not wait for what is still to come
                _hang_up(connection)
                raise
            finally:
                self._busy.discard(connection)
                if not connection.is_closed():
                    self._idle.append(connection)

    async def _take(self) -> asyncpg.Connection[asyncpg.Record]:
        """The one that was used last, so that few are; a new one if there is none."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await connect(self._url, synchronous_commit="off")  # of notes, the last may be lost

    async def close(self) -> None:
        """Wait for what is under way, but not for a network that swallows it."""
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                for _ in range(self._most):
                    await self._turns.acquire()
        _hang_up(*self._busy, *self._idle)


def _hang_up(*connections: asyncpg.Connection[asyncpg.Record]) -> None:
    for connection in connections:
        connection.terminate()
