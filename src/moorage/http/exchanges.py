"""One request on its way through the server, and the other end of it."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from math import inf
from typing import Protocol

import msgspec

from moorage.core.callers import Caller
from moorage.http.answers import Answer
from moorage.http.calls import Headers
from moorage.http.routes import Route


class Ending(Enum):
    """Why an exchange was ended from outside its handler."""

    TOO_LATE = "too late"
    STOPPING = "stopping"
    CLIENT_GONE = "client gone"


class ClientGone(Exception):
    """The client hung up before its request was complete."""


class Peer(Protocol):
    """The client's end of an exchange. It is spoken to by one exchange at a time."""

    async def more(self) -> None:
        """Wait for more of the body. ClientGone if none will come, InvalidInput if it is no HTTP."""
        ...

    def send(self, answer: Answer) -> None:
        """Send all of an answer, or the head of one that is a stream."""
        ...

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a part of a stream; waits while the client does not read."""
        ...

    def end_stream(self) -> None: ...


class Exchange(msgspec.Struct, eq=False):
    """One request and what became of it so far.

    `chunks` are what came of its body, `arrived` says that this is all of it, `room` what it holds of the memory
    for large ones; `keeps` says that the connection may be used again.
    """

    verb: str
    path: bytes
    query: bytes
    headers: Headers
    peer: Peer
    chunks: list[bytes] = []
    arrived: bool = False
    room: int = 0
    keeps: bool = True
    request_id: str = ""
    started: float = msgspec.field(default_factory=time.monotonic)
    seconds: float = 0.0
    deadline: float = inf
    handling: bool = False
    route: Route | None = None
    caller: Caller | None = None
    status: int = 0
    ending: Ending | None = None
    task: asyncio.Task[None] | None = None

    def end(self, reason: Ending) -> None:
        """Stops the handler where it waits. Only the first reason counts."""
        if self.ending is None and self.task is not None:
            self.ending = reason
            self.task.cancel()

    def outlive(self) -> None:
        """Go on, for a last word, where the end from outside would have stopped it."""
        if self.task is not None:
            self.task.uncancel()

    @property
    def is_patient(self) -> bool:
        return self.route is not None and self.route.patient
