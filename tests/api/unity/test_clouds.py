"""Credentials for folders in Google Cloud and Azure: the exact requests, and their form in each API."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jwt
import obstore
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from obstore.store import AzureStore

from moorage.api.delta.bodies import credentials_for
from moorage.api.iceberg.file_access import credentials_of
from moorage.core.errors import Unsupported
from moorage.core.vended import VendedSas, VendedToken
from moorage.storage.azure import AzureAccount, FileSigner, request_sas, sign, string_to_sign
from moorage.storage.gcs import GcsAccount, access_boundary
from moorage.storage.gcs import open_storage as open_gcs
from moorage.usecases.catalog.credentials import FileAccess
from moorage.usecases.iceberg.vend_credentials import VendedTable
from moorage.usecases.lance.storage_options import to_options
from tests.api.house import House, done, open_house
from tests.api.unity.cloud_endpoint import DELEGATION_KEY, TENANT, CloudEndpoint, cloud_endpoint
from tests.api.unity.unity import Unity, invalid

APPLICATION = "66666666-7777-8888-9999-000000000000"
HOST = "lake.dfs.core.windows.net"
FOLDER = f"abfss://data@{HOST}/tables/t1"
EMAIL = "moorage@project.iam.gserviceaccount.com"
CANARY = "canary-client-secret"
LISTED = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def pem(private_key: rsa.RSAPrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return private_key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@pytest.fixture
def endpoint() -> Iterator[CloudEndpoint]:
    with cloud_endpoint() as server:
        yield server


@pytest.fixture
async def house(endpoint: CloudEndpoint, tmp_path: Path) -> AsyncIterator[House]:
    key = base64.b64encode(b"k" * 32).decode()
    async with open_house(
        tmp_path / "data", secret_key=key, google_endpoint=endpoint.url, azure_endpoint=endpoint.url
    ) as house:
        yield house


async def create(uc: Unity, url: str, **credential: Any) -> None:
    made = done(await uc.post("/credentials", {"name": "cloud", **credential}))
    assert CANARY not in json.dumps(made)
    assert (made["s3_store"], made["aws_access_key"]) == (None, None)
    body = {"name": "area", "url": url, "credential_name": "cloud", "skip_validation": True}
    done(await uc.post("/external-locations", body))


async def test_google_gets_the_boundary_of_one_folder(
    house: House, endpoint: CloudEndpoint, private_key: rsa.RSAPrivateKey, pem: str
) -> None:
    uc = Unity(house.console.http)
    key = {"email": EMAIL, "private_key_id": "k1", "private_key": pem}
    await create(uc, "gs://lake/tables", gcp_service_account_key=key)
    body = {"url": "gs://lake/tables/t1", "operation": "PATH_READ"}
    found = done(await uc.post("/temporary-path-credentials", body))
    assert (found["gcp_oauth_token"], found["url"]) == ({"oauth_token": "token for one folder"}, "gs://lake/tables/t1")
    assert found["aws_temp_credentials"] is None
    assert abs(found["expiration_time"] / 1000 - time.time() - 3000) < 60

    own, exchange = endpoint.received
    claims = jwt.decode(
        own.form["assertion"], private_key.public_key(), algorithms=["RS256"], audience=f"{endpoint.url}/token"
    )
    assert (own.path, claims["iss"]) == ("/token", EMAIL)
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert jwt.get_unverified_header(own.form["assertion"])["kid"] == "k1"
    assert (exchange.path, exchange.form["subject_token"]) == ("/v1/token", "token of the server")
    assert exchange.form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert json.loads(exchange.form["options"]) == {
        "accessBoundary": {
            "accessBoundaryRules": [
                {
                    "availableResource": "//storage.googleapis.com/projects/_/buckets/lake",
                    "availablePermissions": ["inRole:roles/storage.objectViewer"],
                    "availabilityCondition": {
                        "expression": "resource.name.startsWith('projects/_/buckets/lake/objects/tables/t1/') "
                        "|| resource.name == 'projects/_/buckets/lake/objects/tables/t1' "
                        f"|| {LISTED}.startsWith('tables/t1/')"
                    },
                }
            ]
        }
    }
    assert done(await uc.post("/temporary-path-credentials", body)) == found, "cached for half of its lifetime"
    assert len(endpoint.received) == 2


def test_a_boundary_cannot_be_left_by_quotes() -> None:
    for odd in ("gs://lake/it's/", "gs://lake/a') || true || ('/", 'gs://lake/"/'):
        with pytest.raises(Unsupported):
            access_boundary(odd, writes=False)


def test_only_objects_below_a_folder_of_google_can_be_written() -> None:
    """Hadoop's file system reads the object with the name of the folder. It may be another user's file."""
    rules = access_boundary("gs://lake/t1/", writes=True)["accessBoundary"]["accessBoundaryRules"]
    reads = [rule for rule in rules if "'projects/_/buckets/lake/objects/t1'" in expression_of(rule)]
    writes = [rule for rule in rules if "inRole:roles/storage.objectUser" in rule["availablePermissions"]]
    assert [rule["availablePermissions"] for rule in reads] == [["inRole:roles/storage.objectViewer"]]
    below = "resource.name.startsWith('projects/_/buckets/lake/objects/t1/')"
    assert [expression_of(rule) for rule in writes] == [f"{below} || {LISTED}.startsWith('t1/')"]


def expression_of(rule: dict[str, Any]) -> str:
    return str(rule["availabilityCondition"]["expression"])


async def test_urls_of_files_in_google_cloud_are_signed_with_the_key_of_the_service_account(pem: str) -> None:
    account = GcsAccount(email=EMAIL, private_key_id="k1", private_key=pem, locations=("gs://lake/t/",))
    (url,) = await open_gcs(account).presign("gs://lake/t/", ["p=a%20b/a.parquet"], seconds=60)
    assert urlsplit(url)[1:3] == ("storage.googleapis.com", "/lake/t/p%3Da%2520b/a.parquet")
    assert dict(parse_qsl(urlsplit(url).query))["X-Goog-Expires"] == "60"
    assert pem not in repr(account)


async def test_azure_gets_a_signature_for_one_folder(house: House, endpoint: CloudEndpoint) -> None:
    uc = Unity(house.console.http)
    principal = {"directory_id": TENANT, "application_id": APPLICATION, "client_secret": CANARY}
    await create(uc, f"abfss://data@{HOST}/tables", azure_service_principal=principal)
    body = {"url": FOLDER, "operation": "PATH_READ"}
    found = done(await uc.post("/temporary-path-credentials", body))
    sas = dict(parse_qsl(found["azure_user_delegation_sas"]["sas_token"]))
    assert (sas["sp"], sas["sr"], sas["sdd"], sas["skoid"]) == ("rl", "d", "2", "our-object")
    token, delegation = endpoint.received
    assert (token.path, token.form["client_secret"]) == (f"/{TENANT}/oauth2/v2.0/token", CANARY)
    assert token.form["scope"] == "https://storage.azure.com/.default"
    assert delegation.path == "/lake/?restype=service&comp=userdelegationkey"
    assert delegation.authorization == "Bearer token of the server"
    assert f"<Expiry>{sas['se']}</Expiry>" in delegation.body
    assert sas["sig"] == sign(string_to_sign(sas, "/blob/lake/data/tables/t1"), DELEGATION_KEY)
    assert CANARY not in repr(await house.ledger.entries(0, limit=1000))


async def test_the_signature_is_that_of_another_implementation(endpoint: CloudEndpoint) -> None:
    store = AzureStore(
        "data",
        account_name="lake",
        tenant_id=TENANT,
        client_id=APPLICATION,
        client_secret=CANARY,
        authority_host=endpoint.url,
        endpoint=f"{endpoint.url}/lake",
        client_options={"allow_http": True},
    )
    url = await obstore.sign_async(store, "GET", "tables/t1/a.parquet", timedelta(minutes=5))
    theirs = dict(parse_qsl(urlsplit(url).query))
    assert theirs["sig"] == sign(string_to_sign(theirs, "/blob/lake/data/tables/t1/a.parquet"), DELEGATION_KEY)


async def test_urls_of_files_in_azure_are_signed_with_one_key_while_it_is_valid(endpoint: CloudEndpoint) -> None:
    account = AzureAccount(
        directory_id=TENANT,
        application_id=APPLICATION,
        client_secret=CANARY,
        locations=(f"{FOLDER}/",),
        endpoint=endpoint.url,
    )
    signer = FileSigner(account)
    first, second = await signer.presign(f"{FOLDER}/", ["p=a%20b/ü.parquet", "b.parquet"], seconds=60)
    parameters = dict(parse_qsl(urlsplit(first).query))
    assert urlsplit(first).path == "/lake/data/tables/t1/p%3Da%2520b/%C3%BC.parquet"
    assert (parameters["sr"], parameters["sp"]) == ("b", "r")
    # Azure compares with the name of the blob, not with its encoded form in the URL.
    text = string_to_sign(parameters, "/blob/lake/data/tables/t1/p=a%20b/ü.parquet")
    assert parameters["sig"] == sign(text, DELEGATION_KEY) != dict(parse_qsl(urlsplit(second).query))["sig"]
    await signer.presign(f"{FOLDER}/", ["c.parquet"], seconds=600)
    assert len(endpoint.received) == 2, "a token, and a key that is valid for longer than the URLs"
    await signer.presign(f"{FOLDER}/", ["c.parquet"], seconds=7200)
    assert len(endpoint.received) == 4


async def test_whole_containers_and_several_folders_of_azure_are_refused() -> None:
    account = AzureAccount(
        directory_id=TENANT, application_id=APPLICATION, client_secret=CANARY, locations=(f"abfss://data@{HOST}/",)
    )
    assert CANARY not in repr(account)
    for locations in ((f"abfss://data@{HOST}/",), (f"{FOLDER}/", f"{FOLDER}0/")):
        with pytest.raises(Unsupported):
            await request_sas(account, locations, writes=False)


async def test_a_credential_opens_folders_of_its_own_cloud(house: House, pem: str) -> None:
    uc = Unity(house.console.http)
    gcp = {"email": EMAIL, "private_key_id": "k1", "private_key": pem}
    azure = {"directory_id": TENANT, "application_id": APPLICATION, "client_secret": CANARY}
    both = {"name": "x", "gcp_service_account_key": gcp, "azure_service_principal": azure}
    assert "one cloud" in invalid(await uc.post("/credentials", both))
    wrong = {"name": "x", "azure_service_principal": {**azure, "directory_id": "../admin"}}
    assert "directory_id" in invalid(await uc.post("/credentials", wrong))
    done(await uc.post("/credentials", {"name": "cloud", "gcp_service_account_key": gcp}))
    for url in ("s3://lake/t", FOLDER, "abfss://data@evil.example/t"):
        body = {"name": "a", "url": url, "credential_name": "cloud", "skip_validation": True}
        invalid(await uc.post("/external-locations", body))


def test_every_api_has_its_own_form() -> None:
    token = FileAccess("gs://lake/t1/", VendedToken("secret", 7))
    sas = FileAccess(f"{FOLDER}/", VendedSas(HOST, "sv=1", 7))
    assert credentials_for(token, "READ")[0].config == {"gcs.oauth-token": "secret"}
    assert credentials_for(sas, "READ")[0].config == {"azure.sas-token": "sv=1"}
    assert to_options(token) == {"google_storage_token": "secret", "expires_at_millis": "7"}
    assert (to_options(sas) or {})["azure_storage_sas_token"] == "sv=1"
    (iceberg,) = credentials_of(VendedTable(VendedToken("secret", 7), ("gs://lake/t1/",)))
    assert iceberg.config == {"gcs.oauth2.token": "secret", "gcs.oauth2.token-expires-at": "7"}
    (iceberg,) = credentials_of(VendedTable(VendedSas(HOST, "sv=1", 7), (f"{FOLDER}/",)))
    assert iceberg.config == {f"adls.sas-token.{HOST}": "sv=1", f"adls.sas-token-expires-at-ms.{HOST}": "7"}
