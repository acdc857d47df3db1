"""Session tokens: exchanged for tokens as OAuth's clients do, and bound to them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from moorage import fresh
from moorage.core.ids import SecurableId
from moorage.core.sessions import new_session, parse_session, session_key
from moorage.testing import builders as make
from tests.api.control.guarded import CONTROL, UNITY, Guarded
from tests.api.house import done

ICEBERG = "/iceberg/v1/oauth/tokens"
LANCE = "/lance/oauth/token"
CONTROL_EXCHANGE = f"{CONTROL}/auth/tokens"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
ME = f"{CONTROL}/scim2/Me"
KEY = session_key(b"secret")


async def ask(guarded: Guarded, path: str, headers: dict[str, str] | None = None, /, **form: str) -> httpx.Response:
    of_form = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
    return await guarded.house.console.http.post(path, content=urlencode(form), headers=of_form)


async def client_token(guarded: Guarded, path: str, id: str, secret: str) -> Any:
    answer = await ask(guarded, path, grant_type="client_credentials", client_id=id, client_secret=secret)
    assert answer.headers["cache-control"] == "no-store"
    return done(answer)


@pytest.mark.parametrize("path", [ICEBERG, LANCE])
async def test_a_client_gets_a_session_for_its_name_or_id_and_token(guarded: Guarded, path: str) -> None:
    secret = await guarded.user("ann@example.com")
    for id in ("ann@example.com", guarded.ids["ann@example.com"], ""):
        issued = await client_token(guarded, path, id, secret)
        assert (issued["token_type"].lower(), issued["expires_in"]) == ("bearer", 3600)
        assert secret not in issued["access_token"]
        assert done(await guarded.ask(issued["access_token"], "GET", ME))["userName"] == "ann@example.com"
    basic = b64encode(f"ann@example.com:{secret}".encode()).decode()
    answer = await ask(guarded, path, {"authorization": f"Basic {basic}"}, grant_type="client_credentials")
    assert done(answer)["access_token"].startswith("moor_")


@pytest.mark.parametrize("path", [ICEBERG, LANCE])
async def test_wrong_credentials_get_no_session(guarded: Guarded, path: str) -> None:
    ann, bob = await guarded.user("ann"), await guarded.user("bob")
    for id, secret in (("ann", bob), ("bob", ann), ("ann", ann[:-1]), ("ann", "x"), ("ann", "")):
        answer = await ask(guarded, path, grant_type="client_credentials", client_id=id, client_secret=secret)
        assert answer.status_code == 401
        assert len(secret) < 2 or secret not in answer.text
    for basic in ("%%%", "YQ"):
        answer = await ask(guarded, path, {"authorization": f"Basic {basic}"}, grant_type="client_credentials")
        assert answer.status_code == 401


async def test_a_token_is_exchanged_and_a_session_is_extended(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    form = {"grant_type": EXCHANGE, "subject_token_type": ACCESS_TOKEN}
    for path in (ICEBERG, CONTROL_EXCHANGE):
        first = done(await ask(guarded, path, subject_token=ann, **form))["access_token"]
        guarded.house.clock.advance(make.HOUR_MS // 2)
        second = done(await ask(guarded, path, subject_token=first, **form))["access_token"]
        guarded.house.clock.advance(make.HOUR_MS // 2)
        states = [await guarded.status(token, "GET", ME) for token in (first, second)]
        assert states == [401, 200], "an hour after it was issued"
        assert (await ask(guarded, path, subject_token=first, **form)).status_code == 401


async def test_a_session_ends_with_its_token_and_with_its_principal(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    other = await guarded.token("ann")
    sessions = [(await client_token(guarded, ICEBERG, "ann", token))["access_token"] for token in (ann, other)]
    assert [await guarded.status(token, "GET", ME) for token in sessions] == [200, 200]
    listed = done(await guarded.ask(ann, "GET", f"{CONTROL}/tokens"))["tokens"]
    first = min(listed, key=lambda token: token["token_id"])
    assert await guarded.status(ann, "DELETE", f"{CONTROL}/tokens/{first['token_id']}") == 204
    assert [await guarded.status(token, "GET", ME) for token in sessions] == [401, 200]
    await guarded.run("DELETE", f"{CONTROL}/scim2/Users/{guarded.ids['ann']}", status=204)
    assert await guarded.status(sessions[1], "GET", ME) == 401


async def test_a_session_does_not_outlive_a_token_that_expires(guarded: Guarded) -> None:
    """A verified session is known from its last request, until it or its token expires."""
    ann = await guarded.user("ann", lifetime_days=1)
    guarded.house.clock.advance(24 * make.HOUR_MS - make.HOUR_MS // 2)
    session = (await client_token(guarded, ICEBERG, "ann", ann))["access_token"]
    assert [await guarded.status(session, "GET", ME) for _ in range(2)] == [200, 200]
    guarded.house.clock.advance(make.HOUR_MS // 2)
    assert await guarded.status(session, "GET", ME) == 401


async def test_a_session_keeps_the_scope_of_its_token(guarded: Guarded) -> None:
    reader = await guarded.token("admin", scope="read")
    session = (await client_token(guarded, ICEBERG, "admin", reader))["access_token"]
    assert await guarded.status(session, "GET", f"{UNITY}/catalogs") == 200
    assert await guarded.status(session, "POST", f"{UNITY}/catalogs", {"name": "x"}) == 403


async def test_a_session_creates_no_token_that_outlives_its_own(guarded: Guarded) -> None:
    ann = await guarded.user("ann", lifetime_days=30)
    session = (await client_token(guarded, ICEBERG, "ann", ann))["access_token"]
    assert await guarded.status(session, "POST", f"{CONTROL}/tokens", {"lifetime_days": 31}) == 400
    assert await guarded.status(session, "POST", f"{CONTROL}/tokens", {"lifetime_days": 30}) == 201


async def test_forged_sessions_are_refused(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    session = (await client_token(guarded, ICEBERG, "ann", ann))["access_token"]
    user, now_s = SecurableId(guarded.ids["ann"]), guarded.house.clock.now_ms // 1000
    own = session_key(guarded.house.ports.page_secret)
    assert await guarded.status(new_session(own, user, now_s + 60), "GET", ME) == 200
    later = session.replace("_x00", "_x01")
    group = SecurableId((await guarded.run("GET", f"{CONTROL}/scim2/Groups"))["Resources"][0]["id"])
    assert await guarded.status(new_session(own, group, now_s + 60), "GET", ME) == 401, "a group cannot log in"
    for forged in (
        new_session(KEY, user, now_s + 60),
        new_session(own, user, now_s),
        new_session(own, fresh.securable_id(), now_s + 60),
        new_session(own, guarded.ledger.root, now_s + 60),
        later,
        session[:-1] + ("A" if session[-1] != "A" else "B"),
        session[:-1],
    ):
        assert await guarded.status(forged, "GET", ME) == 401, forged
    assert parse_session(own, later) is None


async def test_lance_accepts_an_api_key(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    path = "/lance/v1/namespace/$/list"
    assert (await guarded.ask(None, "GET", path, headers={"x-api-key": ann})).status_code == 200
    assert (await guarded.ask(None, "GET", path, headers={"x-api-key": ann[:-1]})).status_code == 401
    assert (await guarded.ask(None, "GET", f"{UNITY}/catalogs", headers={"x-api-key": ann})).status_code == 401


async def test_an_invalid_exchange_gets_an_oauth_error(guarded: Guarded) -> None:
    cases: tuple[tuple[dict[str, str], int, str], ...] = (
        ({}, 400, "unsupported_grant_type"),
        ({"grant_type": EXCHANGE}, 400, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x", "subject_token_type": "y"}, 401, "invalid_client"),
    )
    for form, status, error in cases:
        answer = await ask(guarded, CONTROL_EXCHANGE, None, **form)
        assert (answer.status_code, answer.json()["error"]) == (status, error)


async def test_a_logout_without_a_token_clears_nothing_in_the_browser(guarded: Guarded) -> None:
    from_another_site = await ask(guarded, f"{CONTROL}/auth/logout")
    assert (from_another_site.status_code, from_another_site.headers.get("clear-site-data")) == (200, None)
    own = await ask(guarded, f"{CONTROL}/auth/logout", {"authorization": "Bearer moor_x"})
    assert (own.status_code, own.headers["clear-site-data"]) == (200, '"cookies", "storage"')
