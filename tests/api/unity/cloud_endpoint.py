"""A server in place of the token services of Google Cloud and Azure. It records every request."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

DELEGATION_KEY = base64.b64encode(b"a key that Azure issued").decode()
TENANT = "11111111-2222-3333-4444-555555555555"


class Received(NamedTuple):
    path: str
    authorization: str | None
    body: str

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body))


class CloudEndpoint(ThreadingHTTPServer):
    received: list[Received]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str) -> str:
        if path == "/token" or path.endswith("/oauth2/v2.0/token"):
            return json.dumps({"access_token": "token of the server", "expires_in": 3599, "token_type": "Bearer"})
        if path == "/v1/token":
            return json.dumps({"access_token": "token for one folder", "expires_in": 3000})
        times = "<SignedStart>2026-11-16T00:00:00Z</SignedStart><SignedExpiry>2026-11-17T00:00:00Z</SignedExpiry>"
        names = f"<SignedOid>our-object</SignedOid><SignedTid>{TENANT}</SignedTid>"
        rest = "<SignedService>b</SignedService><SignedVersion>2023-11-03</SignedVersion>"
        key = f"{names}{times}{rest}<Value>{DELEGATION_KEY}</Value>"
        return f'<?xml version="1.0"?><UserDelegationKey>{key}</UserDelegationKey>'


class TokenHandler(BaseHTTPRequestHandler):
    server: CloudEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.received.append(Received(self.path, self.headers["authorization"], body))
        text = self.server.answer(urlsplit(self.path).path).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json" if text.startswith(b"{") else "application/xml")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def cloud_endpoint() -> Iterator[CloudEndpoint]:
    with CloudEndpoint(("127.0.0.1", 0), TokenHandler) as server:
        server.received = []
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
