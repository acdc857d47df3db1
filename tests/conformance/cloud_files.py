"""A server in place of the object stores of Google Cloud and Azure, with the files of a folder.

It has the requests that the catalog and its recipients send. A request is either of the catalog, with its token, or it
has a signature in the URL, which is verified as the clouds do it. Any other request is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import jwt
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from moorage.storage.azure import sign, string_to_sign
from tests.api.unity.cloud_endpoint import DELEGATION_KEY, CloudEndpoint, TokenHandler

GOOGLE_BUCKET, AZURE_CONTAINER = "/lake/", "/account/data/"
"""The paths of the objects. Both stores have the same files."""
_AZURE_TOKEN = "token of the server"


class CloudFiles(CloudEndpoint):
    folder: Path
    google_key: rsa.RSAPublicKey
    signed: list[str]
    """The paths that were read with a signature."""


class FileHandler(TokenHandler, BaseHTTPRequestHandler):
    server: CloudFiles

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self._is_from_the_catalog():
            if self.path.startswith((GOOGLE_BUCKET[:-1] + "?", AZURE_CONTAINER[:-1] + "?")):
                self._send(200, self._listing(url), "application/xml")
                return
        elif self._is_signed(url):
            self.server.signed.append(url.path)
        else:
            self._send(403, b"<Error><Code>AccessDenied</Code><Message>no signature</Message></Error>")
            return
        prefix = GOOGLE_BUCKET if url.path.startswith(GOOGLE_BUCKET) else AZURE_CONTAINER
        found = self.server.folder / unquote(url.path).removeprefix(prefix)
        if not url.path.startswith(prefix) or not found.is_file():
            self._send(404, b"<Error><Code>NoSuchKey</Code><Message>no such file</Message></Error>")
            return
        self._send_part(found.read_bytes())

    def _is_from_the_catalog(self) -> bool:
        """Azure's token is that of the endpoint. Google's is one that the service account signs itself."""
        token = (self.headers["authorization"] or "").removeprefix("Bearer ")
        if token == _AZURE_TOKEN:
            return True
        try:
            jwt.decode(token, self.server.google_key, algorithms=["RS256"], options={"verify_aud": False})
        except jwt.InvalidTokenError:
            return False
        return True

    def _is_signed(self, url: SplitResult) -> bool:
        parameters = dict(parse_qsl(url.query))
        if "X-Goog-Signature" in parameters:
            return self._is_signed_for_google(url.path, parameters)
        if "sig" not in parameters or parameters["se"] < datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"):
            return False
        text = string_to_sign(parameters, f"/blob{unquote(url.path)}")
        return (parameters["sr"], parameters["sp"]) == ("b", "r") and parameters["sig"] == sign(text, DELEGATION_KEY)

    def _is_signed_for_google(self, path: str, parameters: dict[str, str]) -> bool:
        signature = bytes.fromhex(parameters.pop("X-Goog-Signature"))
        date = parameters["X-Goog-Date"]
        scope = parameters["X-Goog-Credential"].partition("/")[2]
        ends = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        # The signer takes Google's own host also if it has another address.
        query = urlencode(sorted(parameters.items()), quote_via=quote, safe="-_.~")
        # The path as Google's libraries encode it. Clients send some of the characters unencoded.
        encoded = quote(unquote(path), safe="/~")
        canonical = "\n".join(("GET", encoded, query, "host:storage.googleapis.com", "", "host", "UNSIGNED-PAYLOAD"))
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join(("GOOG4-RSA-SHA256", date, scope, digest))
        try:
            self.server.google_key.verify(signature, text.encode(), padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return datetime.now(UTC) < ends + timedelta(seconds=int(parameters["X-Goog-Expires"]))

    def _listing(self, url: SplitResult) -> bytes:
        asked = dict(parse_qsl(url.query))
        prefix = asked.get("prefix", "")
        files = sorted(path for path in self.server.folder.rglob("*") if path.is_file())
        keys = {path.relative_to(self.server.folder).as_posix(): path.stat() for path in files}
        found = {
            key: stat for key, stat in keys.items() if key.startswith(prefix) and key > asked.get("start-after", "")
        }
        if asked.get("comp") == "list":
            blobs = "".join(
                f"<Blob><Name>{key}</Name><Properties><Last-Modified>{formatdate(stat.st_mtime, usegmt=True)}"
                f"</Last-Modified><Content-Length>{stat.st_size}</Content-Length><Etag>1</Etag>"
                "<Content-Type>x</Content-Type></Properties></Blob>"
                for key, stat in found.items()
            )
            return f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker /></EnumerationResults>".encode()
        contents = "".join(
            f"<Contents><Key>{key}</Key><Size>{stat.st_size}</Size><ETag>1</ETag>"
            f"<LastModified>{datetime.fromtimestamp(stat.st_mtime, UTC).isoformat()}</LastModified></Contents>"
            for key, stat in found.items()
        )
        return f"<ListBucketResult>{contents}</ListBucketResult>".encode()

    def _send_part(self, data: bytes) -> None:
        asked = self.headers["range"] or self.headers["x-ms-range"]
        if asked is None:
            self._send(200, data)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else len(data) - int(last)
        end = min(int(last) + 1 if first and last else len(data), len(data))
        self._send(206, data[start:end], content_range=f"bytes {start}-{end - 1}/{len(data)}")

    def _send(self, status: int, data: bytes, kind: str = "binary/octet-stream", content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("etag", '"1"')
        self.send_header("accept-ranges", "bytes")
        self.send_header("last-modified", formatdate(usegmt=True))
        if content_range:
            self.send_header("content-range", content_range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def cloud_files(folder: Path, google_key: rsa.RSAPublicKey) -> Iterator[CloudFiles]:
    with CloudFiles(("127.0.0.1", 0), FileHandler) as server:
        server.received, server.signed = [], []
        server.folder, server.google_key = folder, google_key
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
