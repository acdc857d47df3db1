"""Clients that cost next to nothing, so that what is measured is the server."""

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
    """What one kind of request cost the server, and how many it answered."""

    what: str
    clients: int
    cpu_ms: float
    per_second: float
    beside_ms: float = 0.0
    """What of the CPU time was its database's."""


class Watch:
    """What a server spends, and the time that passes, from now on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu, self._beside = server.cpu_seconds(), server.cpu_seconds_beside()
        self._started = time.monotonic()

    def cost(self, what: str, clients: int, done: int) -> Cost:
        """Of each of the things that have been done since."""
        took = time.monotonic() - self._started
        beside, cpu = self._server.cpu_seconds_beside() - self._beside, self._server.cpu_seconds() - self._cpu
        return Cost(what, clients, 1000 * cpu / done, done / took, 1000 * beside / done)


class Line:
    """One kept connection that sends bytes and reads an answer."""

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
            raise RuntimeError(f"{verb} {path}: {status} {answer.decode()}")
        return answer


async def measure(server: Server, prefix: str, what: str, clients: int, requests: Iterable[Request]) -> Cost:
    """All of the requests by so many clients, whoever is free taking the next; each must succeed."""
    return await measure_shares(server, prefix, what, [iter(list(requests))] * clients)


async def measure_shares(server: Server, prefix: str, what: str, shares: Sequence[Iterable[Request]]) -> Cost:
    """A client for each share, sending it in order; each request must succeed."""
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
    """Rounds of requests over the objects, each object dealt to one client.

    Were the next who is free to take it, a slow answer could be overtaken by the request that rests on it.
    """
    return [[request(each, number) for number in rounds for each in objects[n::clients]] for n in range(clients)]


async def cpu_ms(server: Server, prefix: str, clients: int, requests: Iterable[Request]) -> float:
    """CPU milliseconds of the server for each request, all of which must succeed."""
    return (await measure(server, prefix, "", clients, requests)).cpu_ms
