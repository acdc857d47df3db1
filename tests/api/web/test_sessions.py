"""Log in to the pages with a token: what a session may do, when it ends, and every way to misuse one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest

from moorage.access.open import OpenAccess
from moorage.testing import builders as make
from moorage.usecases.identity import tokens as stored_tokens
from tests.api.control.guarded import CONTROL, Guarded, open_guarded
from tests.api.house import House, done, open_house
from tests.api.web.browser import Browser, field, secret_in, went_to

ME = f"{CONTROL}/scim2/Me"
ANN = "ann@example.com"
FOREIGN = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"x-none": "neither header"},
]
"""Headers of requests that no page of this server has sent."""


async def test_a_token_opens_a_session_that_ends_with_the_logout(guarded: Guarded, browser: Browser) -> None:
    await guarded.group("analysts")
    ann = await guarded.user(ANN, "analysts")
    assert (await browser.get("/")).status_code == 401
    assert went_to(await browser.log_in(ann)) == "/"
    page = await browser.get("/")
    assert page.status_code == 200
    assert ANN in page.text
    assert "analysts" in page.text
    assert "administrator" not in page.text
    assert ann not in page.text
    before = dict(browser.cookies)
    assert went_to(await browser.post("/logout", {"csrf": field("csrf", page.text)})) == "/login"
    assert browser.cookies == {}
    browser.cookies = before
    assert (await browser.get("/")).status_code == 401, "the server has ended it, not only the browser"


async def test_a_visitor_is_led_to_the_login_page(guarded: Guarded, browser: Browser) -> None:
    page = await browser.get("/")
    assert page.status_code == 401
    assert '<meta http-equiv="refresh" content="0; url=/login">' in page.text
    login = await browser.get("/login")
    assert login.status_code == 200
    assert 'type="password"' in login.text
    api = await guarded.ask(None, "GET", "/")
    assert (api.status_code, api.headers["content-type"]) == (401, "application/json"), "programs get no page"


async def test_wrong_tokens_open_no_session(guarded: Guarded, browser: Browser) -> None:
    ann = await guarded.user(ANN)
    exchange = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": ann,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    exchanged = done(await browser.post(f"{CONTROL}/auth/tokens", exchange))["access_token"]
    seq = (await guarded.ledger.position()).seq
    for wrong in ("", "x", ann[:-1], ann[:-1] + ("A" if ann[-1] != "A" else "B"), exchanged, "moor_" + "0" * 32):
        answer = await browser.log_in(wrong)
        assert answer.status_code == 401, wrong
        assert browser.cookies == {}
        assert len(wrong) < 2 or wrong not in answer.text
    assert (await guarded.ledger.position()).seq == seq


async def test_the_cookie_is_kept_from_scripts_and_other_sites(tmp_path: Path) -> None:
    async with open_guarded(tmp_path / "plain") as plain:
        cookie = (await Browser(plain.house.console.http).log_in(plain.admin)).headers["set-cookie"]
        assert cookie.startswith("moorage=moor_")
        assert cookie.endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax")
    async with open_guarded(tmp_path / "secure", public_url="https://lake.example.com") as secure:
        browser = Browser(secure.house.console.http)
        cookie = (await browser.log_in(secure.admin)).headers["set-cookie"]
        assert cookie.startswith("__Host-moorage=moor_")
        assert cookie.endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure")
        assert (await browser.get("/")).status_code == 200
        browser.cookies = {"moorage": browser.cookies["__Host-moorage"]}
        assert (await browser.get("/")).status_code == 401, "another host of the domain could have set that name"


async def test_a_session_is_accepted_by_the_pages_only(guarded: Guarded, browser: Browser) -> None:
    await browser.log_in(guarded.admin)
    session = browser.cookies["moorage"]
    assert await guarded.status(session, "GET", ME) == 401, "it is no bearer token"
    assert (await browser.get(ME)).status_code == 401, "the APIs accept no cookie"
    assert (await browser.get("/api/2.1/unity-catalog/catalogs")).status_code == 401
    exchange = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": session,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    assert (await browser.post(f"{CONTROL}/auth/tokens", exchange)).status_code == 401
    browser.cookies = {"moorage": guarded.admin}
    assert (await browser.get("/")).status_code == 401, "a bearer token is no session"
    assert (await guarded.ask(guarded.admin, "GET", "/")).status_code == 401, "the pages accept no bearer token"


async def test_a_session_ends_with_its_token_its_user_and_its_time(guarded: Guarded, browser: Browser) -> None:
    ann = await guarded.user(ANN)
    other = await guarded.token(ANN)
    await browser.log_in(ann)
    of_other = Browser(guarded.house.console.http)
    await of_other.log_in(other)
    listed = done(await guarded.ask(ann, "GET", f"{CONTROL}/tokens"))["tokens"]
    first = min(token["token_id"] for token in listed)
    assert await guarded.status(other, "DELETE", f"{CONTROL}/tokens/{first}") == 204
    assert [(await each.get("/")).status_code for each in (browser, of_other)] == [401, 200]
    guarded.house.clock.advance(12 * make.HOUR_MS)
    assert (await of_other.get("/")).status_code == 401
    await of_other.log_in(other)
    off = {"Operations": [{"op": "replace", "path": "active", "value": False}]}
    await guarded.run("PATCH", f"{CONTROL}/scim2/Users/{guarded.ids[ANN]}", off)
    assert (await of_other.get("/")).status_code == 401


async def test_a_session_does_not_outlive_a_token_that_expires(guarded: Guarded, browser: Browser) -> None:
    ann = await guarded.user(ANN, lifetime_days=1)
    guarded.house.clock.advance(23 * make.HOUR_MS)
    assert "Max-Age=3600;" in (await browser.log_in(ann)).headers["set-cookie"]
    guarded.house.clock.advance(make.HOUR_MS)
    assert (await browser.get("/")).status_code == 401


async def test_old_sessions_make_room_for_new_ones(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_tokens, "MAX_SESSIONS", 3)
    ann = await guarded.user(ANN)
    browsers = [Browser(guarded.house.console.http) for _ in range(5)]
    for each in browsers:
        await each.log_in(ann)
        guarded.house.clock.advance(1000)
    assert [(await each.get("/")).status_code for each in browsers] == [401, 401, 200, 200, 200]
    guarded.house.clock.advance(12 * make.HOUR_MS)
    await browsers[0].log_in(ann)
    listed = done(await guarded.ask(ann, "GET", f"{CONTROL}/tokens"))["tokens"]
    assert [token["comment"] for token in listed] == [None, "browser session"], "expired sessions are removed"


async def test_a_session_of_a_token_that_reads_creates_and_revokes_no_tokens(
    guarded: Guarded, browser: Browser
) -> None:
    await browser.log_in(await guarded.token("admin", scope="read"))
    page = (await browser.get("/")).text
    assert "Create token" not in page
    assert "Revoke now" not in page
    csrf = field("csrf", page)
    for scope in ("all", "read"):
        form = {"csrf": csrf, "comment": "c", "scope": scope}
        assert (await browser.post("/tokens", form)).status_code == 403
    listed = done(await guarded.ask(guarded.admin, "GET", f"{CONTROL}/tokens"))["tokens"]
    of_admin = next(each["token_id"] for each in listed if each["scope"] == "all")
    assert (await browser.post("/tokens/revoke", {"csrf": csrf, "id": of_admin})).status_code == 403
    assert (await browser.post("/logout", {"csrf": csrf})).status_code == 303
    assert await guarded.status(guarded.admin, "GET", f"{CONTROL}/scim2/Me") == 200


async def test_a_session_creates_no_token_that_outlives_that_of_its_login(guarded: Guarded, browser: Browser) -> None:
    await browser.log_in(await guarded.user("ann", lifetime_days=40))
    page = (await browser.get("/")).text
    assert 'value="30"' in page
    assert 'value="90"' not in page
    form = {"csrf": field("csrf", page), "comment": "c"}
    assert (await browser.post("/tokens", {**form, "days": "90"})).status_code == 400
    for days in ("30", "never"):
        secret_in((await browser.post("/tokens", {**form, "days": days})).text)
    listed = done(await guarded.ask(guarded.admin, "GET", f"{CONTROL}/tokens?principal=ann"))["tokens"]
    ends = {each["comment"]: each["expires_at"] for each in listed if each["created_by"] == "admin"}
    assert all(each["expires_at"] is not None and each["expires_at"] <= max(ends.values()) for each in listed)


# --- requests from other sites --------------------------------------------------------------------


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_login_form_of_another_site_is_refused(
    guarded: Guarded, browser: Browser, headers: dict[str, str]
) -> None:
    """Otherwise it could log its visitor in as another user, who then sees what the visitor does."""
    answer = await browser.post("/login", {"token": guarded.admin}, **headers)
    assert (answer.status_code, browser.cookies) == (403, {})


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_forms_of_another_site_change_nothing(
    guarded: Guarded, browser: Browser, headers: dict[str, str]
) -> None:
    await browser.log_in(guarded.admin)
    csrf = await browser.csrf()
    seq = (await guarded.ledger.position()).seq
    for path in ("/tokens", "/tokens/revoke", "/logout"):
        answer = await browser.post(path, {"csrf": csrf, "comment": "c"}, **headers)
        assert answer.status_code == 403, path
    assert (await guarded.ledger.position()).seq == seq
    assert (await browser.get("/")).status_code == 200


async def test_a_form_needs_the_token_of_its_session(guarded: Guarded, browser: Browser) -> None:
    await browser.log_in(guarded.admin)
    first = await browser.csrf()
    other = Browser(guarded.house.console.http)
    await other.log_in(guarded.admin)
    wrong = ("", "x", "ä", first[:-1], await other.csrf())
    seq = (await guarded.ledger.position()).seq
    for csrf in wrong:
        for path in ("/tokens", "/tokens/revoke", "/logout"):
            assert (await browser.post(path, {"csrf": csrf})).status_code == 403, (path, csrf)
    assert (await guarded.ledger.position()).seq == seq


async def test_a_browser_without_fetch_metadata_is_known_by_its_origin(guarded: Guarded, browser: Browser) -> None:
    own = str(guarded.house.console.http.base_url).rstrip("/")
    for origin in (own, guarded.house.ports.public_url):
        assert went_to(await browser.post("/login", {"token": guarded.admin}, origin=origin)) == "/"


@pytest.mark.parametrize("path", ["/", "/login"])
async def test_no_page_can_be_framed_cached_or_scripted(guarded: Guarded, browser: Browser, path: str) -> None:
    await browser.log_in(guarded.admin)
    for answer in (await browser.get(path), await Browser(guarded.house.console.http).get(path)):
        policies = answer.headers.get_list("content-security-policy")
        assert any("frame-ancestors 'none'" in policy for policy in policies)
        assert any("default-src 'none'; style-src 'sha256-" in policy for policy in policies)
        assert any("form-action 'self'; base-uri 'none'" in policy for policy in policies)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert '<meta name="referrer" content="same-origin">' in answer.text
        assert "<script" not in answer.text
        assert "http://" not in answer.text.replace(guarded.house.ports.public_url, "")


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\t/evil.example", "x"],
)
async def test_a_login_never_leads_to_another_site(guarded: Guarded, browser: Browser, path: str) -> None:
    page = await browser.get(f"/login?{urlencode({'next': path})}")
    assert field("next", page.text) == "/"
    assert went_to(await browser.log_in(guarded.admin, next=path)) == "/"


async def test_a_login_leads_to_the_page_that_was_asked_for(guarded: Guarded, browser: Browser) -> None:
    page = await browser.get("/login?next=/some/page%3Fa%3D1")
    assert field("next", page.text) == "/some/page?a=1"
    assert went_to(await browser.log_in(guarded.admin, next="/some/page?a=1")) == "/some/page?a=1"


# --- the page -------------------------------------------------------------------------------------


async def test_personal_tokens_are_created_shown_once_and_revoked(guarded: Guarded, browser: Browser) -> None:
    await browser.log_in(await guarded.user(ANN))
    page = (await browser.get("/")).text
    form = {"csrf": field("csrf", page), "once": field("once", page), "comment": "<b>nb</b>", "days": "30"}
    made = await browser.post("/tokens", form)
    token = secret_in(made.text)
    assert "&lt;b&gt;nb&lt;/b&gt;" in made.text
    assert "<b>" not in made.text
    assert done(await guarded.ask(token, "GET", ME))["userName"] == ANN
    assert token not in (await browser.get("/")).text
    again = await browser.post("/tokens", form)
    assert again.status_code == 400, "a form that is sent again makes no second token"
    listed = {each["comment"]: each for each in done(await guarded.ask(token, "GET", f"{CONTROL}/tokens"))["tokens"]}
    assert len(listed) == 3
    assert listed["<b>nb</b>"]["expires_at"] == listed["<b>nb</b>"]["created_at"] + 30 * 24 * make.HOUR_MS
    revoke = {"csrf": form["csrf"], "id": listed["<b>nb</b>"]["token_id"]}
    assert went_to(await browser.post("/tokens/revoke", revoke)) == "/"
    assert await guarded.status(token, "GET", ME) == 401
    assert (await browser.post("/tokens/revoke", revoke)).status_code == 404


async def test_a_user_cannot_revoke_the_token_of_another(guarded: Guarded, browser: Browser) -> None:
    admin = done(await guarded.ask(guarded.admin, "GET", f"{CONTROL}/tokens"))["tokens"][0]
    await browser.log_in(await guarded.user(ANN))
    form = {"csrf": await browser.csrf(), "id": admin["token_id"]}
    assert (await browser.post("/tokens/revoke", form)).status_code == 404
    assert await guarded.status(guarded.admin, "GET", ME) == 200


async def test_names_and_errors_are_escaped(guarded: Guarded, browser: Browser) -> None:
    user = {"userName": "o'x@example.com", "displayName": "<script>alert(1)</script>"}
    await guarded.run("POST", f"{CONTROL}/scim2/Users", user, status=201)
    await guarded.group("a<b")
    await browser.log_in(await guarded.token("o'x@example.com"))
    page = await browser.get("/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script" not in page.text
    refused = await browser.post("/tokens/revoke", {"csrf": field("csrf", page.text), "id": "<script>"})
    assert refused.status_code == 404
    assert "<script" not in refused.text


async def test_an_administrator_is_told_so_and_every_address_is_shown(guarded: Guarded, browser: Browser) -> None:
    await browser.log_in(guarded.admin)
    page = (await browser.get("/")).text
    assert "administrator" in page
    for path in ("/iceberg", "/api/2.1/unity-catalog", "/lance", "/delta-sharing"):
        assert f'<code class="address">{guarded.house.ports.public_url}{path}</code>' in page
    assert "token=&quot;moor_…&quot;" in page


async def test_a_server_without_authentication_shows_its_addresses_and_needs_no_login(tmp_path: Path) -> None:
    async with open_house(tmp_path / "data", access=OpenAccess()) as house:
        browser = Browser(house.console.http)
        page = await browser.get("/")
        assert "No login is needed" in page.text
        assert f"{house.ports.public_url}/iceberg" in page.text
        assert "moor_" not in page.text
        assert went_to(await browser.get("/login")) == "/"
        assert went_to(await browser.log_in("x")) == "/"
        assert (await browser.get("/", origin="https://evil.example")).status_code == 403


async def test_failed_logins_are_limited_by_address_and_audited(tmp_path: Path) -> None:
    async with open_guarded(tmp_path / "data", rate_limit=1.0) as guarded:
        browser = Browser(guarded.house.console.http)
        states = [(await browser.log_in(f"moor_{n}")).status_code for n in range(15)]
        assert states[:10] == [401] * 10
        assert 429 in states[10:]
        lines = [line for line in guarded.house.ports.local.accesses if line.operation == "logIn"]
        assert any(line.refusal and "not a token" in line.refusal for line in lines)


async def test_other_paths_keep_their_format(house: House) -> None:
    answer = await house.console.http.get("/nothing", headers={"accept": "text/html"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ROUTE_NOT_FOUND")
