"""Tokens of identity providers: verified with the keys that the provider publishes.

Only the issuers that the settings name are asked for keys, never one that a token names. Keys are fetched once and kept
for an hour; a token with an unknown key makes the server look for new keys, at most once a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from moorage.core.errors import Unauthenticated, Unavailable
from moorage.core.hosts import is_loopback

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Only algorithms with a public key: with a shared secret, a provider's public key could be used to forge tokens."""
_KEPT_SECONDS: Final = 3600.0
_REFRESH_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 64 * 1024
_LEEWAY_MS: Final = 60_000
_INVALID: Final = "the token of the identity provider is not valid"

Claims = dict[str, Any]


class Discovered(msgspec.Struct, frozen=True):
    """What a provider states about itself."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None


class _TokenAnswer(msgspec.Struct, frozen=True):
    id_token: str | None = None
    error: str | None = None


class Issuers:
    """The identity providers whose tokens this server verifies."""

    def __init__(self, *urls: str) -> None:
        self._by_url = {url: _Issuer(url) for url in urls}

    def __contains__(self, url: str) -> bool:
        return url in self._by_url

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(self._by_url)

    async def discover(self, url: str) -> Discovered:
        """What a provider that the settings name states about itself. Unavailable if it cannot be reached."""
        return await self._by_url[url].discover()

    async def redeem(self, url: str, form: Mapping[str, str], client: tuple[str, str] | None) -> str:
        """The ID token for a code, not verified, or Unauthenticated. `client`: an id and a secret, if it has one."""
        return await self._by_url[url].redeem(form, client)

    async def verify(self, token: str, now_ms: int) -> Claims:
        """The claims of a token with a valid signature and valid times, or Unauthenticated.

        The audience is not checked: it depends on what the token is used for.
        """
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            stated = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except jwt.PyJWTError:
            raise Unauthenticated(_INVALID) from None
        issuer = self._by_url.get(stated) if isinstance(stated, str) else None
        if issuer is None or header.get("alg") not in ALGORITHMS:
            raise Unauthenticated(_INVALID)
        key = await issuer.key(str(header.get("kid", "")))
        if key is None:
            raise Unauthenticated(_INVALID)
        # The times are compared below, with the clock of this server's ledger.
        options: Any = {"verify_aud": False, "verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            claims: Claims = jwt.decode(token, key, algorithms=list(ALGORITHMS), issuer=issuer.url, options=options)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise Unauthenticated(_INVALID) from None
        _require_times(claims, now_ms)
        return claims


def _require_times(claims: Claims, now_ms: int) -> None:
    expires, begins = _time(claims.get("exp")), _time(claims.get("nbf", 0))
    if expires is None or begins is None:
        raise Unauthenticated(f"{_INVALID}: it states no time at which it expires")
    if now_ms >= expires * 1000 + _LEEWAY_MS:
        raise Unauthenticated("the token of the identity provider has expired; get a new one")
    if now_ms < begins * 1000 - _LEEWAY_MS:
        raise Unauthenticated(_INVALID)


def _time(value: object) -> float | None:
    """Seconds since 1970; None if the value is no time."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class _Issuer:
    """One provider and its keys."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._keys: dict[str, PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._failure: str | None = None
        """Why the last attempt to read the keys failed."""
        self._described: tuple[float, Discovered] | None = None
        self._lock = asyncio.Lock()

    async def key(self, kid: str) -> PyJWK | None:
        """The key with this id; None if the provider has none. Unavailable if the provider cannot be reached.

        While it cannot be reached, the keys that are known stay valid.
        """
        if self._is_stale() or kid not in self._keys:
            async with self._lock:
                now = time.monotonic()
                if (self._is_stale() or kid not in self._keys) and now - self._tried_at >= _REFRESH_SECONDS:
                    self._tried_at = now
                    await self._refresh(now)
        key = self._keys.get(kid)
        if key is None and self._failure is not None:
            raise Unavailable(self._failure)  # a 401 would tell the client that its token is invalid
        return key

    async def _refresh(self, now: float) -> None:
        try:
            self._keys = await self._fetch()
        except Unavailable as error:
            self._failure = error.message
        else:
            self._fetched_at, self._failure = now, None

    def _is_stale(self) -> bool:
        return time.monotonic() - self._fetched_at > _KEPT_SECONDS

    async def _fetch(self) -> dict[str, PyJWK]:
        from jwt import PyJWKSet
        from jwt.exceptions import PyJWKSetError

        found = await self._fetch_description()
        try:
            keys = PyJWKSet.from_dict(msgspec.json.decode(await self._get(found.jwks_uri), type=dict[str, Any]))
        except (msgspec.DecodeError, PyJWKSetError) as error:
            raise Unavailable(f"the identity provider {self.url} publishes no keys that can be read: {error}") from None
        return {key.key_id: key for key in keys.keys if key.key_id and key.public_key_use in (None, "sig")}

    async def discover(self) -> Discovered:
        """Its description, which is kept for as long as its keys."""
        if self._described is None or time.monotonic() - self._described[0] > _KEPT_SECONDS:
            self._described = time.monotonic(), await self._fetch_description()
        return self._described[1]

    async def _fetch_description(self) -> Discovered:
        document = await self._get(f"{self.url.rstrip('/')}/.well-known/openid-configuration")
        try:
            found = msgspec.json.decode(document, type=Discovered)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"the identity provider {self.url} has no description that can be read: {error}"
            ) from None
        if found.issuer != self.url or not is_issuer_url(found.jwks_uri):
            raise Unavailable(f"the identity provider {self.url} describes itself as {found.issuer!r}; check its URL")
        return found

    async def redeem(self, form: Mapping[str, str], client: tuple[str, str] | None) -> str:
        endpoint = (await self.discover()).token_endpoint
        if endpoint is None or not is_issuer_url(endpoint):
            raise Unavailable(f"the identity provider {self.url} names no token endpoint")
        body = await self._ask("POST", endpoint, form=form, client=client)
        try:
            answer = msgspec.json.decode(body, type=_TokenAnswer)
        except msgspec.DecodeError:
            raise Unavailable(f"the token endpoint of {self.url} gave an answer that cannot be read") from None
        if answer.id_token is None:
            reason = "" if answer.error is None else f": {answer.error[:60]!r}"
            raise Unauthenticated(f"the identity provider did not confirm the login{reason}; log in again")
        return answer.id_token

    async def _get(self, url: str) -> bytes:
        return await self._ask("GET", url)

    async def _ask(
        self, verb: str, url: str, *, form: Mapping[str, str] | None = None, client: tuple[str, str] | None = None
    ) -> bytes:
        """The body of an answer. An error of a token endpoint has a body that states it."""
        import httpx

        body = b""
        # OAuth encodes both parts before they are joined by a colon.
        auth = None if client is None else httpx.BasicAuth(quote(client[0], safe=""), quote(client[1], safe=""))
        try:
            async with (
                httpx.AsyncClient(
                    timeout=_TIMEOUT_SECONDS, follow_redirects=False, trust_env=not _is_local(url)
                ) as http,
                http.stream(verb, url, data=form, auth=auth) as answer,
            ):
                if form is None or answer.status_code not in (400, 401):
                    answer.raise_for_status()
                if answer.is_redirect:
                    raise Unavailable(f"the identity provider {self.url} redirects {url}; state its final URL")
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise Unavailable(f"{url} is larger than {_MAX_BYTES} bytes")
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"the identity provider {self.url} cannot be reached: {reason}") from None
        return body


def _is_local(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def is_issuer_url(url: str) -> bool:
    """Whether keys may be fetched from there: https, or http on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and _is_local(url)))
