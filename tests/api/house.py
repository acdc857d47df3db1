"""The whole catalog in this process, composed as the server composes it, with a clock that the test advances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
import msgspec

from moorage.access.port import Access
from moorage.datasets.worker_pool import WorkerPool
from moorage.http import App
from moorage.ledger.port import Ledger
from moorage.ledger.sqlite import SqliteLedger
from moorage.processes.pool import ProcessPool
from moorage.server.compose import ServerPorts, compose, make_app
from moorage.server.settings import Settings, load
from moorage.testing.builders import Clock
from moorage.testing.minio import MinioServer
from tests.api.doors import NamedCallers
from tests.in_process import client_of

V1 = "/api/moorage/v1"

WORKER_POOL = WorkerPool()
PROCESSES = ProcessPool()
"""Shared by all tests of this process, because a worker takes a second to start."""


class ClockedPorts(ServerPorts, frozen=True, kw_only=True):
    """The server's ports with a clock that the test advances."""

    clock: Clock

    def now_ms(self) -> int:
        return self.clock()


class Asking:
    """Shortcuts for requests below an API's prefix, in process or over a socket."""

    prefix: ClassVar[str]

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        caller: str | None = None,
        **query: Any,
    ) -> httpx.Response:
        headers = {"idempotency-key": key, "x-caller": caller}
        return await self.http.request(
            verb,
            self.prefix + path,
            content=None if body is None else msgspec.json.encode(body),
            params=query or None,
            headers={name: value for name, value in headers.items() if value is not None},
        )

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.ask("GET", path, **query)

    async def post(self, path: str, body: Any = None, **given: Any) -> httpx.Response:
        return await self.ask("POST", path, body, **given)

    async def patch(self, path: str, body: Any, **given: Any) -> httpx.Response:
        return await self.ask("PATCH", path, body, **given)

    async def delete(self, path: str, **given: Any) -> httpx.Response:
        return await self.ask("DELETE", path, **given)


class Console(Asking):
    prefix = V1

    async def make(self, *path: str, **described: Any) -> dict[str, Any]:
        """Create a catalog, or with a longer path a namespace."""
        if len(path) == 1:
            answer = await self.post("/catalogs", {"name": path[0], **described})
        else:
            answer = await self.post(f"{to_catalog(path[0])}/namespaces", {"path": path[1:], **described})
        made: dict[str, Any] = done(answer, 201)
        return made

    async def seq(self) -> int:
        return int(done(await self.get("/health"))["seq"])

    async def names(self, path: str, **query: Any) -> list[str]:
        return [item["name"] for item in done(await self.get(path, **query))["items"]]


class House:
    def __init__(self, ports: ClockedPorts, console: Console, app: App) -> None:
        self.ports = ports
        self.ledger: Ledger = ports.ledger
        self.clock = ports.clock
        self.console = console
        self.app = app

    @property
    def access(self) -> NamedCallers:
        assert isinstance(self.ports.access, NamedCallers)
        return self.ports.access


@asynccontextmanager
async def open_house(
    data: Path, *, access: Access | None = None, ledger: Ledger | None = None, **settings: Any
) -> AsyncIterator[House]:
    clock = Clock()
    own = ledger or await SqliteLedger.open(data, clock_ms=clock)
    given = Settings(data=data, **settings)
    composed = await compose(given, own)
    known = {name: getattr(composed, name) for name in composed.__struct_fields__}
    shared = {"worker_pool": WORKER_POOL, "processes": PROCESSES}
    ports = ClockedPorts(**{**known, **shared, "access": access or NamedCallers()}, clock=clock)
    app = make_app(given, ports)
    try:
        async with client_of(app) as http:
            yield House(ports, Console(http), app)
    finally:
        await own.close()


def on_s3(minio: MinioServer, location: str) -> dict[str, Any]:
    """The settings of a server that may use a location and stores its managed tables there."""
    settings = load(flags={"managed_location": f"{location}managed"}, environ=minio.settings(location))
    return {name: getattr(settings, name) for name in settings.__struct_fields__ if name != "data"}


@asynccontextmanager
async def console_at(url: str) -> AsyncIterator[Console]:
    """The console of a server in another process."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30, limits=limits) as http:
        yield Console(http)


def to_catalog(name: str) -> str:
    return f"/catalogs/{segment(name)}"


def to_namespace(catalog: str, *levels: str) -> str:
    return f"{to_catalog(catalog)}/namespaces/{segment(chr(0x1F).join(levels))}"


def segment(name: str) -> str:
    """One segment of a path. HTTP libraries would resolve a lone dot, so it is escaped."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def done(answer: httpx.Response, status: int = 200) -> Any:
    """The body of a response. Another status fails with the text of the response."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    return answer.json()


def refused(answer: httpx.Response, status: int, code: str, field: str | None = None) -> Mapping[str, Any]:
    """The error of a response, which must have this status, code and field."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    error: dict[str, Any] = answer.json()["error"]
    assert (error["code"], error.get("field")) == (code, field), error
    assert error["request_id"] == answer.headers["x-request-id"]
    return error


async def until(holds: Callable[[], Awaitable[bool]], *, seconds: float = 20.0) -> None:
    """Wait until a condition holds that another process fulfils."""
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, "timed out"
        await asyncio.sleep(0.01)


async def at_once(*asking: Any) -> list[httpx.Response]:
    return list(await asyncio.gather(*asking))
