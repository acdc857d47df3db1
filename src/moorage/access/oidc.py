"""Tokens of identity providers: which issuers are trusted, and what their tokens say about a caller.

Only configured issuers are asked for their keys, never the one that a token names. The algorithms are fixed here: a
token that could choose its own could choose `none`, or a public key as the secret of a symmetric algorithm.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import jwt
import msgspec

from moorage.core.errors import Unauthenticated, Unavailable
from moorage.core.hosts import is_loopback

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS: Final = 60
_FETCH_SECONDS: Final = 5.0
_MAX_BYTES: Final = 64 * 1024
_REFRESH_SECONDS: Final = 60.0
"""An unknown key id asks the issuer for its keys again, at most this often: anyone can send unknown key ids."""
_MAX_AGE_SECONDS: Final = 3600.0
"""Keys are read again and tokens verified again after this time, so that withdrawn keys are refused."""
_MAX_KNOWN: Final = 10_000


class Issuers(msgspec.Struct, frozen=True, kw_only=True):
    """The trusted issuers, and what to read from their tokens."""

    urls: tuple[str, ...]
    audience: str
    name_claim: str = "email"
    groups_claim: str | None = None
    creates_users: bool = False


class Identity(msgspec.Struct, frozen=True):
    """What a valid token says about its holder."""

    name: str
    external_id: str
    groups: tuple[str, ...]
    expires_at_s: float


class Verifier:
    """Verifies tokens of the issuers. A verified token is known by its digest for a while."""

    def __init__(self, issuers: Issuers, *, now_s: Callable[[], float] = time.time) -> None:
        self._issuers = issuers
        self._now_s = now_s
        self._keys = {url: _Keys(url) for url in issuers.urls}
        self._known: dict[bytes, tuple[float, Identity]] = {}

    @property
    def creates_users(self) -> bool:
        return self._issuers.creates_users

    async def identify(self, text: str) -> Identity:
        """The holder of a token, or Unauthenticated."""
        digest = hashlib.sha256(text.encode()).digest()
        verified_at, known = self._known.get(digest, (0.0, None))
        if known is None or time.monotonic() - verified_at > _MAX_AGE_SECONDS:
            known = await self._verify(text)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[digest] = time.monotonic(), known
        if known.expires_at_s + _LEEWAY_SECONDS <= self._now_s():
            raise Unauthenticated("the token of the identity provider has expired; log in again")
        return known

    async def _verify(self, text: str) -> Identity:
        try:
            header = jwt.get_unverified_header(text)
            unverified = jwt.decode(text, options={"verify_signature": False})
        except jwt.InvalidTokenError:
            raise Unauthenticated("this is not a token of this server or of its identity provider") from None
        keys = self._keys.get(str(unverified.get("iss")))
        if keys is None:
            raise Unauthenticated("the issuer of this token is not one that this server trusts")
        key = await keys.find(header.get("kid"))
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._issuers.audience,
                issuer=keys.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the token of the identity provider is not valid: {error}") from None
        return self._identity(claims)

    def _identity(self, claims: dict[str, Any]) -> Identity:
        name = claims.get(self._issuers.name_claim)
        if not isinstance(name, str) or not name:
            raise Unauthenticated(f"the token has no claim '{self._issuers.name_claim}', which names the user")
        if self._issuers.name_claim == "email" and claims.get("email_verified") is False:
            raise Unauthenticated(f"the identity provider has not verified the address '{name}'")
        groups = claims.get(self._issuers.groups_claim, ()) if self._issuers.groups_claim else ()
        named = tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else ()
        return Identity(name, f"{claims['iss']}|{claims['sub']}", named, float(claims["exp"]))


class _Keys:
    """The keys of one issuer, from its discovery document."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, id: str | None) -> jwt.PyJWK:
        """The key of an id. A token without one is verified by the issuer's only key."""
        age = time.monotonic() - self._fetched
        found = self._of(id)
        if age > _MAX_AGE_SECONDS or (found is None and age > _REFRESH_SECONDS):
            async with self._lock:
                if time.monotonic() - self._fetched >= age:  # no other request has fetched them in the meantime
                    await self._fetch()
            found = self._of(id)
        if found is None:
            raise Unauthenticated("the token is signed with a key that its issuer does not publish")
        return found

    def _of(self, id: str | None) -> jwt.PyJWK | None:
        if id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(id)

    async def _fetch(self) -> None:
        async with httpx.AsyncClient(timeout=_FETCH_SECONDS, follow_redirects=False) as http:
            document = await _read(http, f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            if document.get("issuer") != self.issuer:
                raise Unavailable(f"the discovery document of '{self.issuer}' names another issuer")
            found = await _read(http, require_safe_url(str(document.get("jwks_uri"))))
        self._keys = {key.key_id: key for key in _signing_keys(found)}
        self._fetched = time.monotonic()


def _signing_keys(document: dict[str, Any]) -> list[jwt.PyJWK]:
    """The keys that this server can use. Issuers may publish others, for encryption or with unknown algorithms."""
    found = []
    for each in document.get("keys", ()):
        if isinstance(each, dict) and each.get("use", "sig") == "sig" and each.get("kty") in ("RSA", "EC", "OKP"):
            try:
                found.append(jwt.PyJWK(each))
            except jwt.PyJWTError:
                continue
    return found


async def _read(http: httpx.AsyncClient, url: str) -> dict[str, Any]:
    try:
        async with http.stream("GET", url) as response:
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise Unavailable(f"the response of '{url}' is larger than {_MAX_BYTES} bytes")
        if response.status_code != 200:
            raise Unavailable(f"the identity provider answered '{url}' with status {response.status_code}")
        return msgspec.json.decode(body, type=dict[str, Any])
    except (httpx.HTTPError, msgspec.DecodeError) as error:
        reason = str(error) or type(error).__name__
        raise Unavailable(f"cannot read the keys of the identity provider at '{url}': {reason}") from error


def require_safe_url(url: str) -> str:
    """Return the URL if no one on the way can replace what it serves: with https, or on this machine."""
    parts = httpx.URL(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.host)):
        raise Unavailable(f"the identity provider's address '{url}' must begin with https://")
    return url
