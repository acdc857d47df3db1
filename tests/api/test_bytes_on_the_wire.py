"""The real HTTP server in a child process, tested with raw bytes."""

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
"""The timeout for what takes no time on an idle machine. It is much less than LONG_SECONDS."""
LONG_SECONDS = 600

ECHO_SERVER = Path(__file__).with_name("echo_server.py")

# The headers by which the JDK's client offers HTTP/2 on its first request to a server.
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
        """The number of clients that wait for a slow answer or a stream."""
        count: int = self.ask(get("/echo/listeners")).json()["count"]
        return count

    def refuses_connections(self) -> bool:
        """Whether the server has begun to stop."""
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
        assert time.monotonic() < deadline, "timed out"
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
    """A server with a short request timeout."""
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


def test_the_body_of_a_get_request_is_received(server: Server) -> None:
    reply = server.ask(get("/echo/a/x/b", body=b"hello"))
    assert reply.json()["body"] == "hello"


def test_the_body_of_a_request_that_offers_http2_is_received(server: Server) -> None:
    head = b"POST /echo/a/x/b HTTP/1.1\r\nHost: test\r\n" + H2C + b"Content-Length: 5\r\n\r\n"
    with server.connect() as connection:
        connection.send(head)
        time.sleep(0.05)
        connection.send(b"hello")
        assert connection.reply().json()["body"] == "hello"
        connection.send(get("/echo/again/x/b"))
        assert connection.reply().json()["params"]["first"] == "again"


def test_the_chunked_body_of_a_request_that_offers_http2_is_received(server: Server) -> None:
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
def test_a_segment_that_is_not_text_is_refused_with_its_name(server: Server, sent: str) -> None:
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


def test_a_body_as_large_as_the_limit_is_received(server: Server) -> None:
    reply = server.ask(request("POST", "/echo/a/x/b", body=bytes(1_000_000)))
    assert reply.json()["body"] == "1000000 bytes"


def test_a_body_that_does_not_arrive_times_out(hasty_server: Server) -> None:
    with hasty_server.connect() as connection:
        connection.send(b"POST /echo/a/x/b HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhel")
        reply = connection.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (408, "REQUEST_TIMEOUT")


def test_an_unknown_token_is_refused_before_the_body_is_sent(server: Server) -> None:
    reply = server.ask(request("POST", "/echo/a/x/b", "Authorization: Bearer unknown", "Content-Length: 5"))
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"


def test_a_read_that_times_out_may_be_retried(hasty_server: Server) -> None:
    reply = hasty_server.ask(request("POST", "/echo/slow?seconds=600"))
    assert (reply.status, reply.json()["error"]["advice"]) == (503, "same_request")
    assert reply.headers["retry-after"] == "1"


def test_a_write_that_times_out_has_an_unknown_outcome(hasty_server: Server) -> None:
    reply = hasty_server.ask(request("POST", "/echo/slow-write?seconds=600"))
    assert (reply.json()["error"]["code"], reply.json()["error"]["advice"]) == (
        "OUTCOME_UNKNOWN",
        "ask_first",
    )


def test_a_stream_ends_when_its_client_disconnects(server: Server) -> None:
    with server.connect() as connection:
        connection.send(get("/echo/ticks"))
        assert connection.head().headers["content-type"] == "text/event-stream"
        assert [connection.chunk(), connection.chunk()] == [b"data: 1\n\n", b"data: 2\n\n"]
        assert server.listeners() == 1
    until(lambda: server.listeners() == 0)


def test_a_stream_may_last_longer_than_the_request_timeout(hasty_server: Server) -> None:
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
def test_bytes_that_are_not_http_cause_no_server_error(server: Server, garbage: bytes) -> None:
    with server.connect() as connection:
        connection.send(garbage)
        assert connection.is_closed() or connection.reply().status == 400


def test_a_stop_finishes_the_requests_in_flight(own_server: Server) -> None:
    with own_server.connect() as slow, own_server.connect() as idle:
        slow.send(request("POST", "/echo/slow?seconds=2", body=b"first"))
        until(lambda: own_server.listeners() == 1)
        own_server.signal()
        until(own_server.refuses_connections)
        assert idle.is_closed()
        assert slow.reply().json()["body"] == "first"
    assert own_server.ended() == (0, "stopped\n", "")


def test_a_body_is_still_received_during_a_stop(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(request("POST", "/echo/a/x/b", "Expect: 100-continue", "Content-Length: 5"))
        assert connection.head().status == 100
        own_server.signal()
        until(own_server.refuses_connections)
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


def test_a_write_that_outlasts_the_stop_timeout_has_an_unknown_outcome() -> None:
    server = Server("--stop-timeout-seconds=0.3")
    with server.connect() as connection:
        connection.send(request("POST", f"/echo/slow-write?seconds={LONG_SECONDS}"))
        until(lambda: server.listeners() == 1)
        server.signal()
        assert connection.reply().json()["error"]["code"] == "OUTCOME_UNKNOWN"
    assert server.ended()[0] == 0


def test_a_second_signal_ends_the_process_immediately(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(request("POST", f"/echo/slow?seconds={LONG_SECONDS}"))
        until(lambda: own_server.listeners() == 1)
        own_server.signal(signal.SIGINT)
        until(own_server.refuses_connections)
        assert own_server.process.poll() is None
        own_server.signal(signal.SIGINT)
        assert own_server.process.wait(timeout=SOON_SECONDS) == 128 + signal.SIGINT


def test_a_client_that_never_ends_its_request_line_does_not_delay_a_stop(own_server: Server) -> None:
    with own_server.connect() as connection:
        connection.send(b"GET /hea")
        assert own_server.stop()[0] == 0


def test_a_port_in_use_is_reported_in_one_line(own_server: Server) -> None:
    second = run_server(f"--port={own_server.port}")
    assert second.stderr.strip().splitlines()[-1] == (
        f"moorage.server.serve.ListenError: 127.0.0.1:{own_server.port} is in use by another process; "
        "stop it or choose another --port (MOORAGE_PORT)"
    )


def test_a_port_of_a_socket_with_reuse_port_is_in_use() -> None:
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


def test_a_request_is_served_beside_three_hundred_open_streams(server: Server) -> None:
    open_streams = [server.connect() for _ in range(300)]
    try:
        for connection in open_streams:
            connection.send(get("/echo/ticks"))
        assert server.ask(get("/healthz")).status == 200
    finally:
        for connection in open_streams:
            connection.close()
