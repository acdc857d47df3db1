"""Requests and answers on a raw connection: framing, limits, timeouts and refusals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.http import Answer, Api, App, Call, Example, Headers, Limits, connections
from moorage.http.server import HttpServer
from tests.in_process import serving
from tests.unit.http.harbour import Ports, api_that, app_of

POST = b"POST /harbour/ships HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /harbour/ships HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET /harbour/ships HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LARGE = 32 * 1024 * 1024
"""More than the buffers of two sockets hold."""
SLICE = LARGE // 8


class RawConnection:
    """A connection whose bytes the test writes and reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def reply(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, and a body of the declared length."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")[:-2]
        headers = dict(header.split(": ", 1) for header in lines)
        return int(first.split()[1]), headers, await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        return await self.reader.read()


async def greet(call: Call[Any, Any]) -> Answer:
    return Answer.json({"body": call.raw_body.decode(), "trail": call.header("x-trail")})


async def stream(call: Call[Any, Any]) -> Answer:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b""
        yield b"two"

    return Answer.stream(chunks(), "text/plain")


@asynccontextmanager
async def connect_to(api: Api, *, ports: Ports | None = None, **given: Any) -> AsyncIterator[RawConnection]:
    app = App([api], ports or Ports(), limits=Limits(body_bytes=64 * 1024 * 1024))
    async with asyncio.timeout(60), serving(app, **given) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield RawConnection(reader, writer)
        finally:
            writer.close()


async def reply_to(api: Api, *sent: bytes, **given: Any) -> tuple[int, dict[str, str], bytes]:
    async with connect_to(api, **given) as connection:
        for part in sent:
            connection.writer.write(part)
            await connection.writer.drain()
        return await connection.reply()


