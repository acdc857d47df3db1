"""What clients may send over a connection, and what becomes of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.http import Answer, Api, App, Call, Example, Headers, Limits
from moorage.http.server import HttpServer
from tests.in_process import serving
from tests.unit.http.harbour import Ports, api_that, app_of

POST = b"POST /harbour/ships HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /harbour/ships HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET /harbour/ships HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LARGE = 32 * 1024 * 1024
"""More than the buffers of two sockets hold."""
SLICE = LARGE // 8


class Line:
    """A connection whose bytes the test writes and reads itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def reply(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and as much of a body as its length says."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")[:-2]
        headers = dict(line.split(": ", 1) for line in lines)
        return int(first.split()[1]), headers, await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
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
async def line_to(api: Api, *, ports: Ports | None = None, **given: Any) -> AsyncIterator[Line]:
    app = App([api], ports or Ports(), limits=Limits(body_bytes=64 * 1024 * 1024))
    async with asyncio.timeout(60), serving(app, **given) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield Line(reader, writer)
        finally:
            writer.close()


async def told(api: Api, *sent: bytes, **given: Any) -> tuple[int, dict[str, str], bytes]:
    async with line_to(api, **given) as line:
        for part in sent:
            line.writer.write(part)
            await line.writer.drain()
        return await line.reply()


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    async with line_to(api_that(greet, verb="post")) as line:
        line.writer.write(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.writer.write(b"hi")
        assert b'"hi"' in (await line.reply())[2]


async def test_a_client_that_asks_first_is_refused_before_it_sends() -> None:
    ask = b"Authorization: Bearer nobody\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    status, headers, _ = await told(api_that(greet, verb="post"), POST + ask)
    assert (status, headers["connection"]) == (401, "close")


async def test_a_request_on_its_way_is_answered_though_a_stop_has_begun() -> None:
    server = HttpServer(app_of(api_that(greet)), most=10, head_seconds=30)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.begin(listener)
    async with asyncio.timeout(60):
        line = Line(*await asyncio.open_connection(*listener.getsockname()))
        line.writer.write(GET)
        assert (await line.reply())[0] == 200
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        line.writer.write(GET)
        status, headers, _ = await line.reply()
        assert (status, headers["connection"]) == (200, "close")
        await stopping
        await server.end(1)
        assert await line.rest() == b""
        line.writer.close()


async def test_the_answer_to_head_has_a_length_and_no_body() -> None:
    async with line_to(api_that(greet, verb="head")) as line:
        line.writer.write((GET + LAST_GET).replace(b"GET", b"HEAD"))
        said = await line.rest()
    assert said.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert said.count(b"content-length: 24\r\n") == 2
    assert said.endswith(b"\r\n\r\n")


async def test_an_answer_without_content_has_no_length() -> None:
    async def nothing(call: Call[Any, Any]) -> Answer:
        return Answer.empty()

    status, headers, _ = await told(api_that(nothing), GET)
    assert (status, "content-length" in headers) == (204, False)
    assert headers["date"].endswith(" GMT")


async def test_a_client_of_http_1_0_gets_a_stream_without_chunks() -> None:
    async with line_to(api_that(stream)) as line:
        line.writer.write(b"GET /harbour/ships HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        said = await line.rest()
    assert said.endswith(b"\r\n\r\nonetwo")
    assert b"connection: close" in said


async def test_a_stream_is_followed_by_the_next_answer() -> None:
    async with line_to(api_that(stream)) as line:
        line.writer.write(GET + LAST_GET)
        said = await line.rest()
    assert said.count(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n") == 2


async def test_who_has_sent_its_last_request_still_gets_every_answer() -> None:
    async with line_to(api_that(greet)) as line:
        line.writer.write(GET * 3)
        line.writer.write_eof()
        assert (await line.rest()).count(b"HTTP/1.1 200 OK") == 3


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_let_go() -> None:
    async with line_to(api_that(greet, verb="post")) as line:
        line.writer.write(POST + b"Content-Length: 5\r\n\r\nhel")
        line.writer.write_eof()
        assert await line.rest() == b""


@pytest.mark.parametrize("target", [b"http://somewhere/harbour/ships?a=b", b"https://user@h:1/harbour/ships"])
async def test_an_address_may_be_whole_as_proxies_send_it(target: bytes) -> None:
    assert (await told(api_that(greet), b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200


@pytest.mark.parametrize("target", [b"*", b"http://somewhere", b"ships"])
async def test_an_address_without_a_path_is_nowhere(target: bytes) -> None:
    assert (await told(api_that(greet), b"OPTIONS " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"))[0] in (400, 404)


async def test_a_broken_chunk_is_refused_in_the_words_of_the_api() -> None:
    broken = b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nzz\r\n"
    status, headers, body = await told(api_that(greet, verb="post"), POST + broken)
    assert (status, headers["connection"]) == (400, "close")
    assert b'"field":"body"' in body


async def test_a_trailer_is_no_header() -> None:
    body = b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Trail: late\r\n\r\n"
    assert (await told(api_that(greet, verb="post"), POST + body))[2] == b'{"body":"hi","trail":null}'


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
    status, headers, _ = await told(api_that(greet, verb="post"), POST + smuggled)
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
async def test_a_request_that_names_no_clear_host_is_refused(host: bytes, offer: bytes) -> None:
    async with line_to(api_that(greet)) as line:
        line.writer.write(b"GET /harbour/ships HTTP/1.1\r\n" + host + offer + b"\r\n" + GET)
        status, headers, reason = await line.reply()
        assert (status, headers["connection"]) == (400, "close")
        assert b"Host" in reason
        assert await line.rest() == b""  # nothing behind it is carried out


@pytest.mark.parametrize("host", [b"a", b"a.b:80", b"10.0.0.1:80", b"[::1]:80", b"my_catalog", b"a%20b", b""])
async def test_a_host_is_a_name_or_an_address(host: bytes) -> None:
    assert (await told(api_that(greet), b"GET /harbour/ships HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"))[0] == 200


async def test_the_host_of_each_request_on_a_connection_counts() -> None:
    async with line_to(api_that(greet)) as line:
        for request in (GET, GET.replace(b"x", b"y"), GET):
            line.writer.write(request)
            assert (await line.reply())[0] == 200
        line.writer.write(GET.replace(b"Host: x\r\n", b""))
        assert (await line.reply())[0] == 400


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
async def test_a_client_of_http_1_0_need_not_name_a_host(offer: bytes) -> None:
    assert (await told(api_that(greet), b"GET /harbour/ships HTTP/1.0\r\n" + offer + b"\r\n"))[0] == 200


async def test_what_follows_a_good_request_does_not_harm_its_answer() -> None:
    async with line_to(api_that(greet)) as line:
        line.writer.write(GET + b"\x00garbage\r\n\r\n")
        said = await line.rest()
    assert (said.count(b"HTTP/1.1 "), said.count(b"HTTP/1.1 200 OK")) == (1, 1)


async def test_a_broken_body_behind_another_request_is_refused_in_its_turn() -> None:
    broken = POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    async with line_to(api_that(greet, verb="post")) as line:
        line.writer.write(POST + b"Content-Length: 2\r\n\r\nhi" + broken)
        assert [(await line.reply())[0], (await line.reply())[0]] == [200, 400]


async def test_what_was_sent_behind_a_last_request_is_not_carried_out() -> None:
    seen: list[bytes] = []

    async def note(call: Call[Any, Any]) -> Answer:
        seen.append(call.raw_body)
        return Answer.empty()

    async with line_to(api_that(note, verb="post")) as line:
        last = POST + b"Connection: close\r\nContent-Length: 4\r\n\r\nlast"
        line.writer.write(last + POST + b"Content-Length: 4\r\n\r\nmore")
        await line.rest()
    assert seen == [b"last"]


async def test_a_status_without_a_name_is_sent_too() -> None:
    async def odd(call: Call[Any, Any]) -> Answer:
        return Answer.empty(419)

    assert (await told(api_that(odd), GET))[0] == 419


async def test_a_stream_that_nobody_reads_ends_with_the_server_and_leaves_no_error() -> None:
    async def endless(call: Call[Any, Any]) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield bytes(SLICE)

        return Answer.stream(chunks(), "text/plain")

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


async def test_a_head_without_an_end_is_refused_when_it_grows_too_large() -> None:
    lines = [b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(100)]
    assert (await told(api_that(greet), b"GET / HTTP/1.1\r\n", *lines))[0] == 431


async def test_a_head_that_never_ends_does_not_hold_its_connection() -> None:
    async with line_to(api_that(greet), head_seconds=0.01) as line:
        line.writer.write(b"GET / HTT")
        with suppress(ConnectionResetError):
            assert await line.rest() == b""


async def test_who_finds_no_room_is_told_to_come_again() -> None:
    status, headers, _ = await told(api_that(greet), most=0)
    assert (status, headers["connection"]) == (503, "close")


async def test_a_value_with_a_line_break_writes_no_headers() -> None:
    async def tricked(call: Call[Any, Any]) -> Answer:
        return Answer(204, headers=[(b"location", b"a\r\nset-cookie: b")])

    assert (await told(api_that(tricked), GET))[1]["location"] == "a set-cookie: b"


async def large(call: Call[Any, Any]) -> Answer:
    return Answer.text(bytes(LARGE), "application/octet-stream")


async def test_answers_of_any_size_come_whole_and_in_their_order() -> None:
    sizes = [1_000_000, 3, 1_000_001]
    left = iter(sizes)

    async def each(call: Call[Any, Any]) -> Answer:
        return Answer.text(bytes(next(left)), "application/octet-stream")

    async with line_to(api_that(each)) as line:
        line.writer.write(GET * len(sizes))
        assert [len((await line.reply())[2]) for _ in sizes] == sizes


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    async with line_to(api_that(greet), idle_seconds=0.2) as line:
        line.writer.write(GET)
        assert (await line.reply())[0] == 200
        with suppress(ConnectionResetError):
            assert await line.rest() == b""


async def test_who_reads_slowly_gets_all_of_its_answer() -> None:
    async with line_to(api_that(large), idle_seconds=1.5) as line:
        line.writer.write(GET)
        await line.reader.readuntil(b"\r\n\r\n")
        for _ in range(LARGE // SLICE):
            await asyncio.sleep(0.25)
            await line.reader.readexactly(SLICE)


async def test_who_does_not_read_its_answer_is_let_go() -> None:
    async with line_to(api_that(large), idle_seconds=0.1) as line:
        line.writer.write(GET)
        for _ in range(20):
            await asyncio.sleep(0.05)
        with suppress(ConnectionResetError):
            assert len(await line.rest()) < LARGE


class SlowDoor:
    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        await self.open.wait()
        return LOCAL


async def test_a_body_is_not_taken_in_before_its_sender_is_known() -> None:
    async def measure(call: Call[Any, Any]) -> Answer:
        return Answer.json(len(call.raw_body))

    ports = Ports()
    ports.access = door = SlowDoor()  # type: ignore[assignment]
    api = api_that(measure, verb="post", body=bytes, takes="application/vnd.cargo", example=Example(body="AAE="))
    async with line_to(api, ports=ports) as line:
        line.writer.write(POST + b"Content-Length: %d\r\n\r\n" % LARGE)
        line.writer.write(bytes(LARGE))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(line.writer.drain(), 0.5)
        door.open.set()
        assert (await line.reply())[2] == b"%d" % LARGE
