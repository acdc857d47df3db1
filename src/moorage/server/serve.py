"""One process, one event loop; and a stop that finishes what was accepted."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable

from moorage.http.app import App
from moorage.http.server import BACKLOG, HttpServer
from moorage.server.settings import Settings

_CONNECTIONS = 8192
_CLOSING_SECONDS = 2.0


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
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(_reason(error, host, port)) from None
    listener.settimeout(0)
    return listener


def _reason(error: OSError, host: str, port: int) -> str:
    if isinstance(error, PermissionError):
        return f"port {port} needs more rights than this user has; choose a --port above 1023"
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} is in use by another process; stop that one or choose another --port (MOORAGE_PORT)"
    return f"cannot listen on {host}:{port}: {error.strerror}"


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
    on_asked: Callable[[], Awaitable[None]],
    on_stop: Callable[[], Awaitable[None]],
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes open requests within `stop_timeout_seconds`.

    `on_asked` runs while requests are still taken, `on_stop` when the last answer has been sent. A second
    signal ends the process at once.
    """
    most = min(_CONNECTIONS, _open_files() // 2)
    server = HttpServer(app, most=most, head_seconds=settings.request_timeout_seconds)
    asked = _stop_signal()
    _rest_the_collector()
    await server.begin(listener)
    try:
        await on_ready()
        await asked.wait()
        await on_asked()
        await server.stop()
        await app.in_flight.drain(settings.stop_timeout_seconds)
        await server.end(_CLOSING_SECONDS)
    finally:
        await on_stop()


def _rest_the_collector() -> None:
    """Look for cycles of garbage rarely: requests leave none, and each look costs more the more is remembered."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _stop_signal() -> asyncio.Event:
    asked = asyncio.Event()

    def ask(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ask, number)
    return asked
