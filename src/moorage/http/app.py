"""Dispatch of a request to its handler, with every limit that applies on the way.

The steps are: find the route, authenticate, read the body, parse, handle, answer. The body is read only
after the caller is authenticated. This is the hot path: it does not allocate timers, compile patterns
or build anything that can be built at startup.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import Any, Protocol

from msgspec.structs import replace

from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.entries import MAX_DRAFT_BYTES
from moorage.core.errors import (
    InvalidInput,
    MethodNotAllowed,
    MoorageError,
    OutcomeUnknown,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unavailable,
    leaves,
)
from moorage.core.networks import client_address
from moorage.http.answers import JSON, Answer, Header
from moorage.http.calls import Call, Headers, current_request_id, idempotency_key
from moorage.http.cors import Cors
from moorage.http.errors import Wire, wire_of
from moorage.http.exchanges import ClientGone, Ending, Exchange
from moorage.http.in_flight import InFlight
from moorage.http.memory_budget import Room
from moorage.http.rates import RateLimit
from moorage.http.router import Router
from moorage.http.routes import Api, Route

Observe = Callable[[Exchange], None]
Trace = Callable[[Exchange], AbstractContextManager[object]]

CLIENT_GONE = 499
"""Never sent. In logs and metrics it separates disconnects from failures."""

_REQUEST_ID_LIMIT = 128
_SMALL_BODY = 256 * 1024

_log = logging.getLogger("moorage.http")


class Access(Protocol):
    """Identifies the caller. Raises Unauthenticated if that is not possible."""

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller: ...


class Ports(Protocol):
    """What the app itself needs from the composition root. Handlers may need more."""

    @property
    def access(self) -> Access: ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`memory_bytes` is shared by all large bodies, each from its arrival until its request is answered."""

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
        rates: RateLimit | None = None,
        cors: Cors | None = None,
        proxies: tuple[str, ...] = (),
    ) -> None:
        """`proxies` are the addresses and networks of proxies whose X-Forwarded-For is trusted."""
        self._ports = ports
        self._limits = limits or Limits()
        self._observe = observe
        self._trace = trace
        self._rates = rates
        self._cors = cors
        self._proxies = proxies
        shortest = min(self._limits.read_seconds, self._limits.handle_seconds)
        self.room = Room(self._limits.memory_bytes)
        self.in_flight = InFlight(sweep_seconds=min(1.0, shortest / 4))
        self._api_of = {prefix + "/": api for api in apis for prefix in api.prefixes}
        self._longest_first = sorted(self._api_of, key=len, reverse=True)
        self._fallback = apis[0]
        self._router: Router[tuple[Api, Route]] = Router()
        for api in apis:
            # An error without a row in the table would be answered as an internal error. Check this at startup.
            for leaf in leaves():
                wire_of(api.errors, leaf)
            for route in api.routes:
                for pattern in route.patterns:
                    self._router.add(route.verb, pattern, (api, route))
        self._boot = secrets.token_hex(6)
        self._count = count(1)

    def serve(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        """Accept a request. The returned coroutine answers it and must run as its own task."""
        exchange.request_id = self._request_id(exchange.headers)
        exchange.address = self._address_of(exchange)
        self.in_flight.enter(exchange)
        return self._serve(exchange) if self._trace is None else self._serve_traced(exchange, self._trace)

    async def _serve_traced(self, exchange: Exchange, trace: Trace) -> None:
        with trace(exchange):
            await self._serve(exchange)

    def _address_of(self, exchange: Exchange) -> str:
        forwarded = exchange.headers.raw(b"x-forwarded-for") if self._proxies else None
        if forwarded is None:
            return exchange.peer.address
        return client_address(exchange.peer.address, forwarded.decode("latin-1"), self._proxies)

    def _request_id(self, headers: Headers) -> str:
        """The client's own id if it is safe to write to a log line, otherwise a new one."""
        given = headers.raw(b"x-request-id")
        if given and len(given) <= _REQUEST_ID_LIMIT and given.translate(None, b"-_.:").isalnum():
            return given.decode("ascii")
        return f"{self._boot}-{next(self._count):x}"

    async def _serve(self, exchange: Exchange) -> None:
        current_request_id.set(exchange.request_id)
        try:
            if self._cors is None:
                answer = await self._answer(exchange)
            else:
                answer = self._cors.allow(exchange, self._cors.preflight(exchange) or await self._answer(exchange))
            exchange.deadline = inf
            exchange.status = answer.status
            exchange.peer.send(answer)
            if answer.stream_of is not None:
                await self._stream(exchange, answer, answer.stream_of)
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
            credential = route.credential(headers)
            authenticate: Callable[[], Awaitable[Caller]]
            if api.authenticate is None:
                authenticate = partial(self._ports.access.authenticate, credential, headers)
            else:
                authenticate = partial(api.authenticate, self._ports, credential, exchange.address)
            if self._rates is None:
                caller = LOCAL if route.public else await authenticate()
            else:
                caller = await self._limited(self._rates, exchange, authenticate, api=api, route=route)
            exchange.caller = caller
            query = route.parse_query(exchange.query)
            if exchange.arrived:
                raw_body = _joined_body(exchange.chunks, self._limits.body_bytes)
            else:
                raw_body = await self._read_body(exchange, route)
            if raw_body and (encoding := headers.raw(b"content-encoding")) is not None:
                _require_plain(encoding)
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
                address=exchange.address,
                authenticate=authenticate,
            )
            self._begin_handling(exchange, route)
            return await route.handler(call, self._ports)
        except MoorageError as error:
            exchange.error = error
            return _error_answer(api or self._api_at(exchange.path), error, exchange)
        except asyncio.CancelledError:
            if exchange.ending is None:
                raise
            exchange.outlive()
            return _error_answer(api or self._fallback, _ending_error(exchange), exchange)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - every other failure is logged and answered here
            _log.error("%s %s failed", exchange.verb, _operation(exchange), exc_info=error)
            return _internal_error_answer(api or self._fallback, exchange)

    async def _limited(
        self,
        rates: RateLimit,
        exchange: Exchange,
        authenticate: Callable[[], Awaitable[Caller]],
        *,
        api: Api,
        route: Route,
    ) -> Caller:
        """The caller of a request that is within its rate. Callers without a valid token are counted by address."""
        address = f"address {exchange.address}"
        if route.public:
            if api.rate_limited:
                rates.require(address)
            return LOCAL
        try:
            caller = await authenticate()
        except Unauthenticated:
            rates.require(address)
            raise
        exchange.caller = caller
        rates.require(caller.id)
        return caller

    def _begin_handling(self, exchange: Exchange, route: Route) -> None:
        exchange.handling = True
        if not route.patient:
            exchange.deadline = time.monotonic() + self._limits.handle_seconds
        else:
            exchange.deadline = inf
            if self.in_flight.stopping:
                raise Unavailable("the server is stopping; retry the request")

    async def _read_body(self, exchange: Exchange, route: Route) -> bytes:
        """Read the complete body for every verb: Delta's Java client sends bodies with GET."""
        limit = self._limits.body_bytes
        if route.body is not bytes:
            limit = min(limit, MAX_DRAFT_BYTES)  # a larger draft would be refused anyway: do not parse it
        length = int(exchange.headers.raw(b"content-length") or 0)
        if length > limit:
            raise TooLarge(f"the request body has {length} bytes; the limit is {limit} bytes", field="body")
        exchange.deadline = time.monotonic() + self._limits.read_seconds
        await self._receive_body(exchange, length, limit)
        body = _joined_body(exchange.chunks, limit)
        exchange.chunks.clear()  # otherwise two copies would be kept until the request is answered
        return body

    async def _receive_body(self, exchange: Exchange, length: int, limit: int) -> None:
        """Wait until the body is complete or exceeds the limit. `length` is 0 for a chunked body."""
        chunks, size, joined = exchange.chunks, 0, 0
        while True:
            if len(chunks) > joined:
                # Join chunks as they arrive: a body sent in one-byte chunks would take fifty times its size in memory.
                chunks[joined:] = [b"".join(chunks[joined:])]
                size += len(chunks[joined])
                joined += 1
            if exchange.arrived or size > limit:
                return
            if max(size, length) > _SMALL_BODY and not exchange.room:
                await self._reserve_memory(exchange, length or limit)
            await exchange.peer.more()

    async def _reserve_memory(self, exchange: Exchange, size: int) -> None:
        """Wait, at most for the request timeout, until earlier large requests have been answered."""
        exchange.deadline = inf
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                exchange.room = await self.room.take(size)
        except TimeoutError:
            raise Unavailable("too many large requests are in progress; nothing was changed, retry later") from None
        exchange.deadline = time.monotonic() + self._limits.read_seconds

    async def _stream(self, exchange: Exchange, answer: Answer, chunks: AsyncIterator[bytes]) -> None:
        is_whole = False
        try:
            async for chunk in chunks:
                await exchange.peer.send_chunk(chunk)
            is_whole = True
        except asyncio.CancelledError:
            if exchange.ending is None:
                raise
            exchange.outlive()
            is_whole = answer.endless
        except Exception as error:  # noqa: BLE001 - the status is already sent, so the failure can only be logged
            _log.error("the response stream of %s failed", _operation(exchange), exc_info=error)
        finally:
            if (close := getattr(chunks, "aclose", None)) is not None:
                await close()
        if is_whole:
            exchange.peer.end_stream()
        else:
            exchange.peer.abort()

    def _api_at(self, path: bytes) -> Api:
        """The API whose error format answers an unknown path below its prefix."""
        text = path.decode("latin-1") + "/"
        return next((self._api_of[prefix] for prefix in self._longest_first if text.startswith(prefix)), self._fallback)


