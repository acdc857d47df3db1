"""Runs the server in one process with one event loop. A shutdown finishes the accepted requests."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable

from moorage.http.app import App
from moorage.http.server import BACKLOG, HttpServer
from moorage.processes.scheduling import background_threads, serve_requests
from moorage.server.settings import Settings
from moorage.server.tls import Tls, TlsError

_CONNECTIONS = 8192
_CLOSING_SECONDS = 2.0
_SWITCH_SECONDS = 0.0003
"""How long a thread that checks a large commit delays the event loop each time. Python's default of 5 ms is longer than
most requests take, and a request waits several times."""


class ListenError(Exception):
    """The server cannot listen on its address. The message is one line with the reason and what to do."""


def listen(settings: Settings) -> socket.socket:
    """Bind the address before anything else is opened, so that a second server fails without side effects."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise ListenError(f"{host} is not an address of this machine; choose another --host (MOORAGE_HOST)") from None
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


def open_tls(settings: Settings) -> Tls | None:
    """The certificate of the server, if it serves HTTPS itself."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return Tls(settings.tls_cert, settings.tls_key)
    except TlsError as error:
        raise ListenError(f"{error}; check --tls-cert and --tls-key") from None


def _reason(error: OSError, host: str, port: int) -> str:
    if isinstance(error, PermissionError):
        return f"this user is not permitted to listen on port {port}; choose a --port above 1023"
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} is in use by another process; stop it or choose another --port (MOORAGE_PORT)"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def _raise_file_limit() -> int:
    """Raise the limit of open files: each long poll or stream has a connection, and the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * _CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


async def run(
    app: App,
    settings: Settings,
    *,
    listener: socket.socket,
    tls: Tls | None = None,
    on_ready: Callable[[], Awaitable[None]],
    on_stop_requested: Callable[[], Awaitable[None]],
    on_stop: Callable[[], Awaitable[None]],
) -> None:
    """Serve until SIGTERM or SIGINT, then finish open requests within `stop_timeout_seconds`.

    `on_stop_requested` runs while requests are still accepted, `on_stop` after the last answer has been sent. A second
    signal ends the process immediately.
    """
    most = min(_CONNECTIONS, _raise_file_limit() // 2)
    context = None if tls is None else tls.context
    server = HttpServer(app, most=most, head_seconds=settings.request_timeout_seconds, tls=context)
    stop_requested = _stop_signal()
    _tune_garbage_collector()
    sys.setswitchinterval(_SWITCH_SECONDS)
    serve_requests()
    asyncio.get_running_loop().set_default_executor(background_threads(name="background"))
    await server.begin(listener)
    watching = None if tls is None else asyncio.create_task(tls.watch())
    try:
        await on_ready()
        await stop_requested.wait()
        await on_stop_requested()
        await server.stop()
        await app.in_flight.drain(settings.stop_timeout_seconds)
        await server.end(_CLOSING_SECONDS)
    finally:
        if watching is not None:
            watching.cancel()
        await on_stop()


def _tune_garbage_collector() -> None:
    """Run the garbage collector rarely: requests create no cycles, and each run costs more the more is cached."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _stop_signal() -> asyncio.Event:
    stop_requested = asyncio.Event()

    def request_stop(number: int) -> None:
        if stop_requested.is_set():
            os._exit(128 + number)
        stop_requested.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, request_stop, number)
    return stop_requested
