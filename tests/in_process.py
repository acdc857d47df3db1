"""Serve an app with the real HTTP server in this process, for tests that inspect its state between requests."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from moorage.http.app import App
from moorage.http.server import HttpServer


@asynccontextmanager
async def serving(
    app: App, *, most: int = 1000, head_seconds: float = 30.0, idle_seconds: float = 75.0
) -> AsyncIterator[int]:
    """Serve the app and yield its port."""
    server = HttpServer(app, most=most, head_seconds=head_seconds, idle_seconds=idle_seconds)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await server.begin(listener)
    try:
        yield port
    finally:
        await server.stop()
        await server.end(1)


@asynccontextmanager
async def client_of(app: App) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    async with (
        serving(app) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30, limits=limits) as client,
    ):
        yield client
