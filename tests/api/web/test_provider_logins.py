"""Log in to the pages at an identity provider: the code flow, and every way to misuse it."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from msgspec.structs import force_setattr

from moorage.access.browser_logins import BrowserClient, BrowserLogins
from moorage.access.granted import GrantedAccess
from moorage.access.logins import LoginRules
from moorage.access.oidc import Issuers
from moorage.testing import builders as make
from tests.api.control.guarded import CONTROL, Guarded, open_guarded
from tests.api.control.issuer import Issuer, Key
from tests.api.house import done
from tests.api.web.browser import Browser, field, went_to

ANN = "ann@example.com"
CLIENT = "moorage-web"
SECRET = "canary of the client"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


def trust(guarded: Guarded, *issuers: Issuer, secret: str | None = None, creates_users: bool = False) -> None:
    clients = [BrowserClient(issuer=each.url, client_id=CLIENT, client_secret=secret) for each in issuers]
    rules = LoginRules(audience="", creates_users=creates_users)
    logins = BrowserLogins(Issuers(*(each.url for each in issuers)), clients, rules)
    ports = guarded.house.ports
    access = GrantedAccess(ports.ledger, ports.page_secret, browser_logins=logins, now_ms=guarded.house.clock)
    force_setattr(ports, "browser_logins", logins)
    force_setattr(ports, "access", access)


@pytest.fixture
async def trusting(tmp_path: Path, issuer: Issuer) -> AsyncIterator[Guarded]:
    """A server that trusts the issuer and has the user ann."""
    async with open_guarded(tmp_path / "data") as guarded:
        trust(guarded, issuer)
        await guarded.user(ANN)
        yield guarded


@pytest.fixture
def browser(trusting: Guarded) -> Browser:
    return Browser(trusting.house.console.http)


async def begin(browser: Browser, issuer: Issuer, **query: str) -> dict[str, str]:
    """Begin a login, and return the request to the provider."""
    url = went_to(await browser.get(f"/login/oidc?{urlencode({'issuer': issuer.url, **query})}"))
    assert url.startswith(f"{issuer.url}/authorize?")
    return dict(parse_qsl(urlsplit(url).query))


def answer_of(issuer: Issuer, request: dict[str, str], **changes: str) -> str:
    """The path to which the provider sends the browser back."""
    sent_back = urlsplit(issuer.authorize(request))
    return f"{sent_back.path}?{urlencode({**dict(parse_qsl(sent_back.query)), **changes})}"


async def log_in(browser: Browser, issuer: Issuer, **query: str) -> Any:
    return await browser.get(answer_of(issuer, await begin(browser, issuer, **query)))


async def test_a_login_at_the_provider_opens_a_session(trusting: Guarded, browser: Browser, issuer: Issuer) -> None:
    page = (await browser.get("/login?next=/x")).text
    assert f'href="/login/oidc?{urlencode({"issuer": issuer.url})}&amp;next=%2Fx"' in page
    assert urlsplit(issuer.url).netloc in page
    assert went_to(await log_in(browser, issuer, next="/x")) == "/x"
    assert list(browser.cookies) == ["moorage"], "the attempt was used up"
    home = (await browser.get("/")).text
    assert ANN in home
    assert went_to(await browser.post("/logout", {"csrf": field("csrf", home)})) == "/login"
    assert (await browser.get("/")).status_code == 401


async def test_the_request_has_a_challenge_and_the_cookie_is_short_lived(browser: Browser, issuer: Issuer) -> None:
    answer = await browser.get(f"/login/oidc?{urlencode({'issuer': issuer.url})}")
    request = {name: values[0] for name, values in parse_qs(urlsplit(went_to(answer)).query).items()}
    assert request["redirect_uri"].endswith("/login/callback")
    assert (request["client_id"], request["scope"]) == (CLIENT, "openid email profile")
    assert request["code_challenge_method"] == "S256"
    assert min(len(request[name]) for name in ("state", "nonce", "code_challenge")) == 43
    assert answer.headers["set-cookie"].endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax")
    again = await begin(browser, issuer)
    assert all(again[name] != request[name] for name in ("state", "nonce", "code_challenge"))


async def test_a_client_with_a_secret_proves_it_and_never_shows_it(
    trusting: Guarded, browser: Browser, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.secret = SECRET.replace(" ", "%20")  # as OAuth encodes it
    with caplog.at_level(logging.DEBUG):
        refused = await log_in(browser, issuer)
        assert refused.status_code == 401
        trust(trusting, issuer, secret=SECRET)
        assert went_to(await log_in(browser, issuer)) == "/"
    assert SECRET not in refused.text + caplog.text
    assert SECRET not in repr(BrowserClient(issuer=issuer.url, client_id=CLIENT, client_secret=SECRET))


async def test_a_forged_missing_or_replayed_state_is_refused(
    trusting: Guarded, browser: Browser, issuer: Issuer
) -> None:
    request = await begin(browser, issuer)
    for state in ("", "x", request["state"][:-1]):
        assert (await browser.get(answer_of(issuer, request, state=state))).status_code == 401, state
    other = Browser(trusting.house.console.http)
    assert (await other.get(answer_of(issuer, request))).status_code == 401, "another browser has no such attempt"
    await begin(other, issuer)
    assert (await other.get(answer_of(issuer, request))).status_code == 401, "or has another one"
    attempt = dict(browser.cookies)
    path = answer_of(issuer, request)
    assert went_to(await browser.get(path)) == "/"
    browser.cookies = {}
    assert (await browser.get(path)).status_code == 401, "the browser has no attempt any more"
    browser.cookies = dict(attempt)
    assert (await browser.get(path)).status_code == 401, "the provider redeems a code once"
    browser.cookies = dict(attempt)
    assert (await browser.get(answer_of(issuer, request))).status_code == 400, "a kept attempt opens no second session"
    assert "moorage" not in browser.cookies


async def test_an_attempt_expires(trusting: Guarded, browser: Browser, issuer: Issuer) -> None:
    request = await begin(browser, issuer)
    trusting.house.clock.advance(10 * make.HOUR_MS // 60)
    assert (await browser.get(answer_of(issuer, request))).status_code == 401


async def test_an_id_token_of_another_login_user_or_application_is_refused(
    trusting: Guarded, browser: Browser, issuer: Issuer
) -> None:
    now = int(time.time())
    wrong: dict[str, dict[str, Any]] = {
        "another nonce": {"nonce": "x"},
        "no nonce": {"nonce": None},
        "a nonce that is a list": {"nonce": ["x"]},
        "another audience": {"aud": "other"},
        "the audience of bearer tokens": {"aud": "moorage"},
        "no audience": {"aud": None},
        "several audiences without a party": {"aud": [CLIENT, "other"]},
        "issued to another party": {"azp": "other"},
        "another issuer": {"iss": "https://other.example.com"},
        "no end": {"exp": None},
        "expired": {"exp": now - 3600},
        "an unverified address": {"email_verified": False},
        "no name": {"email": None},
        "an unknown user": {"email": "eve@example.com"},
        "the first administrator by its name": {"email": "admin"},
        "another key": {"key": Key("k1")},
    }
    for what, claims in wrong.items():
        issuer.id_claims = claims
        assert (await log_in(browser, issuer)).status_code == 401, what
        assert "moorage" not in browser.cookies, what
    issuer.id_claims = {"aud": [CLIENT, "other"], "azp": CLIENT}
    assert went_to(await log_in(browser, issuer)) == "/"


async def test_an_answer_of_another_issuer_is_refused(trusting: Guarded, browser: Browser, issuer: Issuer) -> None:
    with Issuer() as other:
        trust(trusting, issuer, other)
        request = await begin(browser, issuer)
        assert (await browser.get(answer_of(other, request))).status_code == 401, "it states another sender"
        mixed_up = answer_of(other, request, iss=issuer.url)
        assert (await browser.get(mixed_up)).status_code == 401, "the code is redeemed where the login was begun"
        assert len(other.codes) == 2, "the other provider was not asked"


async def test_only_providers_of_the_settings_are_used(trusting: Guarded, browser: Browser, issuer: Issuer) -> None:
    with Issuer() as other:
        for url in (other.url, "https://evil.example", "", "javascript:alert(1)"):
            answer = await browser.get(f"/login/oidc?{urlencode({'issuer': url})}")
            assert answer.status_code == 400, url
            assert "location" not in answer.headers
        assert other.requests == 0


async def test_a_refusal_of_the_provider_is_shown(browser: Browser, issuer: Issuer) -> None:
    await begin(browser, issuer)
    answer = await browser.get("/login/callback?error=access_denied%3Cscript%3E&state=x")
    assert answer.status_code == 401
    assert "access_denied&lt;script&gt;" in answer.text


async def test_users_are_created_with_their_first_login_if_that_is_allowed(
    trusting: Guarded, browser: Browser, issuer: Issuer
) -> None:
    issuer.id_claims = {"email": "new@example.com", "sub": "7"}
    assert (await log_in(browser, issuer)).status_code == 401
    trust(trusting, issuer, creates_users=True)
    assert went_to(await log_in(browser, issuer)) == "/"
    assert "new@example.com" in (await browser.get("/")).text
    found = done(await trusting.ask(trusting.admin, "GET", f"{CONTROL}/scim2/Users"))["Resources"]
    assert {each.get("externalId") for each in found} >= {f"{issuer.url}|7"}
    issuer.id_claims = {"email": "new@example.com", "sub": "8"}
    assert (await log_in(Browser(trusting.house.console.http), issuer)).status_code == 401, "another account"


async def test_an_id_token_for_the_page_is_no_bearer_token(trusting: Guarded, issuer: Issuer) -> None:
    assert await trusting.status(issuer.token(aud=CLIENT), "GET", f"{CONTROL}/scim2/Me") == 401


async def test_a_provider_that_describes_another_one_is_not_used(browser: Browser, issuer: Issuer) -> None:
    issuer.stated_issuer = "https://other.example.com"
    answer = await browser.get(f"/login/oidc?{urlencode({'issuer': issuer.url})}")
    assert answer.status_code == 503
