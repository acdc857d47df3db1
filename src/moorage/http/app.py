"""From a request to its handler and back, with every limit in between.

Order of a request: find the route, authenticate, read the body, parse, handle, answer. Nobody's
body is read before it is known who sends it. The path is hot, so nothing here allocates timers,
compiles patterns or builds what could have been built at start.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import Any, Protocol

from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.entries import LARGEST_DRAFT
from moorage.core.errors import (
    MethodNotAllowed,
    MoorageError,
    OutcomeUnknown,
    TimedOut,
    TooLarge,
    Unavailable,
    leaves,
)
from moorage.http.answers import JSON, Answer, Header
from moorage.http.calls import Call, Headers, current_request_id, idempotency_key
from moorage.http.errors import Wire, wire_of
from moorage.http.exchanges import ClientGone, Ending, Exchange
from moorage.http.in_flight import InFlight
from moorage.http.room import Room
from moorage.http.router import Router
from moorage.http.routes import Api, Route

Observe = Callable[[Exchange], None]
Trace = Callable[[Exchange], AbstractContextManager[object]]

CLIENT_GONE = 499
"""Nobody hears this status; it keeps disconnects apart from failures in logs and metrics."""

_REQUEST_ID_LIMIT = 128
_SMALL_BODY = 256 * 1024

_log = logging.getLogger("moorage.http")


class Access(Protocol):
    """Who is asking? Raises Unauthenticated when that cannot be told."""

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller: ...


class Ports(Protocol):
    """What the app itself needs of the composition root; handlers may need more."""

    @property
    def access(self) -> Access: ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`memory_bytes` is for all bodies together that are not small, from their arrival to their answer."""

    body_bytes: int = 64 * 1024 * 1024
    memory_bytes: int = 256 * 1024 * 1024
    read_seconds: float = 30.0
    handle_seconds: float = 30.0


