"""The token endpoint, and signatures for local disk."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx
import pytest
from msgspec.structs import force_setattr

from moorage.access.open import OpenAccess
from tests.api.house import House
from tests.api.iceberg.lake import V1, Lake, refused, to_table

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"


async def ask(house: House, headers: dict[str, str] | None = None, /, **form: str) -> httpx.Response:
    sent = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
    return await house.console.http.post(f"{V1}/oauth/tokens", content=urlencode(form), headers=sent)


@pytest.fixture
def open_house(house: House) -> House:
    force_setattr(house.ports, "access", OpenAccess())
    return house


async def test_a_server_without_authentication_issues_a_token_for_any_credentials(open_house: House) -> None:
    answer = await ask(open_house, grant_type="client_credentials", client_id="ann", client_secret="x", scope="catalog")
    assert answer.json() == {
        "access_token": "open",
        "token_type": "bearer",
        "issued_token_type": ACCESS,
        "scope": "catalog",
    }
    assert answer.headers["cache-control"] == "no-store"
    basic = await ask(open_house, {"authorization": "Basic YW5uOng="}, grant_type="client_credentials")
    assert (basic.status_code, "scope" in basic.json()) == (200, False)


async def test_a_token_is_exchanged_for_another(open_house: House) -> None:
    answer = await ask(open_house, grant_type=EXCHANGE, subject_token="old", subject_token_type=ACCESS)
    assert (answer.status_code, answer.json()["issued_token_type"]) == (200, ACCESS)


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({}, 400, "invalid_request"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        ({"grant_type": EXCHANGE}, 400, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "old"}, 400, "invalid_request"),
    ],
)
async def test_an_invalid_request_gets_an_oauth_error(
    open_house: House, form: dict[str, str], status: int, error: str
) -> None:
    answer = await ask(open_house, **form)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert sorted(answer.json()) == ["error", "error_description"]


async def test_a_server_with_authentication_issues_no_token_for_unknown_credentials(house: House) -> None:
    house.access.authenticates = True
    answer = await ask(house, grant_type="client_credentials", client_id="ann", client_secret="x")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_requests_for_tables_on_local_disk_are_not_signed(lake: Lake) -> None:
    await lake.create("orders")
    request = {"region": "x", "uri": "https://b.s3.amazonaws.com/k", "method": "GET", "headers": {}}
    answer = await lake.ask("POST", f"{to_table('orders')}/sign", request)
    refused(answer, 406, "UnsupportedOperationException", "stores tables on local disk")
    refused(await lake.ask("POST", f"{to_table('nothing')}/sign", request), 404, "NoSuchTableException")
