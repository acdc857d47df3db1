"""The ASGI callable: from bytes to a handler and back, with every limit in between.

Order of a request: find the route, authenticate, read the body, parse, handle, answer. Nobody's
body is read before it is known who sends it. The path is hot, so nothing here allocates timers,
compiles patterns or builds what could have been built at start.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, Protocol

from moorage.core.callers import LOCAL, Caller
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
from moorage.http.in_flight import Ending, Exchange, InFlight
from moorage.http.router import Router
from moorage.http.routes import Api, Route

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Observe = Callable[[Exchange], None]
Trace = Callable[[Exchange, Headers], AbstractContextManager[object]]

CLIENT_GONE = 499
"""Nobody hears this status; it keeps disconnects apart from failures in logs and metrics."""

_SERVER: Header = (b"server", b"moorage")
_REQUEST_ID_LIMIT = 128

_log = logging.getLogger("moorage.http")


class Access(Protocol):
    """Who is asking? Raises Unauthenticated when that cannot be told."""

    async def authenticate(self, headers: Headers) -> Caller: ...


class Ports(Protocol):
    """What the app itself needs of the composition root; handlers may need more."""

    @property
    def access(self) -> Access: ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    body_bytes: int = 64 * 1024 * 1024
    read_seconds: float = 30.0
    handle_seconds: float = 30.0


class _ClientGone(Exception):
    """The client hung up before its request was complete."""


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
        self.in_flight = InFlight(sweep_seconds=min(1.0, shortest / 4))
        self._apis = sorted(apis, key=lambda api: -len(api.prefix))
        self._fallback = apis[0]
        self._router: Router[tuple[Api, Route]] = Router()
        for api in apis:
            # A refusal that cannot be written would leave as a bare fault; find out now, not then.
            for leaf in leaves():
                wire_of(api.errors, leaf)
            for route in api.routes:
                self._router.add(route.verb, route.pattern, (api, route))
        self._boot = secrets.token_hex(6)
        self._count = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - ASGI servers call us in a task
        headers = Headers(scope["headers"])
        exchange = Exchange(scope["method"], scope["raw_path"], self._request_id(headers), task)
        current_request_id.set(exchange.request_id)
        self.in_flight.enter(exchange)
        try:
            if self._trace is None:
                await self._exchange(exchange, scope, headers, receive, send)
            else:
                with self._trace(exchange, headers):
                    await self._exchange(exchange, scope, headers, receive, send)
        finally:
            self.in_flight.leave(exchange)
            exchange.seconds = time.monotonic() - exchange.started
            if self._observe is not None:
                self._observe(exchange)

    def _request_id(self, headers: Headers) -> str:
        """The client's own id if it is fit for a log line, else a fresh one."""
        given = headers.raw(b"x-request-id")
        if given and len(given) <= _REQUEST_ID_LIMIT and given.translate(None, b"-_.:").isalnum():
            return given.decode("ascii")
        return f"{self._boot}-{next(self._count):x}"

    async def _exchange(self, exchange: Exchange, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(exchange, scope["query_string"], headers, receive)
        except _ClientGone:
            exchange.status = CLIENT_GONE
            return
        exchange.deadline = inf
        exchange.status = answer.status
        route_headers = exchange.route.headers if exchange.route is not None else ()
        start = {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [
                *answer.headers,
                *route_headers,
                _SERVER,
                (b"x-request-id", exchange.request_id.encode()),
            ],
        }
        await send(start)
        if answer.stream_of is None:
            await send({"type": "http.response.body", "body": answer.body})
        else:
            await self._stream(exchange, answer, receive, send)

    async def _answer(self, exchange: Exchange, raw_query: bytes, headers: Headers, receive: Receive) -> Answer:
        api = None
        try:
            (api, route), params = self._router.find(exchange.verb, exchange.path)
            exchange.route = route
            caller = LOCAL if route.public else await self._ports.access.authenticate(headers)
            exchange.caller = caller
            query = route.parse_query(raw_query)
            raw_body = await self._read_body(exchange, headers, receive)
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
            )
            self._begin_handling(exchange, route)
            return await route.handler(call, self._ports)
        except MoorageError as error:
            return _refusal(api or self._api_at(exchange.path), error, exchange)
        except asyncio.CancelledError:
            if exchange.ending is None:
                raise
            exchange.task.uncancel()
            return _refusal(api or self._fallback, _ended(exchange), exchange)
        except _ClientGone:
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

    async def _read_body(self, exchange: Exchange, headers: Headers, receive: Receive) -> bytes:
        """All of the body, whatever the verb: Delta's Java client sends bodies with GET."""
        length = headers.raw(b"content-length")
        if length is None and headers.raw(b"transfer-encoding") is None:
            return b""
        expected = int(length) if length is not None else None
        limit = self._limits.body_bytes
        if expected is not None and expected > limit:
            raise TooLarge(f"the body has {expected} bytes; this server takes {limit}", field="body")
        exchange.deadline = time.monotonic() + self._limits.read_seconds
        chunks: list[bytes] = []
        size = 0
        while size != expected:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"the body is larger than the {limit} bytes this server takes", field="body")
            chunks.append(chunk)
            if not message.get("more_body", False):
                break
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _stream(self, exchange: Exchange, answer: Answer, receive: Receive, send: Send) -> None:
        assert answer.stream_of is not None  # noqa: S101 - the caller has looked
        watch = asyncio.create_task(_end_when_gone(exchange, receive))
        try:
            async for chunk in answer.stream_of:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except asyncio.CancelledError:
            if exchange.ending is None:
                raise
            exchange.task.uncancel()
        except Exception as error:  # noqa: BLE001 - the status has left; the log is all that remains
            _log.error("the stream of %s broke", _operation(exchange), exc_info=error)
        finally:
            watch.cancel()
            if (close := getattr(answer.stream_of, "aclose", None)) is not None:
                await close()
        if exchange.ending is not Ending.CLIENT_GONE:
            await send({"type": "http.response.body", "body": b""})

    def _api_at(self, path: bytes) -> Api:
        """An unknown address below an API's prefix is refused in that API's own words."""
        text = path.decode("latin-1") + "/"
        return next((api for api in self._apis if text.startswith(api.prefix + "/")), self._fallback)


async def _end_when_gone(exchange: Exchange, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.end(Ending.CLIENT_GONE)


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
