"""The server's side of all connections: taking them in, watching over idle ones, letting them go."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from email.utils import formatdate
from typing import TYPE_CHECKING

from moorage.http.connections import Connection

if TYPE_CHECKING:
    from moorage.http.app import App

BACKLOG = 1024
_LONGEST_SWEEP_SECONDS = 1.0
_ON_ITS_WAY_SECONDS = 0.1


class HttpServer:
    """An app behind a bound socket.

    `most`: how many connections it has at once; `head_seconds`: how long the head of a request may take to
    arrive; `idle_seconds`: how long a connection is kept on which nothing moves.
    """

    def __init__(self, app: App, *, most: int, head_seconds: float, idle_seconds: float = 75.0) -> None:
        self.app = app
        self.loop = asyncio.get_running_loop()
        self.head_seconds = head_seconds
        self.idle_seconds = idle_seconds
        self.stopping = False
        self._most = most
        self._connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._second = 0
        self._own_lines = b""

    async def begin(self, listener: socket.socket) -> None:
        self._server = await self.loop.create_server(lambda: Connection(self), sock=listener, backlog=BACKLOG)
        self._sweep()

    async def stop(self) -> None:
        """Take no new connections and let go of the others: the busy ones close with their answer.

        Idle ones after a moment, because the next request may be on its way; it is answered too.
        """
        self.stopping = True
        if self._server is not None:
            self._server.close()
        if self._connections:
            await asyncio.sleep(_ON_ITS_WAY_SECONDS)
        for connection in tuple(self._connections):
            connection.close_if_idle()

    async def end(self, seconds: float) -> None:
        """Wait for the last connections; whoever does not let go in time is cut off."""
        if self._connections:
            self._empty.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)
        for connection in tuple(self._connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()

    # --- what connections ask for ----------------------------------------------------------------

    def take(self, connection: Connection) -> bool:
        """Whether there is room for one more."""
        self._connections.add(connection)
        return len(self._connections) <= self._most

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def own_lines(self) -> bytes:
        """The headers of every answer, made once a second."""
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._own_lines = f"date: {formatdate(now, usegmt=True)}\r\nserver: moorage\r\n".encode()
        return self._own_lines

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in tuple(self._connections):
            connection.close_if_overdue(now)
        pause = min(_LONGEST_SWEEP_SECONDS, self.head_seconds / 4, self.idle_seconds / 4)
        self._sweeper = self.loop.call_later(pause, self._sweep)