def _joined_body(chunks: list[bytes], limit: int) -> bytes:
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if len(body) > limit:
        raise TooLarge(f"the request body is larger than the limit of {limit} bytes", field="body")
    return body


def _require_plain(encoding: bytes) -> None:
    """Refuse a compressed body: a few kilobytes of it could fill the memory."""
    if encoding.strip().lower() not in (b"", b"identity"):
        raise InvalidInput(
            f"the body is compressed ({encoding.decode('latin-1')!r}); this server accepts plain bodies only, send it "
            "without Content-Encoding",
            field="Content-Encoding",
        )


def _operation(exchange: Exchange) -> str:
    return exchange.route.operation if exchange.route is not None else "unknown route"


def _ending_error(exchange: Exchange) -> MoorageError:
    """The error for a request that was ended from outside its handler: it states whether anything changed."""
    if not exchange.handling:
        return TimedOut("the complete request did not arrive in time; nothing was changed, retry it")
    if exchange.route is not None and exchange.route.mutation:
        # Its draft may be in the ledger's queue and may still be appended.
        return OutcomeUnknown("the request took too long; it may or may not have taken effect, check before retrying")
    if exchange.ending is Ending.STOPPING:
        return Unavailable("the server is stopping; retry the request")
    return Unavailable("the request took too long; nothing was changed")


