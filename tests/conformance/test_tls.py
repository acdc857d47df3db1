"""A server with TLS and authentication, real clients over HTTPS, and a certificate that is replaced while they work."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.certificates import Pair, new_pair
from tests.conformance.guarded_lakes import ROWS, administrator_of

CATALOGS = "/api/moorage/v1/catalogs"


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "authority.pem"
        self.files = self.use(new_pair("first"))
        flags = ["--auth", "on", "--tls-cert", str(self.files[0]), "--tls-key", str(self.files[1])]
        self.server = ServerProcess(folder / "data", flags=flags, authority=self.authority)

    def use(self, pair: Pair) -> tuple[Path, Path]:
        self.authority.write_bytes(pair.certificate)
        return pair.write(self.folder)

    def open(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.authority))
        plain = socket.create_connection(("127.0.0.1", self.server.port), 10)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    def certificate(self) -> Mapping[str, Any] | None:
        with self.open() as connection:
            return connection.getpeercert()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("tls"))
    with site.server:
        yield site
        assert not site.server.errors()


def test_real_clients_work_over_https(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    url, token = site.server.url, administrator_of(site.server)
    assert url.startswith("https://")
    environment = clean_environment(MOORAGE_URL=url, MOORAGE_TOKEN=token, SSL_CERT_FILE=str(site.authority))
    status = subprocess.run([*COMMAND, "status"], env=environment, capture_output=True, text=True, check=False)
    assert status.returncode == 0, status.stderr
    with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=str(site.authority))) as client:
        headers = {"authorization": f"Bearer {token}"}
        assert client.post(CATALOGS, json={"name": "lake"}, headers=headers).status_code == 201
        answer = client.post(f"{CATALOGS}/lake/namespaces", json={"path": ["sea"]}, headers=headers)
        assert answer.status_code == 201
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(site.authority))
    lake = load_catalog("lake", type="rest", uri=f"{url}/iceberg", warehouse="lake", token=token)
    table = lake.create_table("sea.boats", schema=ROWS.schema)
    for _ in range(3):
        table.append(ROWS)
    large = pa.table({"id": pa.array(range(10), pa.int64()), "city": ["x" * 1000] * 10})
    table.append(large)
    assert lake.load_table("sea.boats").scan().to_arrow().num_rows == 19


def test_a_new_certificate_is_used_without_dropping_connections(site: Site) -> None:
    headers = {"authorization": f"Bearer {administrator_of(site.server)}"}
    kept = http.client.HTTPSConnection(
        "127.0.0.1", site.server.port, context=ssl.create_default_context(cafile=str(site.authority))
    )
    kept.request("GET", CATALOGS, headers=headers)
    kept.getresponse().read()
    first = site.certificate()
    second = new_pair("second")
    site.files[1].write_bytes(second.key)  # a renewal was interrupted: the key does not fit
    _wait_for(site, "was not reloaded")
    assert site.certificate() == first
    site.use(second)
    _wait_for(site, "was reloaded")
    renewed = site.certificate()
    assert renewed is not None
    assert renewed["subject"] == ((("commonName", "second"),),)
    for _ in range(3):
        kept.request("GET", CATALOGS, headers=headers)
        assert kept.getresponse().read()
    kept.close()


def _wait_for(site: Site, words: str) -> None:
    deadline = time.monotonic() + 10
    while words not in site.server.words():
        assert time.monotonic() < deadline, site.server.words()
        time.sleep(0.05)


def test_requests_without_tls_and_with_an_old_version_are_refused(site: Site) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{site.server.port}/healthz", trust_env=False)
    old = ssl.create_default_context(cafile=str(site.authority))
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", site.server.port)) as plain:  # noqa: PT011
        old.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_body_that_is_too_large_is_refused_over_tls(site: Site) -> None:
    with site.open() as tls:
        tls.sendall(
            b"POST /api/moorage/v1/catalogs HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n"
            + f"authorization: Bearer {administrator_of(site.server)}\r\n\r\n".encode()
        )
        assert tls.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_key_that_does_not_fit_stops_the_start(site: Site, tmp_path: Path) -> None:
    certificate, key = new_pair("a").write(tmp_path)
    key.write_bytes(new_pair("b").key)
    command = [*COMMAND, "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    for flags, words in (
        (["--tls-cert", str(certificate), "--tls-key", str(key)], "are not a certificate and its key"),
        (["--tls-cert", str(certificate), "--tls-key", str(tmp_path / "none")], "cannot read"),
        (["--tls-cert", str(certificate)], "needs tls_key"),
    ):
        refused = subprocess.run(
            [*command, *flags], capture_output=True, text=True, env=clean_environment(), check=False, timeout=60
        )
        assert refused.returncode != 0
        assert words in refused.stderr
