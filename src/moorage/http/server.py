"""The listening server: it accepts connections, closes idle ones, and shuts down."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress
from email.utils import formatdate
from typing import TYPE_CHECKING

from moorage.http.connections import Connection

if TYPE_CHECKING:
    from moorage.http.app import App

BACKLOG = 1024
_LONGEST_SWEEP_SECONDS = 1.0
_IN_TRANSIT_SECONDS = 0.1
_HANDSHAKE_SECONDS = 10.0
_SECURITY_HEADERS = (
    "x-content-type-options: nosniff\r\n"
    "referrer-policy: no-referrer\r\n"
    "content-security-policy: frame-ancestors 'none'\r\n"
)
"""A page adds its own policy to this one; a browser applies both."""
_HSTS = "strict-transport-security: max-age=31536000\r\n"


class HttpServer:
    """Serves an app on a bound socket.

    `most` is the maximum number of connections. `head_seconds` is how long the head of a request may take to
    arrive. `idle_seconds` is how long an idle connection is kept open. With `tls`, it serves HTTPS.
    """

    def __init__(
        self,
        app: App,
        *,
        most: int,
        head_seconds: float,
        idle_seconds: float = 75.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
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
        self._tls = tls
        self._second = 0
        self._security_headers = _SECURITY_HEADERS + (_HSTS if tls is not None else "")
        self._common_headers = b""

    async def begin(self, listener: socket.socket) -> None:
        self._server = await self.loop.create_server(
            lambda: Connection(self),
            sock=listener,
            backlog=BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else min(_HANDSHAKE_SECONDS, self.head_seconds),
        )
        self._sweep()

    async def stop(self) -> None:
        """Stop accepting connections and close the open ones. A busy connection closes after its answer.

        Idle connections close after a short delay, because a request may already be in transit. It is answered.
        """
        self.stopping = True
        if self._server is not None:
            self._server.close()
        if self._connections:
            await asyncio.sleep(_IN_TRANSIT_SECONDS)
        for connection in tuple(self._connections):
            connection.close_if_idle()

    async def end(self, seconds: float) -> None:
        """Wait for the remaining connections to close, and abort those that do not close in time."""
        if self._connections:
            self._empty.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)
        for connection in tuple(self._connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()

    # --- called by connections --------------------------------------------------------------------

    def take(self, connection: Connection) -> bool:
        """Register a connection. Returns False if there are too many."""
        self._connections.add(connection)
        return len(self._connections) <= self._most

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def own_lines(self) -> bytes:
        """The headers that every answer has, rebuilt once a second."""
        now = int(time.time())
        if now != self._second:
            self._second = now
            date = f"date: {formatdate(now, usegmt=True)}\r\nserver: moorage\r\n"
            self._common_headers = (date + self._security_headers).encode()
        return self._common_headers

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in tuple(self._connections):
            connection.close_if_overdue(now)
        pause = min(_LONGEST_SWEEP_SECONDS, self.head_seconds / 4, self.idle_seconds / 4)
        self._sweeper = self.loop.call_later(pause, self._sweep)
