"""HTTP/1.1 on the event loop: the bytes of a connection become exchanges, and answers become bytes.

llhttp (through httptools) parses the bytes and calls the `on_…` methods in order. A connection has one
exchange at a time: pipelined requests wait, and while they wait the server stops reading from the client.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import deque
from contextlib import suppress
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
_HEAD_TOO_LARGE = (431, f"the request head is larger than {_LARGEST_HEAD} bytes")
_LARGEST_UNREQUESTED = 256 * 1024
"""How much of a body is buffered before a handler asks for it."""
_LARGEST_COPIED = 256 * 1024
"""A body up to this size is sent in one write with its head. Copying a larger one would cost as much as sending it."""
_LINGER_SECONDS = 2.0
_RESET, _NO_RESET = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
"""Values of SO_LINGER: whether to reset a connection that is closed."""
_LINE_BREAK = ord("\n")
"""An integer, not bytes: for `bytes in bytes` CPython first raises and discards an internal exception."""

_HOST = re.compile(rb"(\[[0-9A-Fa-fVv:.]+\]|([\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?")
"""RFC 9110, section 7.2: a host with an optional port."""

_BODILESS = frozenset({204, 304})
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}


class _InvalidHead(Exception):
    """Stops the parser at a head that it accepts but HTTP forbids. The parser does not pass on the reason."""


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
        self._received = 0
        self._framing_bytes = 0
        self._refusal = (0, "")
        # The exchange whose body is being read, the ones that wait, and the one that is being answered.
        self._arriving: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._exchange: Exchange | None = None
        self._idle_since = self._loop.time()
        self._unsent_bytes = 0
        # The body of the current exchange, and its answer if that is a stream.
        self._unrequested = 0
        self._body_progress: asyncio.Future[None] | None = None
        self._chunked: bool | None = None
        self._ends_by_close = False
        self._writable: asyncio.Future[None] | None = None
        # The state of the client.
        self._is_paused = False
        self._is_ended = False
        self._has_invalid_body = False
        self._is_ignored = False
        self.address = ""

    # --- called by the transport ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.address = str(name[0])
        if not self._server.take(self):
            self._refuse(503, "the server has too many connections; retry later")

    def data_received(self, data: bytes) -> None:
        if self._is_ignored:
            return
        self._received = len(data)
        self._framing_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline_upgrade(data[offer.args[0] :])
        except httptools.HttpParserCallbackError:
            if not self._refusal[0]:
                raise
            self._refuse(*self._refusal)
        except httptools.HttpParserError as error:
            self._refuse(400, str(error))
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LARGEST_HEAD:
                self._refuse(*_HEAD_TOO_LARGE)
        elif self._arriving is not None and self._framing_bytes > _LARGEST_HEAD:
            # The parser keeps a trailer until its line ends, and no limit of the body counts it.
            self._refuse(400, f"the request has more than {_LARGEST_HEAD} bytes between two parts of its body")

    def eof_received(self) -> bool:
        """The client will send no more. It still gets the answer to its last request, but a stream is ended."""
        self._end()
        return self._exchange is not None and self._transport.can_write_eof()  # TLS cannot be half closed

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
            if not waiting.done():  # the waiting stream may have been cancelled
                waiting.set_result(None)
            self._start_next()

    # --- called by the parser ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._in_head = True
        self._head_bytes = 0
        self._idle_since = self._loop.time()

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers after the body are ignored
            name = name.lower()
            if name == b"host" and name in self._headers:
                self._reject(400, "the request has more than one Host header")
            self._headers[name] = value

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade():
            return
        self._in_head = False
        if self._head_bytes + self._received > _LARGEST_HEAD:  # the bytes may also be those of a body
            self._check_head_size()
        is_1_1 = parser.get_http_version() == "1.1"
        host = self._headers.get(b"host")
        if host != self._host:  # most clients send the same host each time
            self._check_host(host, required=is_1_1)
        path, _, query = _origin_form(self._target).partition(b"?")
        exchange = Exchange(parser.get_method().decode("ascii"), path, query, Headers(self._headers), self)
        exchange.keeps = is_1_1 and parser.should_keep_alive()
        self._unrequested = 0
        self._framing_bytes = 0
        self._arriving = exchange
        self._waiting.append(exchange)
        self._start_next()
        if self._waiting:
            self._pause_reading()

    def on_chunk_header(self) -> None:
        self._framing_bytes = 0

    def on_body(self, chunk: bytes) -> None:
        assert self._arriving is not None  # noqa: S101 - a body follows its head
        self._framing_bytes = 0
        self._arriving.chunks.append(chunk)
        if self._body_progress is not None:
            self._wake_reader()
            return
        self._unrequested += len(chunk)
        if self._unrequested > _LARGEST_UNREQUESTED:
            self._pause_reading()

    def on_message_complete(self) -> None:
        if self._arriving is not None:
            self._arriving.arrived = True
            self._arriving = None
            self._wake_reader()
            if not self._waiting:
                self._resume_reading()  # a large body can be complete before a handler asks for it

    # --- called by the exchange -------------------------------------------------------------------

    async def more(self) -> None:
        exchange = self._current()
        if not exchange.chunks and (exchange.headers.raw(b"expect") or b"").lower() == b"100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._unrequested = 0
        if not (self._is_ended or self._has_invalid_body):
            self._body_progress = self._loop.create_future()
            self._resume_reading()
            try:
                await self._body_progress
            finally:
                self._body_progress = None
        if exchange.arrived:
            return
        if self._has_invalid_body:
            raise InvalidInput("the request body is not encoded as its HTTP headers declare", field="body")
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
            # Replace line breaks: they would let a value inject headers.
            parts += (name, b": ", value if _LINE_BREAK not in value else b" ".join(value.split()), b"\r\n")
        if self._server.stopping or not exchange.arrived:
            exchange.keeps = False
        if not exchange.keeps:
            parts.append(b"connection: close\r\n")
        if answer.stream_of is not None:
            self._begin_stream(exchange, answer.length, parts)
            return
        if status not in _BODILESS:
            parts.append(b"content-length: %d\r\n" % (len(body) if answer.length is None else answer.length))
        parts.append(b"\r\n")
        if exchange.verb == "HEAD":
            body = b""
        if len(body) > _LARGEST_COPIED:
            self._write(b"".join(parts))
            self._write(body)
        else:
            parts.append(body)
            self._write(b"".join(parts))
        self._finish(exchange)

    def _begin_stream(self, exchange: Exchange, length: int | None, head: list[bytes]) -> None:
        self._chunked = length is None and self._parser.get_http_version() == "1.1"
        if length is not None:
            head.append(b"content-length: %d\r\n\r\n" % length)
        elif self._chunked:
            head.append(b"transfer-encoding: chunked\r\n\r\n")
        else:
            head.append(b"\r\n")
            exchange.keeps = False
            self._reset_on_close(_RESET)
        self._write(b"".join(head))

    async def send_chunk(self, chunk: bytes) -> None:
        if chunk:  # an empty chunk would end the stream
            self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked else chunk)
        if self._writable is not None:
            await self._writable

    def end_stream(self) -> None:
        if self._chunked:
            self._write(b"0\r\n\r\n")
        elif self._ends_by_close:
            self._reset_on_close(_NO_RESET)
        self._chunked = None
        self._finish(self._current())

    # --- called by the server ---------------------------------------------------------------------

    def close_if_idle(self) -> None:
        """Close unless a request is being answered. An incomplete head is not an accepted request."""
        if self._exchange is None:
            self._transport.close()

    def close_if_overdue(self, now: float) -> None:
        """Abort if the client sends nothing, never completes a head, or does not read its answer."""
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:  # a slow reader is not idle
            self._unsent_bytes = unsent
            self._idle_since = now
        limit = self._server.head_seconds if self._in_head else self._server.idle_seconds
        if self._is_ignored:
            limit = _LINGER_SECONDS
        if self._exchange is None and now - self._idle_since > limit:
            self._transport.abort()

    def abort(self) -> None:
        """Cut the connection. Also called by an exchange whose stream cannot be completed."""
        self._transport.abort()

    # --- internals --------------------------------------------------------------------------------

    def _reset_on_close(self, linger: bytes) -> None:
        """Choose how the connection is closed, also by the system if this process is killed.

        For a client of HTTP/1.0, such as nginx in its default configuration, the end of the connection is the end of a
        stream. Only a reset tells it that the stream is incomplete.
        """
        self._ends_by_close = linger == _RESET
        if not self._transport.is_closing():
            with suppress(OSError):  # the client has closed the connection
                self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _current(self) -> Exchange:
        assert self._exchange is not None  # noqa: S101 - only the current exchange uses the connection
        return self._exchange

    def _start_next(self) -> None:
        """Start the next exchange, unless the client has not read the last answer yet."""
        if self._waiting and self._exchange is None and self._writable is None:
            self._exchange = self._waiting.popleft()
            if not self._waiting:
                self._resume_reading()
            # A fixed name, because asyncio would otherwise format a unique one for each task.
            self._exchange.task = asyncio.Task(self._server.app.serve(self._exchange), loop=self._loop, name="exchange")

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        self._idle_since = self._loop.time()
        if exchange.keeps and (self._waiting or not self._is_ended):
            self._start_next()
        elif exchange.arrived:
            self._is_ignored = True
            self._waiting.clear()
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Close, but keep reading for a while: closing with unread bytes resets the connection and loses the answer."""
        self._is_ignored = True
        self._waiting.clear()
        self._resume_reading()
        if not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()

    def _check_host(self, host: bytes | None, *, required: bool) -> None:
        """RFC 9112, section 3.2: a proxy and this server could interpret a missing or invalid Host differently."""
        if host is None:
            if required:
                self._reject(400, "an HTTP/1.1 request requires a Host header")
        elif not _HOST.fullmatch(host):
            self._reject(400, "the Host header is not a valid host name or address")
        else:
            self._host = host

    def _check_head_size(self) -> None:
        size = len(self._target) + sum(len(name) + len(value) for name, value in self._headers.items())
        if size > _LARGEST_HEAD:
            self._reject(*_HEAD_TOO_LARGE)

    def _reject(self, status: int, reason: str) -> NoReturn:
        self._refusal = status, reason
        raise _InvalidHead

    def _refuse(self, status: int, reason: str) -> None:
        """Answer in plain text, because what arrived is not a request of any API."""
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
            self._has_invalid_body = True
            self._wake_reader()
        (self._waiting[-1] if self._waiting else self._exchange).keeps = False

    def _decline_upgrade(self, rest: bytes) -> None:
        """Continue in HTTP/1.1 with a client that offered another protocol.

        The parser treats all further bytes as that protocol. A new parser gets the same head without the offer.
        """
        verb, version, headers = self._parser.get_method(), self._parser.get_http_version().encode(), self._headers
        if headers.pop(b"upgrade", None) is None:
            self._refuse(400, "CONNECT is not supported: this server is not a proxy")
            return
        head = b"".join(b"%b: %b\r\n" % header for header in headers.items())
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b %b HTTP/%b\r\n%b\r\n%b" % (verb, self._target, version, head, rest))

    def _end(self) -> None:
        self._is_ended = True
        self._wake_reader()
        if self._exchange is not None and self._chunked is not None:
            self._exchange.end(Ending.CLIENT_GONE)

    def _wake_reader(self) -> None:
        if self._body_progress is not None and not self._body_progress.done():
            self._body_progress.set_result(None)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()


def _origin_form(target: bytes) -> bytes:
    """The path and query of a request target. A proxy may send an absolute URL."""
    if target.startswith(b"/"):
        return target
    address = target.partition(b"://")[2]
    return address[address.find(b"/") :] if b"/" in address else target
