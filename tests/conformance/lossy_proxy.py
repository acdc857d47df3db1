"""A proxy that loses the first responses to every change."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

HOP_BY_HOP = ("host", "connection", "content-length", "transfer-encoding")


KeyOf = Callable[[Message, bytes], str | None]
"""Identifies a change by its headers and body, also when it is sent again. None for all other requests."""


def idempotency_key(headers: Message, _: bytes) -> str | None:
    return headers.get("idempotency-key")


class LossyProxy(ThreadingHTTPServer):
    """Forwards requests. The first responses to a request with a key are lost."""

    def __init__(self, target: str, key_of: KeyOf, losses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key_of, self.losses = key_of, losses
        self.http = httpx.Client(base_url=target, trust_env=False, timeout=60)
        self.answered: dict[str, list[int]] = {}
        """By key: the status of each response, including those that were lost."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyProxy

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = [(name, value) for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP]
        with self.server.http.stream(self.command, self.path, content=body, headers=headers) as response:
            content = b"".join(response.iter_raw())
        if key := self.server.key_of(self.headers, body):
            statuses = self.server.answered.setdefault(key, [])
            statuses.append(response.status_code)
            if len(statuses) <= self.server.losses:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
        self.send_response(response.status_code)
        for name, value in response.headers.items():
            if name not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_DELETE = forward  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def lossy_proxy(target: str, *, key_of: KeyOf = idempotency_key, losses: int = 1) -> Iterator[LossyProxy]:
    with LossyProxy(target, key_of, losses) as proxy, proxy.http:
        serving = threading.Thread(target=proxy.serve_forever)
        serving.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            serving.join()