async def test_a_client_that_expects_100_continue_receives_it() -> None:
    async with connect_to(api_that(greet, verb="post")) as connection:
        connection.writer.write(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.writer.write(b"hi")
        assert b'"hi"' in (await connection.reply())[2]


async def test_a_body_that_arrives_before_it_is_read_does_not_block_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_LARGEST_UNREQUESTED", 2)
    async with asyncio.timeout(10), connect_to(api_that(greet, verb="post")) as connection:
        for _ in range(2):
            connection.writer.write(POST + b"Content-Length: 4\r\n\r\nahoy")
            assert b'"ahoy"' in (await connection.reply())[2]


async def test_a_client_that_expects_100_continue_is_refused_before_it_sends_its_body() -> None:
    ask = b"Authorization: Bearer nobody\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    status, headers, _ = await reply_to(api_that(greet, verb="post"), POST + ask)
    assert (status, headers["connection"]) == (401, "close")


async def test_a_request_sent_while_the_server_stops_is_answered() -> None:
    server = HttpServer(app_of(api_that(greet)), most=10, head_seconds=30)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.begin(listener)
    async with asyncio.timeout(60):
        connection = RawConnection(*await asyncio.open_connection(*listener.getsockname()))
        connection.writer.write(GET)
        assert (await connection.reply())[0] == 200
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        connection.writer.write(GET)
        status, headers, _ = await connection.reply()
        assert (status, headers["connection"]) == (200, "close")
        await stopping
        await server.end(1)
        assert await connection.rest() == b""
        connection.writer.close()


async def test_the_answer_to_head_has_a_length_and_no_body() -> None:
    async with connect_to(api_that(greet, verb="head")) as connection:
        connection.writer.write((GET + LAST_GET).replace(b"GET", b"HEAD"))
        received = await connection.rest()
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert received.count(b"content-length: 24\r\n") == 2
    assert received.endswith(b"\r\n\r\n")


async def test_an_answer_without_content_has_no_length() -> None:
    async def nothing(call: Call[Any, Any]) -> Answer:
        return Answer.empty()

    status, headers, _ = await reply_to(api_that(nothing), GET)
    assert (status, "content-length" in headers) == (204, False)
    assert headers["date"].endswith(" GMT")


async def test_a_client_of_http_1_0_gets_a_stream_without_chunks() -> None:
    async with connect_to(api_that(stream)) as connection:
        connection.writer.write(b"GET /harbour/ships HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        received = await connection.rest()
    assert received.endswith(b"\r\n\r\nonetwo")
    assert b"connection: close" in received


async def test_a_stream_is_followed_by_the_next_answer() -> None:
    async with connect_to(api_that(stream)) as connection:
        connection.writer.write(GET + LAST_GET)
        received = await connection.rest()
    assert received.count(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n") == 2


async def test_a_stream_of_known_length_has_no_chunks_and_keeps_the_connection() -> None:
    async def known(call: Call[Any, Any]) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            yield b"two"

        return Answer(206, b"", (), stream_of=chunks(), length=6)

    async with connect_to(api_that(known)) as connection:
        for _ in range(2):
            connection.writer.write(GET)
            status, headers, body = await connection.reply()
            assert (status, body, "transfer-encoding" in headers) == (206, b"onetwo", False)


async def test_a_head_request_gets_the_length_of_the_body_that_it_does_not_get() -> None:
    async def sized(call: Call[Any, Any]) -> Answer:
        return Answer(200, b"", (), length=1234)

    async with connect_to(api_that(sized, verb="head")) as connection:
        connection.writer.write(LAST_GET.replace(b"GET", b"HEAD", 1))
        received = await connection.rest()
    assert b"content-length: 1234\r\n" in received
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("length", [None, 6])
async def test_a_stream_that_fails_cuts_the_connection(length: int | None, caplog: pytest.LogCaptureFixture) -> None:
    """A clean end would look like a complete, shorter document."""

    async def failing(call: Call[Any, Any]) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            raise RuntimeError("the disk is gone")

        return Answer(200, b"", (), stream_of=chunks(), length=length)

    async with connect_to(api_that(failing)) as connection:
        connection.writer.write(GET)
        received = b""
        with suppress(ConnectionResetError):
            while part := await connection.reader.read(SLICE):
                received += part
    assert not received.endswith(b"0\r\n\r\n")
    assert b"the disk is gone" not in received
    assert "the response stream" in caplog.text


async def test_a_stream_that_fails_is_reset_if_its_client_takes_the_end_of_the_connection_for_that_of_the_stream() -> (
    None
):
    async def failing(call: Call[Any, Any]) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            await failure.wait()
            raise RuntimeError("the disk is gone")

        return Answer.stream(chunks(), "text/plain")

    failure = asyncio.Event()
    async with connect_to(api_that(failing)) as connection:
        connection.writer.write(b"GET /harbour/ships HTTP/1.0\r\n\r\n")
        await connection.reader.readuntil(b"one")
        failure.set()
        with pytest.raises(ConnectionResetError):
            await connection.rest()


@pytest.mark.parametrize("endless", [True, False])
async def test_a_stop_ends_an_endless_stream_and_cuts_a_document(*, endless: bool) -> None:
    async def slow(call: Call[Any, Any]) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            await asyncio.sleep(3600)

        return Answer.stream(chunks(), "text/plain", endless=endless)

    app = App([api_that(slow, patient=True)], Ports())
    async with asyncio.timeout(60), serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(LAST_GET)
        await reader.readuntil(b"one\r\n")
        assert await app.in_flight.drain(30)
        rest = b""
        with suppress(ConnectionResetError):
            rest = await reader.read()
        writer.close()
    assert rest == (b"0\r\n\r\n" if endless else b"")


async def test_a_client_that_half_closes_its_connection_gets_every_answer() -> None:
    async with connect_to(api_that(greet)) as connection:
        connection.writer.write(GET * 3)
        connection.writer.write_eof()
        assert (await connection.rest()).count(b"HTTP/1.1 200 OK") == 3


async def test_a_connection_that_ends_in_the_middle_of_a_body_is_closed() -> None:
    async with connect_to(api_that(greet, verb="post")) as connection:
        connection.writer.write(POST + b"Content-Length: 5\r\n\r\nhel")
        connection.writer.write_eof()
        assert await connection.rest() == b""


@pytest.mark.parametrize("target", [b"http://somewhere/harbour/ships?a=b", b"https://user@h:1/harbour/ships"])
async def test_a_request_target_may_be_an_absolute_url_as_proxies_send_it(target: bytes) -> None:
    assert (await reply_to(api_that(greet), b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200


@pytest.mark.parametrize("target", [b"*", b"http://somewhere", b"ships"])
async def test_a_request_target_without_a_path_is_refused(target: bytes) -> None:
    assert (await reply_to(api_that(greet), b"OPTIONS " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"))[0] in (400, 404)


async def test_a_broken_chunk_is_refused_in_the_error_format_of_the_api() -> None:
    broken = b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nzz\r\n"
    status, headers, body = await reply_to(api_that(greet, verb="post"), POST + broken)
    assert (status, headers["connection"]) == (400, "close")
    assert b'"field":"body"' in body


async def test_a_trailer_is_not_read_as_a_header() -> None:
    body = b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Trail: late\r\n\r\n"
    assert (await reply_to(api_that(greet, verb="post"), POST + body))[2] == b'{"body":"hi","trail":null}'


@pytest.mark.parametrize("framing", [b"0\r\nX-Trail: ", b"1;x=", b"0\r\n" + b"X-Trail: a\r\n" * 1000])
async def test_trailers_and_chunk_extensions_have_a_limit(framing: bytes) -> None:
    """They are in no part of the body, so without a limit a line of any length would be kept in memory."""
    async with connect_to(api_that(greet, verb="post")) as connection:
        connection.writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n" + framing)
        reply = asyncio.ensure_future(connection.reply())
        for _ in range(1000):
            if reply.done():
                break
            connection.writer.write(b"y" * 10_000)
            await asyncio.sleep(0)
        status, headers, reason = await reply
        assert (status, headers["connection"]) == (400, "close"), reason


async def test_a_body_in_many_chunks_is_accepted() -> None:
    body = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\ny\r\n" * 100_000 + b"0\r\nX-Trail: a\r\n\r\n"
    assert (await reply_to(api_that(greet, verb="post"), POST + body))[0] == 200


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
        b"Content-Length: 2, 3\r\n\r\nhi!",
        b"Transfer-Encoding: gzip, identity\r\n\r\n",
        b"Content-Length : 2\r\n\r\nhi",
        b"X-Key: a\x01b\r\n\r\n",
    ],
)
async def test_a_request_that_two_servers_could_read_differently_is_refused(smuggled: bytes) -> None:
    status, headers, _ = await reply_to(api_that(greet, verb="post"), POST + smuggled)
    assert (status, headers["connection"]) == (400, "close")


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"Host: a b\r\n",
        b"Host: a/b\r\n",
        b"Host: me@a\r\n",
        b"Host: a:b:1\r\n",
        b"Host: ::1\r\n",
        b"Host: a\r\nX: y\r\nhost: a\r\n",
    ],
)
@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
async def test_a_request_without_one_valid_host_is_refused(host: bytes, offer: bytes) -> None:
    async with connect_to(api_that(greet)) as connection:
        connection.writer.write(b"GET /harbour/ships HTTP/1.1\r\n" + host + offer + b"\r\n" + GET)
        status, headers, reason = await connection.reply()
        assert (status, headers["connection"]) == (400, "close")
        assert b"Host" in reason
        assert await connection.rest() == b""  # the request after it is not carried out


@pytest.mark.parametrize("host", [b"a", b"a.b:80", b"10.0.0.1:80", b"[::1]:80", b"my_catalog", b"a%20b", b""])
async def test_a_host_is_a_name_or_an_address(host: bytes) -> None:
    assert (await reply_to(api_that(greet), b"GET /harbour/ships HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"))[0] == 200


async def test_the_host_of_each_request_on_a_connection_is_checked() -> None:
    async with connect_to(api_that(greet)) as connection:
        for request in (GET, GET.replace(b"x", b"y"), GET):
            connection.writer.write(request)
            assert (await connection.reply())[0] == 200
        connection.writer.write(GET.replace(b"Host: x\r\n", b""))
        assert (await connection.reply())[0] == 400


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
async def test_a_client_of_http_1_0_need_not_name_a_host(offer: bytes) -> None:
    assert (await reply_to(api_that(greet), b"GET /harbour/ships HTTP/1.0\r\n" + offer + b"\r\n"))[0] == 200


async def test_garbage_after_a_valid_request_does_not_affect_its_answer() -> None:
    async with connect_to(api_that(greet)) as connection:
        connection.writer.write(GET + b"\x00garbage\r\n\r\n")
        received = await connection.rest()
    assert (received.count(b"HTTP/1.1 "), received.count(b"HTTP/1.1 200 OK")) == (1, 1)


async def test_a_broken_pipelined_request_is_refused_after_the_one_before_it_is_answered() -> None:
    broken = POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    async with connect_to(api_that(greet, verb="post")) as connection:
        connection.writer.write(POST + b"Content-Length: 2\r\n\r\nhi" + broken)
        assert [(await connection.reply())[0], (await connection.reply())[0]] == [200, 400]


async def test_a_request_sent_after_connection_close_is_not_carried_out() -> None:
    seen: list[bytes] = []

    async def note(call: Call[Any, Any]) -> Answer:
        seen.append(call.raw_body)
        return Answer.empty()

    async with connect_to(api_that(note, verb="post")) as connection:
        last = POST + b"Connection: close\r\nContent-Length: 4\r\n\r\nlast"
        connection.writer.write(last + POST + b"Content-Length: 4\r\n\r\nmore")
        await connection.rest()
    assert seen == [b"last"]


async def test_a_status_without_a_reason_phrase_is_sent() -> None:
    async def odd(call: Call[Any, Any]) -> Answer:
        return Answer.empty(419)

    assert (await reply_to(api_that(odd), GET))[0] == 419


async def test_a_stream_that_no_client_reads_ends_with_the_server_and_raises_no_error() -> None:
    async def endless(call: Call[Any, Any]) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield bytes(SLICE)

        return Answer.stream(chunks(), "text/plain", endless=True)

    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    app = App([api_that(endless, patient=True)], Ports())
    async with asyncio.timeout(60), serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(LAST_GET)
        await reader.readuntil(b"\r\n\r\n")
        assert await app.in_flight.drain(30)
        while await reader.read(SLICE):
            pass
        writer.close()
    assert errors == []


async def test_a_request_head_that_is_too_large_is_refused() -> None:
    lines = [b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(100)]
    assert (await reply_to(api_that(greet), b"GET / HTTP/1.1\r\n", *lines))[0] == 431


async def test_a_large_request_head_is_refused_although_it_arrives_at_once() -> None:
    """The loop reads up to 256 KB at a time, so a complete head can be larger than the limit."""
    app = api_that(greet, verb="post")
    fits = POST + b"X-Trail: " + b"y" * 60_000 + b"\r\nContent-Length: 100000\r\n\r\n"
    assert (await reply_to(app, fits + b"b" * 100_000))[0] == 200
    too_large = POST + b"X-Trail: " + b"y" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n"
    status, headers, _ = await reply_to(app, too_large)
    assert (status, headers["connection"]) == (431, "close")


async def test_a_connection_with_an_incomplete_request_head_is_closed() -> None:
    async with connect_to(api_that(greet), head_seconds=0.01) as connection:
        connection.writer.write(b"GET / HTT")
        with suppress(ConnectionResetError):
            assert await connection.rest() == b""


async def test_a_connection_above_the_limit_is_refused_with_503() -> None:
    status, headers, _ = await reply_to(api_that(greet), most=0)
    assert (status, headers["connection"]) == (503, "close")


async def test_a_line_break_in_a_header_value_adds_no_header() -> None:
    async def tricked(call: Call[Any, Any]) -> Answer:
        return Answer(204, headers=[(b"location", b"a\r\nset-cookie: b")])

    assert (await reply_to(api_that(tricked), GET))[1]["location"] == "a set-cookie: b"


async def large(call: Call[Any, Any]) -> Answer:
    return Answer.text(bytes(LARGE), "application/octet-stream")


async def test_answers_of_any_size_arrive_complete_and_in_order() -> None:
    sizes = [1_000_000, 3, 1_000_001]
    left = iter(sizes)

    async def each(call: Call[Any, Any]) -> Answer:
        return Answer.text(bytes(next(left)), "application/octet-stream")

    async with connect_to(api_that(each)) as connection:
        connection.writer.write(GET * len(sizes))
        assert [len((await connection.reply())[2]) for _ in sizes] == sizes


async def test_an_idle_connection_is_closed_after_its_timeout() -> None:
    async with connect_to(api_that(greet), idle_seconds=0.2) as connection:
        connection.writer.write(GET)
        assert (await connection.reply())[0] == 200
        with suppress(ConnectionResetError):
            assert await connection.rest() == b""


async def test_a_slow_reader_gets_its_whole_answer() -> None:
    async with connect_to(api_that(large), idle_seconds=1.5) as connection:
        connection.writer.write(GET)
        await connection.reader.readuntil(b"\r\n\r\n")
        for _ in range(LARGE // SLICE):
            await asyncio.sleep(0.25)
            await connection.reader.readexactly(SLICE)


async def test_a_connection_whose_client_stops_reading_is_closed() -> None:
    async with connect_to(api_that(large), idle_seconds=0.1) as connection:
        connection.writer.write(GET)
        for _ in range(20):
            await asyncio.sleep(0.05)
        with suppress(ConnectionResetError):
            assert len(await connection.rest()) < LARGE


class SlowAccess:
    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        await self.open.wait()
        return LOCAL


async def test_a_body_is_not_read_before_its_caller_is_authenticated() -> None:
    async def measure(call: Call[Any, Any]) -> Answer:
        return Answer.json(len(call.raw_body))

    ports = Ports()
    ports.access = access = SlowAccess()  # type: ignore[assignment]
    api = api_that(measure, verb="post", body=bytes, takes="application/vnd.cargo", example=Example(body="AAE="))
    async with connect_to(api, ports=ports) as connection:
        connection.writer.write(POST + b"Content-Length: %d\r\n\r\n" % LARGE)
        connection.writer.write(bytes(LARGE))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.writer.drain(), 0.5)
        access.open.set()
        assert (await connection.reply())[2] == b"%d" % LARGE
