"""HTTP/1.1 on the event loop: from the bytes of a connection to exchanges, and back.

llhttp, through httptools, reads the bytes and calls `on_…` in their order. A connection has one
exchange at a time: requests that are sent ahead wait, and their sender is not read meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, NoReturn, cast

import httptools

from moorage.core.errors import InvalidInput
from moorage.http.answers import Answer
from moorage.http.calls import Headers
from moorage.http.exchanges import ClientGone, Ending, Exchange

if TYPE_CHECKING:
    from moorage.http.server import HttpServer

_LARGEST_HEAD = 64 * 1024
_MOST_UNASKED = 256 * 1024
"""So much of a body is taken in before anybody has asked for it."""
_COPIED = 256 * 1024
"""An answer up to this is sent in one piece with its head. To copy more would cost as much as to send it."""
_LINGER_SECONDS = 2.0
_LINE_BREAK = ord("\n")
"""As a number: to look for one piece of bytes in another, Python first makes an error and throws it away."""

_HOST = re.compile(rb"(\[[0-9A-Fa-fVv:.]+\]|([\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?")
"""RFC 9110, 7.2: the host and the port of an address."""

_BODILESS = frozenset({204, 304})
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}


class _BadHead(Exception):
    """A head that the parser can read and HTTP forbids. It stops the parser, which tells nobody why."""


class Connection(asyncio.Protocol):
    """One client's connection."""

    _transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = server.loop
        self._parser = httptools.HttpRequestParser(self)
        # The request whose head is being read.
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._in_head = False
        self._head_bytes = 0
        self._host = b""
        self._flaw = ""
        # The exchanges: the one whose body is being read, those that wait, the one that is being answered.
        self._arriving: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._exchange: Exchange | None = None
        self._idle_since = self._loop.time()
        self._unsent = 0
        # Its body, and its answer if that is a stream.
        self._unasked = 0
        self._progress: asyncio.Future[None] | None = None
        self._chunked: bool | None = None
        self._writable: asyncio.Future[None] | None = None
        # What became of the client.
        self._is_held = False
        self._is_ended = False
        self._is_broken = False
        self._is_ignored = False

    # --- what the transport tells ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.take(self):
            self._refuse(503, "too many connections")

    def data_received(self, data: bytes) -> None:
        if self._is_ignored:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserCallbackError:
            if not self._flaw:
                raise
            self._refuse(400, self._flaw)
        except httptools.HttpParserError as error:
            self._refuse(400, str(error))
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LARGEST_HEAD:
                self._refuse(431, "the headers are too large")

    def eof_received(self) -> bool:
        """Whoever has sent its last request may still want the answer. A reader of a stream has left."""
        self._end()
        return self._exchange is not None

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)
        self._waiting.clear()
        self._end()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        waiting, self._writable = self._writable, None
        if waiting is not None:
            if not waiting.done():  # the stream that waited may have been ended
                waiting.set_result(None)
            self._advance()

    # --- what the parser tells -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._in_head = True
        self._head_bytes = 0
        self._idle_since = self._loop.time()

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer behind the body comes too late to mean anything
            name = name.lower()
            if name == b"host" and name in self._headers:
                self._reject("there is more than one Host")
            self._headers[name] = value

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade():
            return
        self._in_head = False
        is_1_1 = parser.get_http_version() == "1.1"
        host = self._headers.get(b"host")
        if host != self._host:  # most clients say the same each time
            self._take_host(host, required=is_1_1)
        path, _, query = _origin_form(self._target).partition(b"?")
        exchange = Exchange(parser.get_method().decode("ascii"), path, query, Headers(self._headers), self)
        exchange.keeps = is_1_1 and parser.should_keep_alive()
        self._unasked = 0
        self._arriving = exchange
        self._waiting.append(exchange)
        self._advance()
        if self._waiting:
            self._hold()

    def on_body(self, chunk: bytes) -> None:
        assert self._arriving is not None  # noqa: S101 - a body comes behind its head
        self._arriving.chunks.append(chunk)
        if self._progress is not None:
            self._go_on()
            return
        self._unasked += len(chunk)
        if self._unasked > _MOST_UNASKED:
            self._hold()

    def on_message_complete(self) -> None:
        if self._arriving is not None:
            self._arriving.arrived = True
            self._arriving = None
            self._go_on()

    # --- what the exchange asks for --------------------------------------------------------------

    async def more(self) -> None:
        exchange = self._current()
        if not exchange.chunks and (exchange.headers.raw(b"expect") or b"").lower() == b"100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._unasked = 0
        if not (self._is_ended or self._is_broken):
            self._progress = self._loop.create_future()
            self._release()
            try:
                await self._progress
            finally:
                self._progress = None
        if exchange.arrived:
            return
        if self._is_broken:
            raise InvalidInput("the body is not sent as HTTP demands", field="body")
        if self._is_ended:
            self._transport.close()
            raise ClientGone

    def send(self, answer: Answer) -> None:
        exchange = self._current()
        status, body, headers, route = answer.status, answer.body, answer.headers, exchange.route
        if route is not None and route.headers:
            headers = (*headers, *route.headers)
        request_id = exchange.request_id.encode()
        parts = [_STATUS_LINES[status], self._server.own_lines(), b"x-request-id: ", request_id, b"\r\n"]
        for name, value in headers:
            # A line break would let a value write headers of its own.
            parts += (name, b": ", value if _LINE_BREAK not in value else b" ".join(value.split()), b"\r\n")
        if self._server.stopping or not exchange.arrived:
            exchange.keeps = False
        if not exchange.keeps:
            parts.append(b"connection: close\r\n")
        if answer.stream_of is not None:
            self._chunked = self._parser.get_http_version() == "1.1"
            parts.append(b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n")
            self._write(b"".join(parts))
            return
        if status not in _BODILESS:
            parts.append(b"content-length: %d\r\n" % len(body))
        parts.append(b"\r\n")
        if exchange.verb == "HEAD":
            body = b""
        if len(body) > _COPIED:
            self._write(b"".join(parts))
            self._write(body)
        else:
            parts.append(body)
            self._write(b"".join(parts))
        self._finish(exchange)

    async def send_chunk(self, chunk: bytes) -> None:
        if chunk:  # an empty one would end the stream
            self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked else chunk)
        if self._writable is not None:
            await self._writable

    def end_stream(self) -> None:
        if self._chunked:
            self._write(b"0\r\n\r\n")
        else:
            self._current().keeps = False
        self._chunked = None
        self._finish(self._current())

    # --- what the server asks for ----------------------------------------------------------------

    def close_if_idle(self) -> None:
        """A request of which only the beginning came was not accepted."""
        if self._exchange is None:
            self._transport.close()

    def close_if_overdue(self, now: float) -> None:
        """Nobody holds a connection by sending nothing, a head that never ends, or by not reading its answer."""
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent:  # a slow reader is a reader
            self._unsent = unsent
            self._idle_since = now
        limit = self._server.head_seconds if self._in_head else self._server.idle_seconds
        if self._is_ignored:
            limit = _LINGER_SECONDS
        if self._exchange is None and now - self._idle_since > limit:
            self._transport.abort()

    def abort(self) -> None:
        self._transport.abort()

    # --- inside ----------------------------------------------------------------------------------

    def _current(self) -> Exchange:
        assert self._exchange is not None  # noqa: S101 - only the current exchange speaks to its client
        return self._exchange

    def _advance(self) -> None:
        """Begin the next exchange, unless the client has yet to read its last answer."""
        if self._waiting and self._exchange is None and self._writable is None:
            self._exchange = self._waiting.popleft()
            if not self._waiting:
                self._release()
            # With a name: otherwise each would be given one with a number, written out for nobody to read.
            self._exchange.task = asyncio.Task(self._server.app.serve(self._exchange), loop=self._loop, name="exchange")

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        self._idle_since = self._loop.time()
        if exchange.keeps and (self._waiting or not self._is_ended):
            self._advance()
        elif exchange.arrived:
            self._is_ignored = True
            self._waiting.clear()
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Close, but read on for a while: closing with bytes unread would take back the answer just sent."""
        self._is_ignored = True
        self._waiting.clear()
        self._release()
        if not self._transport.is_closing():
            self._transport.write_eof()

    def _take_host(self, host: bytes | None, *, required: bool) -> None:
        """RFC 9112, 3.2: a proxy and this server could mean different hosts by a request that names none clearly."""
        if host is None:
            if required:
                self._reject("HTTP/1.1 demands a Host")
        elif not _HOST.fullmatch(host):
            self._reject("the Host is neither a name nor an address")
        else:
            self._host = host

    def _reject(self, flaw: str) -> NoReturn:
        self._flaw = flaw
        raise _BadHead

    def _refuse(self, status: int, reason: str) -> None:
        """What came is no request that an API could answer in its own words."""
        if self._is_ignored:
            return
        if self._exchange is None:
            self._in_head = False
            head = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(reason)
            self._write(_STATUS_LINES[status] + head + reason.encode("ascii", "replace"))
            self._linger()
            return
        self._is_ignored = True
        if self._arriving is not None:
            self._is_broken = True
            self._go_on()
        (self._waiting[-1] if self._waiting else self._exchange).keeps = False

    def _decline(self, rest: bytes) -> None:
        """Go on in HTTP/1.1 with a client that offered another protocol.

        The parser takes what follows for that protocol. A fresh one hears the same head without the offer.
        """
        verb, version, headers = self._parser.get_method(), self._parser.get_http_version().encode(), self._headers
        if headers.pop(b"upgrade", None) is None:
            self._refuse(400, "this is no proxy")
            return
        head = b"".join(b"%b: %b\r\n" % header for header in headers.items())
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b %b HTTP/%b\r\n%b\r\n%b" % (verb, self._target, version, head, rest))

    def _end(self) -> None:
        self._is_ended = True
        self._go_on()
        if self._exchange is not None and self._chunked is not None:
            self._exchange.end(Ending.CLIENT_GONE)

    def _go_on(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():  # whoever has left is told nothing
            self._transport.write(data)

    def _hold(self) -> None:
        if not self._is_held:
            self._is_held = True
            self._transport.pause_reading()

    def _release(self) -> None:
        if self._is_held and not self._transport.is_closing():
            self._is_held = False
            self._transport.resume_reading()


def _origin_form(target: bytes) -> bytes:
    """The path and query; a proxy may have sent the whole address."""
    if target.startswith(b"/"):
        return target
    address = target.partition(b"://")[2]
    return address[address.find(b"/") :] if b"/" in address else target