class App:
    def __init__(
        self,
        apis: Sequence[Api],
        ports: Ports,
        *,
        limits: Limits | None = None,
        observe: Observe | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._ports = ports
        self._limits = limits or Limits()
        self._observe = observe
        self._trace = trace
        shortest = min(self._limits.read_seconds, self._limits.handle_seconds)
        self.room = Room(self._limits.memory_bytes)
        self.in_flight = InFlight(sweep_seconds=min(1.0, shortest / 4))
        self._api_of = {prefix + "/": api for api in apis for prefix in api.prefixes}
        self._longest_first = sorted(self._api_of, key=len, reverse=True)
        self._fallback = apis[0]
        self._router: Router[tuple[Api, Route]] = Router()
        for api in apis:
            # A refusal that cannot be written would leave as a bare fault; find out now, not then.
            for leaf in leaves():
                wire_of(api.errors, leaf)
            for route in api.routes:
                for pattern in route.patterns:
                    self._router.add(route.verb, pattern, (api, route))
        self._boot = secrets.token_hex(6)
        self._count = count(1)

    def serve(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        """Take a request in. What is given back answers it, in a task of its own."""
        exchange.request_id = self._request_id(exchange.headers)
        self.in_flight.enter(exchange)
        return self._serve(exchange) if self._trace is None else self._serve_traced(exchange, self._trace)

    async def _serve_traced(self, exchange: Exchange, trace: Trace) -> None:
        with trace(exchange):
            await self._serve(exchange)

    def _request_id(self, headers: Headers) -> str:
        """The client's own id if it is fit for a log line, else a fresh one."""
        given = headers.raw(b"x-request-id")
        if given and len(given) <= _REQUEST_ID_LIMIT and given.translate(None, b"-_.:").isalnum():
            return given.decode("ascii")
        return f"{self._boot}-{next(self._count):x}"

    async def _serve(self, exchange: Exchange) -> None:
        current_request_id.set(exchange.request_id)
        try:
            answer = await self._answer(exchange)
            exchange.deadline = inf
            exchange.status = answer.status
            exchange.peer.send(answer)
            if answer.stream_of is not None:
                await self._stream(exchange, answer.stream_of)
        except ClientGone:
            exchange.status = CLIENT_GONE
        finally:
            self.in_flight.leave(exchange)
            if exchange.room:
                self.room.give_back(exchange.room)
            exchange.seconds = time.monotonic() - exchange.started
            if self._observe is not None:
                self._observe(exchange)

    async def _answer(self, exchange: Exchange) -> Answer:
        api = None
        headers = exchange.headers
        try:
            (api, route), params = self._router.find(exchange.verb, exchange.path)
            exchange.route = route
            authenticate = partial(self._ports.access.authenticate, route.credential(headers), headers)
            caller = LOCAL if route.public else await authenticate()
            exchange.caller = caller
            query = route.parse_query(exchange.query)
            if exchange.arrived:
                raw_body = _whole(exchange.chunks, self._limits.body_bytes)
            else:
                raw_body = await self._read_body(exchange, route)
            call: Call[Any, Any] = Call(
                route=route,
                caller=caller,
                request_id=exchange.request_id,
                params=params,
                query=query,
                body=route.parse_body(raw_body),
                raw_body=raw_body,
                headers=headers,
                key=idempotency_key(headers) if route.keyed else None,
                path=exchange.path,
                authenticate=authenticate,
            )
            self._begin_handling(exchange, route)
            return await route.handler(call, self._ports)
        except MoorageError as error:
            return _refusal(api or self._api_at(exchange.path), error, exchange)
        except asyncio.CancelledError:
            if exchange.ending is None:
                raise
            exchange.outlive()
            return _refusal(api or self._fallback, _ended(exchange), exchange)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - the last line of defence
            _log.error("%s %s failed", exchange.verb, _operation(exchange), exc_info=error)
            return _unexpected(api or self._fallback, exchange)

    def _begin_handling(self, exchange: Exchange, route: Route) -> None:
        exchange.handling = True
        if not route.patient:
            exchange.deadline = time.monotonic() + self._limits.handle_seconds
        else:
            exchange.deadline = inf
            if self.in_flight.stopping:
                raise Unavailable("the server is stopping")

    async def _read_body(self, exchange: Exchange, route: Route) -> bytes:
        """All of the body, whatever the verb: Delta's Java client sends bodies with GET."""
        limit = self._limits.body_bytes
        if route.body is not bytes:
            limit = min(limit, LARGEST_DRAFT)  # more than may be appended need not be parsed
        length = int(exchange.headers.raw(b"content-length") or 0)
        if length > limit:
            raise TooLarge(f"the body has {length} bytes; this server takes {limit}", field="body")
        exchange.deadline = time.monotonic() + self._limits.read_seconds
        await self._arrival(exchange, length, limit)
        body = _whole(exchange.chunks, limit)
        exchange.chunks.clear()  # else it would be there twice until it is answered
        return body

    async def _arrival(self, exchange: Exchange, length: int, limit: int) -> None:
        """All of the body is there, or more than anybody may send. It has no length if it comes in chunks."""
        chunks, size, joined = exchange.chunks, 0, 0
        while True:
            if len(chunks) > joined:
                # What came is joined at once: cut into pieces of a byte, a body would take fifty times its room.
                chunks[joined:] = [b"".join(chunks[joined:])]
                size += len(chunks[joined])
                joined += 1
            if exchange.arrived or size > limit:
                return
            if max(size, length) > _SMALL_BODY and not exchange.room:
                await self._take_room(exchange, length or limit)
            await exchange.peer.more()

    async def _take_room(self, exchange: Exchange, size: int) -> None:
        """Wait, as long as a request may take, until large bodies that came before have been answered."""
        exchange.deadline = inf
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                exchange.room = await self.room.take(size)
        except TimeoutError:
            raise Unavailable("this server has too many large requests at once; nothing was done: try again") from None
        exchange.deadline = time.monotonic() + self._limits.read_seconds

    async def _stream(self, exchange: Exchange, chunks: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in chunks:
                await exchange.peer.send_chunk(chunk)
        except asyncio.CancelledError:
            if exchange.ending is None:
                raise
            exchange.outlive()
        except Exception as error:  # noqa: BLE001 - the status has left; the log is all that remains
            _log.error("the stream of %s broke", _operation(exchange), exc_info=error)
        finally:
            if (close := getattr(chunks, "aclose", None)) is not None:
                await close()
        exchange.peer.end_stream()

    def _api_at(self, path: bytes) -> Api:
        """An unknown address below an API's prefix is refused in that API's own words."""
        text = path.decode("latin-1") + "/"
        return next((self._api_of[prefix] for prefix in self._longest_first if text.startswith(prefix)), self._fallback)


def _whole(chunks: list[bytes], limit: int) -> bytes:
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if len(body) > limit:
        raise TooLarge(f"the body is larger than the {limit} bytes this server takes", field="body")
    return body


def _operation(exchange: Exchange) -> str:
    return exchange.route.operation if exchange.route is not None else "unknown route"


def _ended(exchange: Exchange) -> MoorageError:
    """What a client may conclude when its request was ended from outside."""
    if not exchange.handling:
        return TimedOut("the request did not arrive in time")
    if exchange.route is not None and exchange.route.mutation:
        # Its draft may sit in the ledger's queue and still become history.
        return OutcomeUnknown("this took too long; it may or may not have happened")
    if exchange.ending is Ending.STOPPING:
        return Unavailable("the server is stopping")
    return Unavailable("this took too long; nothing was changed")


def _refusal(api: Api, error: MoorageError, exchange: Exchange) -> Answer:
    wire = wire_of(api.errors, type(error))
    headers: list[Header] = [JSON]
    if wire.status in (429, 503):
        headers.append((b"retry-after", str(error.details.get("retry_after_seconds", 1)).encode()))
    elif wire.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    elif isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.details.get("allowed", ())).encode()))
    return Answer(wire.status, api.render_error(wire, error, exchange.request_id), headers)


def _unexpected(api: Api, exchange: Exchange) -> Answer:
    """No internals leave; the request id leads to the log line that has them."""
    message = f"something went wrong in the server; its log tells more under {exchange.request_id}"
    changes = exchange.route is not None and exchange.route.mutation
    error = OutcomeUnknown(message) if changes else Unavailable(message)
    wire = Wire(500, api.unexpected)
    return Answer(wire.status, api.render_error(wire, error, exchange.request_id), [JSON])
