"""One request in progress, and the connection to its client."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from math import inf
from typing import Protocol

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import MoorageError
from moorage.http.answers import Answer
from moorage.http.calls import Headers
from moorage.http.routes import Route


class Ending(Enum):
    """The reason why an exchange was ended from outside its handler."""

    TOO_LATE = "too late"
    STOPPING = "stopping"
    CLIENT_GONE = "client gone"


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class Peer(Protocol):
    """The client of an exchange. One exchange at a time uses it."""

    @property
    def address(self) -> str:
        """The IP address that the connection comes from; empty if it is not known."""
        ...

    async def more(self) -> None:
        """Wait for more of the body. Raises ClientGone on a disconnect, InvalidInput if it is not valid HTTP."""
        ...

    def send(self, answer: Answer) -> None:
        """Send a complete answer, or only the head if the answer is a stream."""
        ...

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a part of a stream. Waits while the client does not read."""
        ...

    def end_stream(self) -> None: ...

    def abort(self) -> None:
        """Cut the connection, so that the client does not take the stream for complete."""
        ...


class Exchange(msgspec.Struct, eq=False):
    """One request and its state.

    `chunks` is the part of the body received so far, and `arrived` is true when the body is complete. `room` is the
    number of bytes reserved from the memory for large bodies. `keeps` is true if the connection may be reused.
    `address` is that of the client, also behind trusted proxies.
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
    address: str = ""
    request_id: str = ""
    started: float = msgspec.field(default_factory=time.monotonic)
    seconds: float = 0.0
    deadline: float = inf
    handling: bool = False
    route: Route | None = None
    caller: Caller | None = None
    status: int = 0
    error: MoorageError | None = None
    ending: Ending | None = None
    task: asyncio.Task[None] | None = None

    def end(self, reason: Ending) -> None:
        """Cancel the handler at its next await. Only the first reason is kept."""
        if self.ending is None and self.task is not None:
            self.ending = reason
            self.task.cancel()

    def outlive(self) -> None:
        """Clear the cancellation, so that the task can still send an error response."""
        if self.task is not None:
            self.task.uncancel()

    @property
    def is_patient(self) -> bool:
        return self.route is not None and self.route.patient
