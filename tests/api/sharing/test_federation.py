"""Recipients that authenticate with the tokens of an identity provider, which is a real HTTP server in this process."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from moorage.access import oidc
from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.errors import MoorageError, Unauthenticated, Unavailable
from moorage.usecases.sharing.recipients import authenticate
from tests.api.house import House, done, open_house
from tests.api.unity.unity import Unity, invalid


class IdentityProvider:
    """Publishes its keys and signs tokens."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.answers: dict[str, Any] = {}
        self.keys: dict[str, Any] = {}
        self.add_key("a")

    def add_key(self, kid: str) -> None:
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def answer(self, path: str) -> Any:
        if path in self.answers:
            return self.answers[path]
        if path == "/keys":
            public = [
                {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}
                for kid, key in self.keys.items()
            ]
            return {"keys": public}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def token(self, kid: str = "a", *, key: Any = None, algorithm: str = "ES256", **claims: Any) -> str:
        given = {"iss": self.url, "sub": "reader", "aud": "lake", "exp": 2**33, **claims}
        stated = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(stated, self.keys[kid] if key is None else key, algorithm=algorithm, headers={"kid": kid})


@contextmanager
def serving(provider: IdentityProvider) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.requests.append(self.path)
            found = provider.answer(self.path)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(302 if body == b"redirect" else 200)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()
    with serving(provider):
        yield provider


@pytest.fixture
async def house(provider: IdentityProvider, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data", oidc_issuers=provider.url, public_url="https://lake.example") as house:
        yield house


async def recipient(house: House, provider: IdentityProvider, name: str = "ann", **policy: Any) -> None:
    given = {"issuer": provider.url, "subject": "reader", "audiences": ["lake"], **policy}
    body = {"name": name, "authentication_type": "OIDC_FEDERATION", "oidc_policy": given}
    done(await Unity(house.console.http).post("/recipients", body))


async def who(house: House, token: str) -> str:
    return (await authenticate(house.ports, Credential(CredentialScheme.RECIPIENT, token), "192.0.2.7")).name


async def test_a_token_of_the_provider_authenticates_its_recipient(house: House, provider: IdentityProvider) -> None:
    await recipient(house, provider)
    await recipient(house, provider, "bob", subject="other")
    assert await who(house, provider.token()) == "ann"
    assert await who(house, provider.token(sub="other", aud=["x", "lake"])) == "bob"
    assert provider.requests == ["/.well-known/openid-configuration", "/keys"], "the keys are fetched once"


async def test_a_claim_may_be_another_one_and_a_list(house: House, provider: IdentityProvider) -> None:
    await recipient(house, provider, subject_claim="groups", subject="analysts")
    assert await who(house, provider.token(groups=["all", "analysts"])) == "ann"
    with pytest.raises(Unauthenticated):
        await who(house, provider.token(groups=["all"], sub="analysts"))


async def test_without_audiences_the_token_must_be_for_this_server(house: House, provider: IdentityProvider) -> None:
    await recipient(house, provider, audiences=[])
    assert await who(house, provider.token(aud="https://lake.example")) == "ann"
    with pytest.raises(Unauthenticated):
        await who(house, provider.token(aud="https://other.example"))


def signed_with_secret(token: str, secret: str) -> str:
    """The token with an HMAC as its signature. Libraries refuse to make such a token."""
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "a"}).encode()).rstrip(b"=").decode()
    text = f"{head}.{token.split('.')[1]}"
    signature = hmac.digest(secret.encode(), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def forged(provider: IdentityProvider) -> dict[str, str]:
    good = provider.token()
    head, body, signature = good.split(".")
    stranger = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(provider.keys["a"].public_key())
    return {
        "another key": provider.token(key=stranger),
        "another algorithm": provider.token(
            key=rsa.generate_private_key(public_exponent=65537, key_size=2048), algorithm="RS256"
        ),
        "alg none": provider.token(key="", algorithm="none"),
        "the public key as a secret": signed_with_secret(good, public),
        "another issuer": provider.token(iss="https://evil.example"),
        "no issuer": provider.token(iss=None),
        "another audience": provider.token(aud="sea"),
        "no audience": provider.token(aud=None),
        "another subject": provider.token(sub="writer"),
        "no subject": provider.token(sub=None),
        "expired": provider.token(exp=1),
        "no end": provider.token(exp=None),
        "an end that is no number": f"{provider.token(exp=2**33)[:-4]}AAAA",
        "not yet": provider.token(nbf=2**33),
        "without signature": f"{head}.{body}.",
        "a tampered body": f"{head}.{body[:-2]}AA.{signature}",
        "garbage": "a.b.c",
        "dots": "..",
    }


async def test_every_other_token_is_refused(house: House, provider: IdentityProvider) -> None:
    await recipient(house, provider)
    accepted = []
    for name, token in forged(provider).items():
        try:
            await who(house, token)
            accepted.append(name)
        except Unauthenticated:
            pass
    assert accepted == []
    assert await who(house, provider.token()) == "ann"


async def test_the_token_of_a_deleted_or_changed_recipient_is_refused(house: House, provider: IdentityProvider) -> None:
    await recipient(house, provider)
    token = provider.token()
    assert await who(house, token) == "ann"
    unity = Unity(house.console.http)
    policy = {"issuer": provider.url, "subject": "somebody", "audiences": ["lake"]}
    done(await unity.patch("/recipients/ann", {"oidc_policy": policy}))
    with pytest.raises(Unauthenticated):
        await who(house, token)
    done(await unity.patch("/recipients/ann", {"oidc_policy": {**policy, "subject": "reader"}}))
    assert await who(house, token) == "ann"
    done(await unity.delete("/recipients/ann"))
    with pytest.raises(Unauthenticated):
        await who(house, token)


async def test_new_keys_are_looked_for_at_most_once_a_minute(
    house: House, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await recipient(house, provider)
    await who(house, provider.token())
    provider.add_key("b")
    fetched = len(provider.requests)
    results = await asyncio.gather(*[who(house, provider.token("b")) for _ in range(20)], return_exceptions=True)
    assert all(isinstance(result, Unauthenticated) for result in results)
    assert len(provider.requests) == fetched
    monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.0)
    assert await who(house, provider.token("b")) == "ann"


@pytest.mark.parametrize(
    "answers",
    [
        {"/.well-known/openid-configuration": {"issuer": "https://evil.example", "jwks_uri": "https://evil.example/k"}},
        {"/.well-known/openid-configuration": b"not json"},
        {"/.well-known/openid-configuration": b"redirect"},
        {"/keys": {"keys": []}},
        {"/keys": b" " * 70_000},
    ],
    ids=["another issuer", "not json", "redirect", "no keys", "too large"],
)
async def test_a_provider_that_answers_wrongly_authenticates_no_recipient(
    house: House, provider: IdentityProvider, answers: dict[str, Any]
) -> None:
    await recipient(house, provider)
    provider.answers = answers
    with pytest.raises(MoorageError) as error:
        await who(house, provider.token())
    assert isinstance(error.value, Unavailable | Unauthenticated)
    assert not any("elsewhere" in path for path in provider.requests)


async def test_only_issuers_of_the_settings_are_accepted(house: House, provider: IdentityProvider) -> None:
    policy = {"issuer": "https://evil.example", "subject": "x"}
    body = {"name": "eve", "authentication_type": "OIDC_FEDERATION", "oidc_policy": policy}
    message = invalid(await Unity(house.console.http).post("/recipients", body))
    assert f"is not one of those that this server trusts ({provider.url}); add it to --oidc-issuers" in message