def _error_answer(api: Api, error: MoorageError, exchange: Exchange) -> Answer:
    wire = wire_of(api.errors, type(error))
    headers: list[Header] = []
    if wire.status in (429, 503):
        headers.append((b"retry-after", str(error.details.get("retry_after_seconds", 1)).encode()))
    elif wire.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    elif isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.details.get("allowed", ())).encode()))
    return _rendered(api, wire, error, exchange, headers)


def _rendered(api: Api, wire: Wire, error: MoorageError, exchange: Exchange, headers: Sequence[Header] = ()) -> Answer:
    """The error as the page of a browser, if the API has pages and the client asks for one, otherwise as JSON."""
    if api.error_page is not None and b"text/html" in (exchange.headers.raw(b"accept") or b""):
        page = api.error_page(wire, error, exchange.route, exchange.request_id)
        return replace(page, headers=(*page.headers, *headers))
    return Answer(wire.status, api.render_error(wire, error, exchange.request_id), (JSON, *headers))


def _internal_error_answer(api: Api, exchange: Exchange) -> Answer:
    """The response reveals no internals. Its request id identifies the log line that has them."""
    message = f"internal error; the server log has the details under request id {exchange.request_id}"
    changes = exchange.route is not None and exchange.route.mutation
    error = OutcomeUnknown(message) if changes else Unavailable(message)
    wire = Wire(500, api.unexpected)
    return _rendered(api, wire, error, exchange)
