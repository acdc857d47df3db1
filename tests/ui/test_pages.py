"""The pages in a real browser, Chromium: log in, create a token and use it, log out, and what other sites cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from moorage.client import Client
from moorage.testing.server import ServerProcess
from scripts.machine import CHROMIUM
from tests.api.control.issuer import Issuer

pytestmark = pytest.mark.xdist_group("browser")

PATIENCE_MS = 60_000
TOKEN = re.compile(r"moor_[A-Za-z0-9_-]+")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = CHROMIUM.find()
    assert program is not None, "Chromium is missing: run make setup"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """A provider on another site than the server, as the browser sees it."""
    with Issuer(host="localhost") as issuer:
        yield issuer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[ServerProcess]:
    flags = ["--auth", "on", "--oidc-issuers", issuer.url, "--oidc-client-id", "web", "--oidc-create-users", "true"]
    with ServerProcess(tmp_path_factory.mktemp("pages") / "data", flags=flags) as server:
        yield server


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield context.new_page()
    context.close()


def admin_token(server: ServerProcess) -> str:
    found = TOKEN.search(server.output())
    assert found is not None
    return found[0]


def log_in(page: Page, server: ServerProcess) -> None:
    page.goto(server.url)
    page.get_by_label("Token").fill(admin_token(server))
    page.get_by_role("button", name="Log in with the token").click()
    expect(page.get_by_role("heading", name="admin", exact=True)).to_be_visible()


def test_a_person_logs_in_with_a_token_creates_another_and_logs_out(page: Page, server: ServerProcess) -> None:
    log_in(page, server)
    expect(page.get_by_text(f"{server.url}/iceberg", exact=True)).to_be_visible()
    page.get_by_label("Used for").fill("notebook")
    page.get_by_role("button", name="Create token").click()
    token = page.locator("#new-token").inner_text()
    with Client(server.url, token=token) as moorage:
        moorage.catalogs.create("harbour")
    page.get_by_role("row", name="notebook").get_by_text("Revoke", exact=True).click()
    page.get_by_role("button", name="Revoke notebook now").click()
    expect(page.get_by_role("row", name="notebook")).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(server.url)
    page.wait_for_url(f"{server.url}/login")


def test_a_person_logs_in_at_the_provider(page: Page, server: ServerProcess, issuer: Issuer) -> None:
    page.goto(f"{server.url}/login")
    page.get_by_role("link", name="Log in with localhost").click()
    expect(page.get_by_role("heading", name="ann@example.com")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie.get("name"), cookie.get("httpOnly"), cookie.get("sameSite")) == ("moorage", True, "Lax")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.context.cookies() == []


def test_another_site_can_neither_frame_the_pages_nor_send_their_forms(
    page: Page, server: ServerProcess, issuer: Issuer
) -> None:
    log_in(page, server)
    page.goto(f"{issuer.url}/keys")
    page.set_content(f'<iframe src="{server.url}/login"></iframe>')
    while not page.frames[1].url:  # the browser has not answered the request of the frame yet
        page.wait_for_timeout(50)
    assert [frame.url for frame in page.frames[1:]] == ["chrome-error://chromewebdata/"]
    expect(page.frame_locator("iframe").get_by_label("Token")).to_have_count(0)
    for path in ("/login", "/tokens", "/logout"):
        page.goto(f"{issuer.url}/keys")
        page.set_content(f'<form method="post" action="{server.url}{path}"><button>Win a boat</button></form>')
        with page.expect_response(f"{server.url}{path}") as sent:
            page.get_by_role("button").click()
        # A form of another site carries no cookie, and a login needs none: it is refused as the form of another site.
        assert sent.value.status == (403 if path == "/login" else 401), path
    page.goto(server.url)
    expect(page.get_by_role("heading", name="admin", exact=True)).to_be_visible()


def test_no_page_breaks_its_own_policy(page: Page, server: ServerProcess) -> None:
    """A style that the policy refuses would be in the console, and the page would be plain."""
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.emulate_media(color_scheme="dark")
    log_in(page, server)
    assert [text for text in messages if "Content Security Policy" in text] == []
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(14, 23, 28)"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "a phone shows the whole width"
