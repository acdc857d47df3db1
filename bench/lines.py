"""Clients with almost no overhead, so that the measurement shows the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from bench.load import Server

Request = tuple[str, str, Any]
T = TypeVar("T")


class Cost(msgspec.Struct, frozen=True):
    """The cost of one kind of request for the server, and its rate."""

    what: str
    clients: int
    cpu_ms: float
    per_second: float
    beside_ms: float = 0.0
    """The part of the CPU time that its database used."""


class Watch:
    """Measures a server's CPU time and the elapsed time, from its creation on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu, self._beside = server.cpu_seconds(), server.cpu_seconds_beside()
        self._started = time.monotonic()

    def cost(self, what: str, clients: int, done: int) -> Cost:
        """Returns the cost per operation, for the number of operations done since."""
        took = time.monotonic() - self._started
        beside, cpu = self._server.cpu_seconds_beside() - self._beside, self._server.cpu_seconds() - self._cpu
        return Cost(what, clients, 1000 * cpu / done, done / took, 1000 * beside / done)


class Line:
    """A keep-alive connection that sends a request and reads its response."""

    def __init__(self, url: str, prefix: str) -> None:
        self._at = urlsplit(url)
        self._prefix = prefix
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> Line:
        self._reader, self._writer = await asyncio.open_connection(self._at.hostname, self._at.port)
        return self

    async def ask(self, verb: str, path: str, body: Any = None) -> tuple[int, bytes]:
        raw = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "Content-Type: application/json\r\n"
        head = f"{verb} {self._prefix}{path} HTTP/1.1\r\nHost: b\r\n{kind}Content-Length: {len(raw)}\r\n\r\n"
        self._writer.write(head.encode() + raw)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        return int(answer[9:12]), await self._body(answer)

    async def _body(self, head: bytes) -> bytes:
        if b"content-length: " in head:
            return await self._reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        if b"transfer-encoding: chunked" not in head:
            return b""
        chunks = []
        while size := int(await self._reader.readline(), 16):
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readline()
        await self._reader.readline()
        return b"".join(chunks)

    async def done(self, verb: str, path: str, body: Any = None) -> bytes:
        status, answer = await self.ask(verb, path, body)
        if status not in (200, 201):
            raise RuntimeError(f"{verb} {path} failed: {status} {answer.decode()}")
        return answer


async def measure(server: Server, prefix: str, what: str, clients: int, requests: Iterable[Request]) -> Cost:
    """Sends all requests with several clients; an idle client takes the next request. Each request must succeed."""
    return await measure_shares(server, prefix, what, [iter(list(requests))] * clients)


async def measure_shares(server: Server, prefix: str, what: str, shares: Sequence[Iterable[Request]]) -> Cost:
    """Sends each share with its own client, in order. Each request must succeed."""
    lines = [await Line(server.url, prefix).open() for _ in shares]
    sent = 0

    async def work(line: Line, share: Iterable[Request]) -> None:
        nonlocal sent
        for request in share:
            await line.done(*request)
            sent += 1

    watch = Watch(server)
    await asyncio.gather(*map(work, lines, shares))
    return watch.cost(what, len(shares), sent)


def deal(
    clients: int, objects: Sequence[T], rounds: range, request: Callable[[T, int], Request]
) -> list[list[Request]]:
    """Returns rounds of requests over the objects, with each object assigned to one client.

    If an idle client took the next request, a request could overtake the one that it depends on.
    """
    return [[request(each, number) for number in rounds for each in objects[n::clients]] for n in range(clients)]


async def cpu_ms(server: Server, prefix: str, clients: int, requests: Iterable[Request]) -> float:
    """Returns the server's CPU milliseconds per request. Each request must succeed."""
    return (await measure(server, prefix, "", clients, requests)).cpu_ms
