"""The Python client of Delta Sharing reads tables in Google Cloud and Azure through URLs that the server signs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.api.unity.cloud_endpoint import TENANT
from tests.conformance.cloud_files import CloudFiles, cloud_files
from tests.conformance.shares import ShareServer, share_server

delta_sharing = pytest.importorskip("delta_sharing")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CLOUDS = {
    "google": ("gs://lake/tables", "/lake/tables/", {"gcpOauthToken": {"oauthToken": "token for one folder"}}),
    "azure": ("abfss://data@account.dfs.core.windows.net/tables", "/account/data/tables/", {}),
}


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, private_key: rsa.RSAPrivateKey) -> Iterator[CloudFiles]:
    with cloud_files(tmp_path_factory.mktemp("cloud"), private_key.public_key()) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def shares(
    tmp_path_factory: pytest.TempPathFactory, cloud: CloudFiles, private_key: rsa.RSAPrivateKey
) -> Iterator[ShareServer]:
    form = serialization.PrivateFormat.PKCS8
    pem = private_key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    google = {"email": "moorage@project.iam.gserviceaccount.com", "private_key_id": "k1", "private_key": pem}
    azure = {"directory_id": TENANT, "application_id": TENANT, "client_secret": "secret"}
    endpoints = ("--google-endpoint", cloud.url, "--azure-endpoint", cloud.url)
    secret_key = base64.b64encode(b"k" * 32).decode()
    with share_server(tmp_path_factory.mktemp("shares"), *endpoints, "--secret-key", secret_key) as shares:
        shares.unity("POST", "/credentials", json={"name": "google", "gcp_service_account_key": google})
        shares.unity("POST", "/credentials", json={"name": "azure", "azure_service_principal": azure})
        for name, (location, _, _) in CLOUDS.items():
            area = {"name": name, "url": location, "credential_name": name}
            shares.unity("POST", "/external-locations", json=area)
        yield shares


@pytest.fixture(autouse=True)
def _without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize("name", CLOUDS)
def test_a_table_is_read_through_signed_urls(shares: ShareServer, cloud: CloudFiles, name: str) -> None:
    location, path, token = CLOUDS[name]
    folder = cloud.folder / "tables" / name
    cities = pa.table({"id": [1, 2, 3], "city": ["Oslo", "New York", "Zürich 100%"]})
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(str(folder), cities, partition_by=["city"], configuration=feed)
    deltalake.write_deltalake(str(folder), cities.slice(0, 1), mode="append")
    table = {"name": name, "catalog_name": "lake", "schema_name": "sea", "table_type": "EXTERNAL"}
    shares.unity(
        "POST", "/tables", json={**table, "data_source_format": "DELTA", "storage_location": f"{location}/{name}"}
    )
    url = shares.offer(name, register=False)

    for delta_format in (None, False, True):
        cloud.signed.clear()
        found = delta_sharing.load_as_pandas(url, use_delta_format=delta_format).sort_values("id")
        assert list(zip(found["id"], found["city"], strict=True)) == [
            (1, "Oslo"),
            (1, "Oslo"),
            (2, "New York"),
            (3, "Zürich 100%"),
        ]
        assert len(set(cloud.signed)) == 4
        assert all(each.startswith(f"{path}{name}/") for each in cloud.signed), "a signature opens nothing else"
    changes = delta_sharing.load_table_changes_as_pandas(url, starting_version=0)
    assert sorted(changes["id"]) == [1, 1, 2, 3]

    signed = [line["file"]["url"] for line in _post(shares, name, "query").splitlines()[2:]]
    assert httpx.get(signed[0], trust_env=False, timeout=60).status_code == 200
    for forged in (signed[0].replace(Path(signed[0].partition("?")[0]).name, "other.parquet"), signed[0][:-4] + "0000"):
        assert httpx.get(forged, trust_env=False, timeout=60).status_code == 403
    key = _post(shares, name, "temporary-table-credentials").whole["credentials"]
    assert key["location"] == f"{location}/{name}/"
    assert {each: key[each] for each in token} == token
    assert ("azureUserDelegationSas" in key) == (name == "azure")


class _Answer:
    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def whole(self) -> Any:
        return json.loads(self.text)

    def splitlines(self) -> list[Any]:
        return [json.loads(line) for line in self.text.splitlines()]


def _post(shares: ShareServer, table: str, verb: str) -> _Answer:
    profile = json.loads(shares.profile.read_text())
    headers = {"authorization": f"Bearer {profile['bearerToken']}"}
    url = f"{profile['endpoint']}/shares/fish/schemas/sea/tables/{table}/{verb}"
    return _Answer(httpx.post(url, json={}, headers=headers, trust_env=False, timeout=60).raise_for_status().text)
