"""One process, one event loop, Granian inside; and a stop that finishes what was accepted."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from moorage.http.app import App
from moorage.server.settings import Settings

_BACKLOG = 1024
_CONNECTIONS = 8192
_CLOSING_SECONDS = 2.0

# Granian would print a banner to standard output; what it has to say about failures joins our own log.
_QUIET = {"loggers": {"_granian": {"handlers": [], "propagate": True}}}


class ListenError(Exception):
    """One line that says why the address cannot be had and what to do."""


def listen(settings: Settings) -> socket.socket:
    """Takes the address before anything else is opened, so that a second server fails early and alone."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise ListenError(f"{host} is not an address of this machine; choose another --host") from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(_reason(error, host, port)) from None
    listener.settimeout(0)
    return listener


def _reason(error: OSError, host: str, port: int) -> str:
    if isinstance(error, PermissionError):
        return f"port {port} needs more rights than this user has; choose a --port above 1023"
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} is in use by another process; stop that one or choose another --port"
    return f"cannot listen on {host}:{port}: {error.strerror}"


class _Granian(Server):
    """Granian on a socket that we have bound.

    Its own would be bound with SO_REUSEPORT: a second server on the same port would start without
    complaint and silently take half of the requests.
    """

    def __init__(self, app: App, listener: socket.socket) -> None:
        self._listener = listener
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backlog=_BACKLOG,
            backpressure=min(_CONNECTIONS, _open_files() // 2),
            log_level=LogLevels.error,
            log_dictconfig=_QUIET,
        )

    def _init_shared_socket(self) -> None:
        # Granian closes the socket when it stops accepting, so it must be the only owner.
        self._shd = SocketHolder(fd=self._listener.detach(), uds=False, backlog=_BACKLOG)  # type: ignore[assignment,call-arg]


def _open_files() -> int:
    """Long polls and streams hold a connection each, and the usual soft limit is 1,024 files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * _CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


async def run(
    app: App,
    settings: Settings,
    *,
    listener: socket.socket,
    on_ready: Callable[[], Awaitable[None]],
    on_stop: Callable[[], Awaitable[None]],
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes open requests within `stop_timeout_seconds`.

    `on_stop` runs when the last answer has been sent. A second signal ends the process at once.
    """
    server = _Granian(app, listener)
    asked = _stop_signal()
    serving = asyncio.create_task(server.serve())
    waiting = asyncio.create_task(asked.wait())
    try:
        await on_ready()
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.is_set():
            await serving
            raise RuntimeError("the HTTP server stopped by itself")
        server.stop()  # type: ignore[no-untyped-call]
        await app.in_flight.drain(settings.stop_timeout_seconds)
        # A client that never finishes its request line must not keep us here.
        await asyncio.wait({serving}, timeout=_CLOSING_SECONDS)
    finally:
        waiting.cancel()
        await on_stop()


def _stop_signal() -> asyncio.Event:
    asked = asyncio.Event()

    def ask(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ask, number)
    return asked
