"""Clients that cost next to nothing, so that what is measured is the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from bench.load import Server


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
        head = f"{verb} {self._prefix}{path} HTTP/1.1\r\nHost: b\r\nContent-Length: {len(raw)}\r\n\r\n"
        self._writer.write(head.encode() + raw)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(answer[9:12]), await self._reader.readexactly(length)

    async def done(self, verb: str, path: str, body: Any = None) -> bytes:
        status, answer = await self.ask(verb, path, body)
        if status != 200:
            raise RuntimeError(f"{verb} {path}: {status} {answer.decode()}")
        return answer


async def cpu_ms(server: Server, prefix: str, clients: int, requests: Iterable[tuple[str, str, Any]]) -> float:
    """CPU milliseconds of the server for each request, all of which must succeed."""
    lines = [await Line(server.url, prefix).open() for _ in range(clients)]
    waiting, sent = iter(list(requests)), 0

    async def work(line: Line) -> None:
        nonlocal sent
        for request in waiting:
            await line.done(*request)
            sent += 1

    before = server.cpu_seconds()
    await asyncio.gather(*map(work, lines))
    return 1000 * (server.cpu_seconds() - before) / sent
