"""What keeps the pages for browsers safe."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from moorage.core.browsers import (
    LoginAttempt,
    authorization_url,
    challenge_of,
    form_token,
    is_form_token,
    is_own_form,
    local_path,
    open_attempt,
    seal_attempt,
)

URL = "https://lake.example.com"


@pytest.mark.parametrize("path", ["/", "/a", "/a/b?c=d&e=%20f#g", "/a//b", "/@b"])
def test_a_local_path_is_kept(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "a",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/a\\b",
        "https://evil.example",
        "https:/evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "\t//evil.example",
        "/\n/evil.example",
        "/\r\nset-cookie: a=b",
        "/\x00",
        "/é",
        "/" + "a" * 2000,
    ],
)
def test_everything_else_leads_to_the_first_page(text: str | None) -> None:
    assert local_path(text) == "/"


def test_a_form_token_belongs_to_one_session_and_one_ledger() -> None:
    token = form_token(b"secret", "moorage=a")
    assert is_form_token(b"secret", "moorage=a", token)
    assert not is_form_token(b"secret", "moorage=b", token)
    assert not is_form_token(b"other", "moorage=a", token)
    assert not is_form_token(b"secret", "moorage=a", "é")
    assert not is_form_token(b"secret", "moorage=a", "")


@pytest.mark.parametrize(
    ("site", "origin", "host"),
    [
        ("same-origin", None, None),
        ("same-origin", "null", None),
        (None, URL, None),
        (None, "https://LAKE.example.com", None),
        (None, "http://127.0.0.1:8080", "127.0.0.1:8080"),
    ],
)
def test_forms_of_own_pages_are_accepted(site: str | None, origin: str | None, host: str | None) -> None:
    assert is_own_form(site, origin, host=host, public_url=URL)


@pytest.mark.parametrize(
    ("site", "origin", "host"),
    [
        ("cross-site", URL, None),
        ("same-site", URL, None),
        ("none", URL, None),
        ("", URL, None),
        (None, None, None),
        (None, None, ""),
        (None, "null", "null"),
        (None, "", ""),
        (None, "http://lake.example.com", "other"),
        (None, "https://lake.example.com.evil.example", None),
        (None, "https://evil.example", "lake.example.com"),
        (None, "http://127.0.0.1:8081", "127.0.0.1:8080"),
        (None, "https://[", "lake.example.com"),
    ],
)
def test_forms_of_other_pages_are_refused(site: str | None, origin: str | None, host: str | None) -> None:
    assert not is_own_form(site, origin, host=host, public_url=URL)


ATTEMPT = LoginAttempt(issuer="https://i", state="s", nonce="n", verifier="v", next="/", expires_at_ms=1000)


def test_a_challenge_is_that_of_the_example_in_rfc_7636() -> None:
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_an_attempt_is_opened_with_its_secret_and_state_before_it_expires() -> None:
    sealed = seal_attempt(b"secret", ATTEMPT)
    assert open_attempt(b"secret", sealed, state="s", now_ms=999) == ATTEMPT
    assert open_attempt(b"secret", sealed, state="s", now_ms=1000) is None
    assert open_attempt(b"secret", sealed, state="t", now_ms=0) is None
    assert open_attempt(b"secret", sealed, state="", now_ms=0) is None
    assert open_attempt(b"other", sealed, state="s", now_ms=0) is None


@pytest.mark.parametrize("edit", [lambda text: text[1:], lambda text: text[:-1], lambda text: "x" + text, lambda _: ""])
def test_an_edited_attempt_is_refused(edit: Callable[[str], str]) -> None:
    assert open_attempt(b"secret", edit(seal_attempt(b"secret", ATTEMPT)), state="s", now_ms=0) is None


def test_a_form_token_is_no_signature_of_an_attempt() -> None:
    text = seal_attempt(b"secret", ATTEMPT).partition(".")[0]
    assert open_attempt(b"secret", f"{text}.{form_token(b'secret', text)}", state="s", now_ms=0) is None


def test_an_authorization_request_does_not_contain_the_verifier() -> None:
    url = authorization_url("https://i/a?b=c", ATTEMPT, client_id="id", redirect_uri="https://l/login/callback")
    query = parse_qs(urlsplit(url).query)
    assert query["b"] == ["c"]
    assert query["code_challenge"] == [challenge_of("v")]
    assert query["code_challenge_method"] == ["S256"]
    assert (query["state"], query["nonce"], query["client_id"]) == (["s"], ["n"], ["id"])
    assert ["v"] not in query.values()
