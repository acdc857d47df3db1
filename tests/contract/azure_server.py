"""Azurite, a real server of Azure's storage API, behind a front that also issues the tokens of Microsoft Entra.

Azurite accepts tokens over HTTPS only, and checks all of a token but its signature.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import jwt

from moorage.storage.azure import AzureAccount
from moorage.testing.minio import DIE_WITH_PARENT
from moorage.testing.postgres import free_port
from tests.certificates import new_pair

PROGRAM = Path(__file__).parent / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
NAME, TENANT = "lake", "11111111-2222-3333-4444-555555555555"
PATIENCE_SECONDS = 60.0
_OF_CONNECTION = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}
"""Headers of one connection, which the front sets by itself."""


class AzureServer(ThreadingHTTPServer):
    """A storage account. Use it as a context manager."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Front)
        self._folder = folder
        self._port = free_port()
        certificate, self._key = new_pair("azurite").write(folder)
        self._certificate = certificate
        trusted = ssl.create_default_context(cafile=str(certificate))
        self.opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trusted))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def behind(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def account(self, *locations: str) -> AzureAccount:
        names = {"directory_id": TENANT, "application_id": "moorage", "client_secret": "secret"}
        return AzureAccount(**names, locations=locations, endpoint=self.url)

    def new_container(self, name: str) -> str:
        headers = {"authorization": f"Bearer {entra_token()}", "x-ms-version": "2023-11-03", "content-length": "0"}
        request = Request(f"{self.behind}/{NAME}/{name}?restype=container", method="PUT", headers=headers)
        with self.opener.open(request, timeout=PATIENCE_SECONDS):
            return f"abfss://{name}@{NAME}.dfs.core.windows.net/"

    def __enter__(self) -> Self:
        key = base64.b64encode(os.urandom(32)).decode()
        files = ("--cert", self._certificate, "--key", self._key, "--location", self._folder / "blobs")
        address = ("--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--oauth", "basic", "--silent")
        node = shutil.which("node") or "node"
        self._process = subprocess.Popen(
            [*DIE_WITH_PARENT, node, PROGRAM, *address, *files, "--skipApiVersionCheck"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{NAME}:{key}"},
        )
        Thread(target=self.serve_forever, daemon=True).start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_ready():
            assert time.monotonic() < deadline, "Azurite did not start"
            assert self._process.poll() is None, "Azurite did not start; run `make setup`"
            time.sleep(0.05)
        return self

    def _is_ready(self) -> bool:
        try:
            self.opener.open(self.behind, timeout=PATIENCE_SECONDS).close()
        except HTTPError:
            return True
        except URLError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._process.kill()
        self._process.wait()


def entra_token() -> str:
    now = int(time.time())
    times = {"iat": now - 60, "nbf": now - 60, "exp": now + 3600}
    names = {"iss": f"https://sts.windows.net/{TENANT}/", "aud": "https://storage.azure.com", "oid": "server"}
    return jwt.encode({**names, **times, "tid": TENANT}, "a key that Azurite does not check", algorithm="HS256")


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AzureServer

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == f"/{TENANT}/oauth2/v2.0/token":
            return self._answer(200, {}, json.dumps({"access_token": entra_token(), "expires_in": 3600}).encode())
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        data = body if self.command in ("PUT", "POST") else None
        request = Request(self.server.behind + self.path, data=data, headers=headers, method=self.command)
        try:
            with self.server.opener.open(request, timeout=PATIENCE_SECONDS) as found:
                return self._answer(found.status, dict(found.headers), found.read())
        except HTTPError as error:
            with error:
                return self._answer(error.code, dict(error.headers), error.read())

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _OF_CONNECTION:
                self.send_header(name, value)
        length = headers.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _forward  # noqa: N815 - the parent calls them by these names

    def log_message(self, *_: object) -> None:
        pass
