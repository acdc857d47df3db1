"""Tokens of identity providers, with an issuer of our own: what is accepted, and every way to forge one."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives import serialization
from msgspec.structs import force_setattr

from moorage.access import logins, oidc
from moorage.access.granted import GrantedAccess
from moorage.access.logins import LoginRules, Logins
from moorage.access.oidc import Issuers
from moorage.testing import builders as make
from tests.api.control.guarded import CONTROL, UNITY, Guarded, open_guarded
from tests.api.control.issuer import AUDIENCE, Issuer, Key
from tests.api.house import done

ME = f"{CONTROL}/scim2/Me"
ANN = "ann@example.com"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


def trust(guarded: Guarded, *issuers: Issuer, **how: Any) -> None:
    known = Issuers(*(each.url for each in issuers))
    logins = Logins(known, LoginRules(audience=AUDIENCE, groups_claim="groups", **how))
    ports = guarded.house.ports
    access = GrantedAccess(ports.ledger, ports.page_secret, logins=logins, now_ms=guarded.house.clock)
    force_setattr(ports, "access", access)


@pytest.fixture
async def trusting(tmp_path: Path, issuer: Issuer) -> AsyncIterator[Guarded]:
    """A server that trusts the issuer and has the user ann."""
    async with open_guarded(tmp_path / "data") as guarded:
        trust(guarded, issuer)
        await guarded.user(ANN)
        yield guarded


async def test_a_token_of_the_issuer_authenticates_its_user(trusting: Guarded, issuer: Issuer) -> None:
    assert done(await trusting.ask(issuer.token(), "GET", ME))["userName"] == ANN
    for _ in range(3):
        assert await trusting.status(issuer.token(sub="1", n=_), "GET", ME) == 200
    assert issuer.requests == 1, "its keys are cached"


def unsigned(claims: dict[str, Any], header: dict[str, Any]) -> str:
    return ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims)) + "."


def signed_by_secret(claims: dict[str, Any], secret: bytes) -> str:
    """A token that is signed symmetrically. The library refuses to make one with a public key as its secret."""
    text = unsigned(claims, {"alg": "HS256", "kid": "k1"}).removesuffix(".")
    return f"{text}.{_encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


async def test_forged_tokens_are_refused(trusting: Guarded, issuer: Issuer) -> None:
    now = int(time.time())
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "1", "email": ANN, "exp": now + 600}
    public = (
        issuer.keys[0]
        .private.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    good = issuer.token()
    with Issuer() as other:
        forged = {
            "alg none": unsigned(claims, {"alg": "none", "typ": "JWT"}),
            "alg none with a key id": unsigned(claims, {"alg": "none", "kid": "k1"}),
            "the public key as a secret": signed_by_secret(claims, public),
            "another key under the same id": issuer.token(key=Key("k1")),
            "an unknown key": issuer.token(key=Key("k9")),
            "another issuer": other.token(),
            "a token of another issuer that names this one": other.token(iss=issuer.url),
            "another audience": issuer.token(aud="other"),
            "no audience": issuer.token(aud=None),
            "no end": issuer.token(exp=None),
            "expired": issuer.token(exp=now - 3600),
            "not valid yet": issuer.token(nbf=now + 3600),
            "no subject": issuer.token(sub=None),
            "no name": issuer.token(email=None),
            "a name that is a list": issuer.token(email=[ANN]),
            "an unverified address": issuer.token(email_verified=False),
            "an unknown user": issuer.token(email="eve@example.com"),
            "the first administrator by its name": issuer.token(email="admin"),
            "a group": issuer.token(email="admins"),
            "cut off": good[:-2],
            "an edited claim": good.replace(good.split(".")[1], good.split(".")[1][::-1]),
            "a key address in the header": issuer.token(
                key=other.keys[0], header={"jku": f"{other.url}/keys", "kid": "k1"}
            ),
        }
        for what, token in forged.items():
            answer = await trusting.ask(token, "GET", ME)
            assert answer.status_code == 401, what
            assert token not in answer.text
        assert other.requests == 0, "the server asks no issuer that it does not trust"


async def test_keys_are_rotated_and_unknown_ids_do_not_flood_the_issuer(
    trusting: Guarded, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await trusting.status(issuer.token(), "GET", ME) == 200
    issuer.keys.append(Key("k2"))
    for _ in range(5):
        assert await trusting.status(issuer.token(n=_), "GET", ME) == 401, "the keys were read less than a minute ago"
    assert issuer.requests == 1
    monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.0)
    assert await trusting.status(issuer.token(n=9), "GET", ME) == 200
    withdrawn = issuer.keys.pop(0)
    monkeypatch.setattr(oidc, "_KEPT_SECONDS", 0.0)
    monkeypatch.setattr(logins, "_MAX_AGE_SECONDS", 0.0)
    assert await trusting.status(issuer.token(key=withdrawn), "GET", ME) == 401


async def test_an_outage_of_the_issuer_refuses_no_token_as_invalid(
    trusting: Guarded, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, own = issuer.token(), issuer.stated_issuer
    issuer.stated_issuer = "https://down.example.com"
    assert [await trusting.status(token, "GET", ME) for _ in range(3)] == [503] * 3, "it may be valid"
    issuer.stated_issuer = own
    monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.0)
    assert await trusting.status(token, "GET", ME) == 200
    issuer.stated_issuer = "https://down.example.com"
    monkeypatch.setattr(oidc, "_KEPT_SECONDS", 0.0)
    monkeypatch.setattr(logins, "_MAX_AGE_SECONDS", 0.0)
    assert await trusting.status(token, "GET", ME) == 200, "its keys are known"
    assert await trusting.status(issuer.token(key=Key("k9")), "GET", ME) == 503


async def test_groups_come_from_a_claim_but_administrators_do_not(trusting: Guarded, issuer: Issuer) -> None:
    await trusting.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
    await trusting.group("outer")
    await trusting.group("readers", "outer")
    body = {"changes": [{"principal": "outer", "add": ["USE CATALOG"]}]}
    await trusting.run("PATCH", f"{UNITY}/permissions/catalog/lake", body)
    assert await trusting.status(issuer.token(), "GET", f"{UNITY}/catalogs/lake") == 404
    assert await trusting.status(issuer.token(groups=["readers", 7]), "GET", f"{UNITY}/catalogs/lake") == 200
    assert await trusting.status(issuer.token(groups="readers"), "GET", f"{UNITY}/catalogs/lake") == 404
    assert await trusting.status(issuer.token(groups=["admins", "Admins"]), "GET", f"{CONTROL}/scim2/Users") == 403


async def test_users_are_created_with_their_first_login_if_that_is_allowed(trusting: Guarded, issuer: Issuer) -> None:
    new = issuer.token(email="new@example.com", sub="7")
    assert await trusting.status(new, "GET", ME) == 401
    trust(trusting, issuer, creates_users=True)
    assert done(await trusting.ask(new, "GET", ME))["externalId"] == f"{issuer.url}|7"
    other = issuer.token(email="new@example.com", sub="8")
    assert await trusting.status(other, "GET", ME) == 401, "another account with the same address"
    assert await trusting.status(issuer.token(email="local", sub="9"), "GET", ME) == 401, "a reserved name"


async def test_an_external_id_of_a_scim_client_does_not_keep_its_user_out(trusting: Guarded, issuer: Issuer) -> None:
    """Okta and Entra ID send ids of their own, which are not the subjects of their tokens."""
    for name, external_id in (("bob@example.com", "00u1abcd"), ("eve@example.com", f"{issuer.url}|7")):
        body = {"userName": name, "externalId": external_id}
        await trusting.run("POST", f"{CONTROL}/scim2/Users", body, status=201)
    assert await trusting.status(issuer.token(email="bob@example.com", sub="3"), "GET", ME) == 200
    assert await trusting.status(issuer.token(email="eve@example.com", sub="3"), "GET", ME) == 401, "bound to another"
    assert await trusting.status(issuer.token(email="eve@example.com", sub="7"), "GET", ME) == 200


async def test_each_of_several_issuers_has_its_own_keys_and_accounts(trusting: Guarded, issuer: Issuer) -> None:
    with Issuer() as second:
        trust(trusting, issuer, second, creates_users=True)
        for number, each in enumerate((issuer, second)):
            token = each.token(email=f"new{number}@example.com", sub="7")
            assert done(await trusting.ask(token, "GET", ME))["externalId"] == f"{each.url}|7"
        same = second.token(email="new0@example.com", sub="7")
        assert await trusting.status(same, "GET", ME) == 401, "the user of another issuer"
        forged = issuer.token(iss=second.url, email="new1@example.com", sub="7")
        assert await trusting.status(forged, "GET", ME) == 401, "signed by another issuer"


async def test_a_deactivated_user_is_refused_with_a_valid_token(trusting: Guarded, issuer: Issuer) -> None:
    token = issuer.token()
    assert await trusting.status(token, "GET", ME) == 200
    off = {"Operations": [{"op": "replace", "path": "active", "value": False}]}
    await trusting.run("PATCH", f"{CONTROL}/scim2/Users/{trusting.ids[ANN]}", off)
    assert await trusting.status(token, "GET", ME) == 401


async def test_a_token_of_the_issuer_is_exchanged_for_a_session(trusting: Guarded, issuer: Issuer) -> None:
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": issuer.token(),
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
    }
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = await trusting.house.console.http.post(f"{CONTROL}/auth/tokens", content=urlencode(form), headers=headers)
    session = done(answer)["access_token"]
    assert done(await trusting.ask(session, "GET", ME))["userName"] == ANN


async def test_a_session_of_the_issuer_is_not_extended_without_it(trusting: Guarded, issuer: Issuer) -> None:
    """Otherwise a session that was stolen once would be valid for ever."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    headers = {"content-type": "application/x-www-form-urlencoded"}
    post = trusting.house.console.http.post
    content = urlencode({**form, "subject_token": issuer.token()})
    first = done(await post(f"{CONTROL}/auth/tokens", content=content, headers=headers))["access_token"]
    trusting.house.clock.advance(make.HOUR_MS // 2)
    content = urlencode({**form, "subject_token": first})
    second = done(await post(f"{CONTROL}/auth/tokens", content=content, headers=headers))
    assert second["expires_in"] == 1800
    assert await trusting.status(second["access_token"], "GET", ME) == 200
    trusting.house.clock.advance(make.HOUR_MS // 2)
    assert await trusting.status(second["access_token"], "GET", ME) == 401


async def test_who_logs_in_at_the_issuer_creates_tokens_for_any_time(trusting: Guarded, issuer: Issuer) -> None:
    assert await trusting.status(issuer.token(), "POST", f"{CONTROL}/tokens", {"lifetime_days": 365}) == 201


async def test_a_discovery_document_of_another_issuer_is_refused(trusting: Guarded, issuer: Issuer) -> None:
    issuer.stated_issuer = "https://other.example.com"
    assert await trusting.status(issuer.token(), "GET", ME) == 503


def test_keys_are_fetched_over_https_or_from_this_machine() -> None:
    for url in ("http://example.com/keys", "ftp://127.0.0.1/keys", "file:///etc/passwd"):
        assert not oidc.is_issuer_url(url)
    for url in ("https://example.com/keys", "http://127.0.0.1:1/keys"):
        assert oidc.is_issuer_url(url)
