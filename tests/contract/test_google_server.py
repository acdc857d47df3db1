"""Signed URLs of files in Google Cloud, on a real server of its storage API.

fake-gcs-server checks no signatures, so the test checks them with the public key of the service account.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import httpx
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from moorage.storage.gcs import GcsAccount, open_storage
from moorage.testing.minio import DIE_WITH_PARENT, PATIENCE_SECONDS, PROGRAM
from moorage.testing.postgres import free_port
from moorage.testing.storage_kit import MUCH

ROOT = "gs://lake/tables/t1/"
ODD = "city=São Paulo/part=1%2F2 3.parquet"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class GoogleServer(NamedTuple):
    url: str

    def account(self) -> GcsAccount:
        form = serialization.PrivateFormat.PKCS8
        pem = KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
        names = {"email": "moorage@project.iam.gserviceaccount.com", "private_key_id": "k1"}
        return GcsAccount(**names, private_key=pem, locations=("gs://lake/",), endpoint=self.url)


@pytest.fixture(scope="module")
def google() -> Iterator[GoogleServer]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    flags = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-external-url", url)
    program = PROGRAM.with_name("fake-gcs-server")
    public = ("-public-host", f"127.0.0.1:{port}", "-log-level", "error")
    process = subprocess.Popen([*DIE_WITH_PARENT, program, *flags, *public])
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_ready(url):
            assert process.poll() is None, "fake-gcs-server did not start; run `make setup`"
            assert time.monotonic() < deadline, "fake-gcs-server did not start"
            time.sleep(0.05)
        httpx.post(f"{url}/storage/v1/b", json={"name": "lake"}, trust_env=False, timeout=60).raise_for_status()
        yield GoogleServer(url)
    finally:
        process.kill()
        process.wait()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/_internal/healthcheck", trust_env=False, timeout=60).is_success
    except httpx.TransportError:
        return False


async def test_a_url_opens_one_file_until_it_is_edited(google: GoogleServer) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        for name in ("a.parquet", "b.parquet", ODD):
            at = {"uploadType": "media", "name": f"tables/t1/{name}"}
            (await http.post(f"{google.url}/upload/storage/v1/b/lake/o", params=at, content=name)).raise_for_status()
        storage = open_storage(google.account())
        assert await storage.read(ROOT, "a.parquet", limit=MUCH) == b"a.parquet"
        odd, url = await storage.presign(ROOT, [ODD, "b.parquet"], seconds=60)
        assert [(await http.get(each)).text for each in (odd, url)] == [ODD, "b.parquet"]
    require_signature(odd)
    require_signature(url)
    for edited in (url.replace("b.parquet", "a.parquet"), url.replace("Expires=60", "Expires=600")):
        assert edited != url
        with pytest.raises(InvalidSignature):
            require_signature(edited)


def require_signature(url: str) -> None:
    """Raise an error unless the service account has signed this URL (V4 signing process of Google Cloud)."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    signature = bytes.fromhex(query.pop("X-Goog-Signature"))
    named = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
    # The library signs for the host of Google Cloud, wherever the store is.
    request = f"GET\n{parts.path}\n{named}\nhost:storage.googleapis.com\n\nhost\nUNSIGNED-PAYLOAD"
    scope = query["X-Goog-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"GOOG4-RSA-SHA256\n{query['X-Goog-Date']}\n{scope}\n{digest}"
    KEY.public_key().verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA256())
