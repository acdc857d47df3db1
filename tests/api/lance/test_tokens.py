"""The token endpoint for Lance's clients."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx
import pytest
from msgspec.structs import force_setattr

from moorage.access.open import OpenAccess
from tests.api.house import House, done
from tests.api.lance.lake import refused

FORM = {"content-type": "application/x-www-form-urlencoded"}
CREDENTIALS = {"grant_type": "client_credentials", "client_id": "ann", "client_secret": "s p+ce"}


@pytest.fixture
def open_house(house: House) -> House:
    """A server without authentication."""
    force_setattr(house.ports, "access", OpenAccess())
    return house


async def ask(house: House, form: dict[str, str], **headers: str) -> httpx.Response:
    return await house.console.http.post("/lance/oauth/token", content=urlencode(form), headers=FORM | headers)


async def test_a_server_without_authentication_returns_a_token_for_any_credentials(open_house: House) -> None:
    answer = await ask(open_house, CREDENTIALS)
    assert done(answer) == {"access_token": "open", "token_type": "bearer"}
    assert answer.headers["cache-control"] == "no-store"
    done(await ask(open_house, {"grant_type": "client_credentials"}, authorization="Basic YW5uOng="))


async def test_an_invalid_token_request_is_refused(open_house: House) -> None:
    refused(await ask(open_house, {}), 400, 13, "grant_type")
    refused(await ask(open_house, CREDENTIALS | {"grant_type": "password"}), 400, 13, "password")
    refused(await ask(open_house, {"grant_type": "client_credentials"}), 401, 16, "client_id")


async def test_a_server_with_authentication_issues_no_tokens_for_credentials(house: House) -> None:
    house.access.authenticates = True
    refused(await ask(house, CREDENTIALS), 401, 16)
