"""The real server in a child process, spoken to byte by byte."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moorage.testing.raw_http import RawConnection, Reply

SOON_SECONDS = 60.0
"""What would be there at once on a machine with nothing else to do, and is much less than LONG_SECONDS."""
LONG_SECONDS = 600

ECHO_SERVER = Path(__file__).with_name("echo_server.py")

# As the JDK's client offers HTTP/2 on its first request to a server.
H2C = (
    b"Connection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
)


class Server:
    def __init__(self, *flags: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(ECHO_SERVER), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        self.port = int(line)

    def connect(self) -> RawConnection:
        return RawConnection(self.port)

    def ask(self, data: bytes) -> Reply:
        with self.connect() as connection:
            connection.send(data)
            return connection.reply()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """Exit code, the rest of standard output, standard error."""
        out, err = self.process.communicate(timeout=SOON_SECONDS)
        return self.process.returncode, out, err

    def listeners(self) -> int:
        """How many requests are being answered slowly."""
        count: int = self.ask(get("/echo/listeners")).json()["count"]
        return count

    def takes_nobody(self) -> bool:
        """Whether it has begun to stop."""
        try:
            self.connect().close()
        except ConnectionError:
            return True
        return False

    def stop(self) -> tuple[int, str, str]:
        self.signal()
        return self.ended()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def run_server(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ECHO_SERVER), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON_SECONDS, check=False)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    assert started.stop() == (0, "stopped\n", "")


@pytest.fixture(scope="module")
def hasty_server() -> Iterator[Server]:
    """One that waits for nobody."""
    started = Server("--request-timeout-seconds=0.6")
    yield started
    assert started.stop() == (0, "stopped\n", "")


@pytest.fixture
def own_server() -> Iterator[Server]:
    started = Server(f"--stop-timeout-seconds={LONG_SECONDS}")
    yield started
    if started.process.poll() is None:
        started.process.kill()
    started.process.communicate()


def get(path: str, *headers: str, body: bytes = b"") -> bytes:
    return request("GET", path, *headers, body=body)


def request(verb: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{verb} {path} HTTP/1.1", "Host: test", *headers, *length, "", ""]
    return "\r\n".join(lines).encode() + body


def test_a_body_on_get_arrives(server: Server) -> None:
    reply = server.ask(get("/echo/a/x/b", body=b"hello"))
    assert reply.json()["body"] == "hello"


def test_a_body_that_offers_an_upgrade_to_http2_arrives(server: Server) -> None:
    head = b"POST /echo/a/x/b HTTP/1.1\r\nHost: test\r\n" + H2C + b"Content-Length: 5\r\n\r\n"
    with server.connect() as connection:
        connection.send(head)
        time.sleep(0.05)
        connection.send(b"hello")
        assert connection.reply().json()["body"] == "hello"
        connection.send(get("/echo/again/x/b"))
        assert connection.reply().json()["params"]["first"] == "again"


def test_a_chunked_body_that_offers_an_upgrade_arrives(server: Server) -> None:
    head = b"GET /echo/a/x/b HTTP/1.1\r\nHost: test\r\n" + H2C + b"Transfer-Encoding: chunked\r\n\r\n"
    reply = server.ask(head + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
    assert reply.json()["body"] == "hello"


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    with server.connect() as connection:
        connection.send(b"".join(request("POST", f"/echo/{n}/x/b", body=b"%d" % n) for n in range(1, 9)))
        replies = [connection.reply().json() for _ in range(1, 9)]
    assert [(reply["params"]["first"], reply["body"]) for reply in replies] == [(f"{n}", f"{n}") for n in range(1, 9)]


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("a%2Fb", "a/b"),
        ("a%1Fb", "a\x1fb"),
        ("a%24b", "a$b"),
        ("a$b", "a$b"),
        ("%25", "%"),
        ("%252F", "%2F"),
        ("gr%C3%BC%C3%9Fe", "grüße"),
        ("a+b", "a+b"),
        ("..", ".."),
        ("a%3Fb%23c", "a?b#c"),
    ],
)
def test_a_segment_is_decoded_after_the_path_is_split(server: Server, sent: str, seen: str) -> None:
    assert server.ask(get(f"/echo/{sent}/x/b?q=1")).json()["params"] == {"first": seen, "second": "b"}


@pytest.mark.parametrize("sent", ["%", "%2", "%zz", "%ff", "%C3", "%00", "a%00b"])
def test_a_segment_that_is_no_text_is_refused_by_name(server: Server, sent: str) -> None:
    reply = server.ask(get(f"/echo/{sent}/x/b"))
    assert (reply.status, reply.json()["error"]["field"]) == (400, "first")


def test_a_body_over_the_limit_is_refused_before_it_is_sent(server: Server) -> None:
    reply = server.ask(b"POST /echo/a/x/b HTTP/1.1\r\nHost: test\r\nContent-Length: 1000001\r\n\r\n")
    assert (reply.status, reply.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")


def test_a_chunked_body_is_refused_when_it_passes_the_limit(server: Server) -> None:
    with server.connect() as connection:
        connection.send(b"POST /echo/a/x/b HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(11):
            connection.send(b"186a0\r\n" + bytes(100_000) + b"\r\n")
        assert connection.reply().status == 413


def test_a_body_just_below_the_limit_arrives(server: Server) -> None:
    reply = server.ask(request("POST", "/echo/a/x/b", body=bytes(1_000_000)))
    assert reply.json()["body"] == "1000000 bytes"


def test_a_body_that_does_not_arrive_is_timed_out(hasty_server: Server) -> None:
    with hasty_server.connect() as connection:
        connection.send(b"POST /echo/a/x/b HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhel")
        reply = connection.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (408, "REQUEST_TIMEOUT")


def test_a_stranger_is_refused_before_the_body_is_sent(server: Server) -> None:
    reply = server.ask(request("POST", "/echo/a/x/b", "Authorization: Bearer stranger", "Content-Length: 5"))
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"


def test_a_read_that_takes_too_long_may_be_sent_again(hasty_server: Server) -> None:
    reply = hasty_server.ask(request("POST", "/echo/slow?seconds=600"))
    assert (reply.status, reply.json()["error"]["advice"]) == (503, "same_request")
    assert reply.headers["retry-after"] == "1"


def test_a_write_that_takes_too_long_has_an_unknown_outcome(hasty_server: Server) -> None:
    reply = hasty_server.ask(request("POST", "/echo/slow-write?seconds=600"))
    assert (reply.json()["error"]["code"], reply.json()["error"]["advice"]) == (
        "OUTCOME_UNKNOWN",
        "ask_first",
    )


def test_the_stream_ends_when_its_reader_leaves(server: Server) -> None:
    with server.connect() as connection:
        connection.send(get("/echo/ticks"))
        assert connection.head().headers["content-type"] == "text/event-stream"
        assert [connection.chunk(), connection.chunk()] == [b"data: 1\n\n", b"data: 2\n\n"]
        assert server.listeners() == 1
    until(lambda: server.listeners() == 0)


def test_the_stream_outlives_the_time_limit_of_a_request(hasty_server: Server) -> None:
    with hasty_server.connect() as connection:
        connection.send(get("/echo/ticks"))
        connection.head()
        assert [connection.chunk() for _ in range(30)][-1] == b"data: 30\n\n"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ],
)
def test_what_is_not_http_gets_no_server_error(server: Server, garbage: bytes) -> None:
    with server.connect() as connection:
        connection.send(garbage)
        assert connection.is_closed() or connection.reply().status == 400


def test_a_request_in_flight_is_finished_by_a_stop(own_server: Server) -> None:
    with own_server.connect() as slow, own_server.connect() as idle:
        slow.send(request("POST", "/echo/slow?seconds=2", body=b"first"))
        until(lambda: own_server.listeners() == 1)
        own_server.signal()
        until(own_server.takes_nobody)
        assert idle.is_closed()
        assert slow.reply().json()["body"] == "first"
    assert own_server.ended() == (0, "stopped\n", "")


def test_a_body_on_its_way_still_arrives_during_a_stop(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(request("POST", "/echo/a/x/b", "Expect: 100-continue", "Content-Length: 5"))
        assert connection.head().status == 100
        own_server.signal()
        until(own_server.takes_nobody)
        connection.send(b"hello")
        assert connection.reply().json()["body"] == "hello"
    assert own_server.ended()[0] == 0


def test_a_stop_ends_the_streams(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(get("/echo/ticks"))
        connection.head()
        connection.chunk()
        own_server.signal()
        while connection.chunk():
            pass
    assert own_server.ended()[0] == 0


def test_a_request_that_outlasts_the_stop_is_told_so() -> None:
    server = Server("--stop-timeout-seconds=0.3")
    with server.connect() as connection:
        connection.send(request("POST", f"/echo/slow-write?seconds={LONG_SECONDS}"))
        until(lambda: server.listeners() == 1)
        server.signal()
        assert connection.reply().json()["error"]["code"] == "OUTCOME_UNKNOWN"
    assert server.ended()[0] == 0


def test_a_second_signal_ends_it_at_once(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(request("POST", f"/echo/slow?seconds={LONG_SECONDS}"))
        until(lambda: own_server.listeners() == 1)
        own_server.signal(signal.SIGINT)
        until(own_server.takes_nobody)
        assert own_server.process.poll() is None
        own_server.signal(signal.SIGINT)
        assert own_server.process.wait(timeout=SOON_SECONDS) == 128 + signal.SIGINT


def test_a_client_that_never_ends_its_request_line_does_not_hold_up_the_stop(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(b"GET /hea")
        assert own_server.stop()[0] == 0


def test_a_port_in_use_is_one_clear_line(own_server: Server) -> None:
    second = run_server(f"--port={own_server.port}")
    assert second.stderr.strip().splitlines()[-1] == (
        f"moorage.server.serve.ListenError: 127.0.0.1:{own_server.port} is in use by another process; "
        "stop it or choose another --port (MOORAGE_PORT)"
    )


def test_a_port_held_by_a_socket_that_shares_is_still_in_use() -> None:
    with socket.socket() as sharing:
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(("127.0.0.1", 0))
        sharing.listen()
        second = run_server(f"--port={sharing.getsockname()[1]}")
    assert "is in use by another process" in second.stderr


def test_the_access_log_is_one_json_object_per_request() -> None:
    server = Server("--access-log=true", "--log-level=info")
    server.ask(get("/echo/a/x/b", "X-Request-Id: my-own-id.1"))
    server.ask(get("/nowhere"))
    _, _, err = server.stop()
    first, second = (json.loads(line) for line in err.strip().splitlines())
    assert first["request_id"] == "my-own-id.1"
    assert (first["operation"], first["status"], first["caller"]) == ("echoGet", 200, "local")
    assert (second["operation"], second["status"]) == ("none", 404)


def test_three_hundred_open_streams_leave_room_for_a_request(server: Server) -> None:
    open_streams = [server.connect() for _ in range(300)]
    try:
        for connection in open_streams:
            connection.send(get("/echo/ticks"))
        assert server.ask(get("/healthz")).status == 200
    finally:
        for connection in open_streams:
            connection.close()
