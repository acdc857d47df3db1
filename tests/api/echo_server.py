"""A small API behind the real HTTP server, run as a child process. It returns what it received."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec
import uvloop

from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Unauthenticated
from moorage.http import Answer, Api, App, Call, Example, Headers, Limits, NoBody, NoQuery
from moorage.server import serve
from moorage.server.health import server
from moorage.server.settings import load
from moorage.server.telemetry import Metrics, observing, start_logging


class Echo(msgspec.Struct, kw_only=True):
    params: dict[str, str]
    body: str
    caller: str = ""


class Wait(msgspec.Struct, frozen=True):
    seconds: float = 0.0


echo = Api(
    "echo",
    prefix="/echo",
    file="echo.yaml",
    title="Echo",
    description="Returns what it received.",
    tags={"echo": "Echo."},
    parameters={"first": "Any text.", "second": "Any text."},
)

_ECHOED = {"params": {"first": "a", "second": "b"}, "body": ""}


async def _echo(call: Call[Any, Any]) -> Answer:
    body = call.raw_body.decode() if len(call.raw_body) < 1000 else f"{len(call.raw_body)} bytes"
    return Answer.json(Echo(params=call.params, body=body, caller=call.caller.name))


for _verb in (echo.get, echo.post):

    @_verb(
        "/{first}/x/{second}",
        operation=f"echo{_verb.__name__.title()}",
        summary="Echo.",
        stage="ga",
        since="2.1.0-moorage.1",
        answer=Echo,
        example=Example(path={"first": "a", "second": "b"}, answer=_ECHOED),
    )
    async def answer(call: Call[NoBody, NoQuery], ports: Any) -> Answer:
        return await _echo(call)


for _name, _mutation in (("slow", False), ("slow-write", True)):

    @echo.post(
        f"/{_name}",
        operation=_name,
        summary="Echo after a while.",
        stage="ga",
        since="2.1.0-moorage.1",
        query=Wait,
        answer=Echo,
        example=Example(query={"seconds": 1}, answer=_ECHOED),
        mutation=_mutation,
    )
    async def answer_later(call: Call[NoBody, Wait], ports: Ports) -> Answer:
        with ports.one_more():
            await asyncio.sleep(call.query.seconds)
        return await _echo(call)


@echo.get(
    "/ticks",
    operation="ticks",
    summary="A stream without an end.",
    stage="ga",
    since="2.1.0-moorage.1",
    content_types=("text/event-stream",),
    example=Example(answer="data: 1\n\n"),
    patient=True,
)
async def ticks(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    return Answer.stream(_ticks(ports), "text/event-stream", endless=True)


async def _ticks(ports: Ports) -> AsyncIterator[bytes]:
    with ports.one_more():
        for number in count(1):
            yield f"data: {number}\n\n".encode()
            await asyncio.sleep(0.05)


class Listeners(msgspec.Struct):
    count: int


@echo.get(
    "/listeners",
    operation="listeners",
    summary="The number of clients that read the stream or wait for a slow answer.",
    stage="ga",
    since="2.1.0-moorage.1",
    answer=Listeners,
    example=Example(answer={"count": 0}),
)
async def listeners(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    return Answer.json(Listeners(ports.listeners))


class OneTokenRefused:
    """Authenticates every request but those with one token."""

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        if headers.get("authorization") == "Bearer unknown":
            raise Unauthenticated("the token is unknown")
        return LOCAL


class Ports:
    def __init__(self) -> None:
        self.access = OneTokenRefused()
        self.metrics = Metrics()
        self.listeners = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    async def ready(self) -> str | None:
        return None


async def main(flags: Mapping[str, str]) -> None:
    settings = load(flags={"port": "0", **flags})
    start_logging(settings)
    listener = serve.listen(settings)
    port = listener.getsockname()[1]
    ports = Ports()
    seconds = settings.request_timeout_seconds
    app = App(
        [server, echo],
        ports,
        limits=Limits(body_bytes=1_000_000, read_seconds=seconds, handle_seconds=seconds),
        observe=observing(ports.metrics, settings),
    )

    async def ready() -> None:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()

    async def asked() -> None:
        """Nothing has to end first."""

    async def stopped() -> None:
        sys.stdout.write("stopped\n")
        sys.stdout.flush()

    await serve.run(app, settings, listener=listener, on_ready=ready, on_stop_requested=asked, on_stop=stopped)


if __name__ == "__main__":
    given = (argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
    uvloop.run(main({name.replace("-", "_"): value for name, value in given}))
