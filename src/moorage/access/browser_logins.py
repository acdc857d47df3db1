"""Logins of browsers at identity providers: the code flow of OpenID Connect with PKCE.

The address of a provider comes from the settings, its endpoints from its own description, and nothing from a token or a
request. The ID token is verified like every other token of a provider. It must also be issued for this server and for
this login.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from moorage.access.logins import Identity, LoginRules, identity_of
from moorage.access.oidc import Claims, Issuers, is_issuer_url
from moorage.core.browsers import LoginAttempt, authorization_url
from moorage.core.errors import InvalidInput, Unauthenticated, Unavailable


class BrowserClient(msgspec.Struct, frozen=True, kw_only=True):
    """How an identity provider knows this server. A public client has no secret."""

    issuer: str
    client_id: str
    client_secret: str | None = None

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"BrowserClient({self.issuer!r}, {self.client_id!r})"


class BrowserLogins:
    """The identity providers at which people log in with a browser."""

    def __init__(
        self,
        issuers: Issuers | None = None,
        clients: Sequence[BrowserClient] = (),
        rules: LoginRules | None = None,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`rules` state what to read from an ID token. Its audience is the id of the client instead of theirs."""
        self._issuers = issuers or Issuers()
        self._clients = {client.issuer: client for client in clients}
        self._rules = rules or LoginRules(audience="")
        self._now_s = now_s

    @property
    def issuers(self) -> tuple[str, ...]:
        return tuple(self._clients)

    @property
    def creates_users(self) -> bool:
        return self._rules.creates_users

    async def authorization_url(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Where the browser logs in."""
        client = self._client(attempt.issuer)
        endpoint = (await self._issuers.discover(client.issuer)).authorization_endpoint
        if endpoint is None or not is_issuer_url(endpoint):
            raise Unavailable(f"the identity provider {client.issuer} names no authorization endpoint")
        return authorization_url(endpoint, attempt, client_id=client.client_id, redirect_uri=redirect_uri)

    async def redeem(self, attempt: LoginAttempt, code: str, redirect_uri: str) -> str:
        """The verified ID token for the code of a login, or Unauthenticated."""
        client = self._client(attempt.issuer)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": client.client_id,
            "code_verifier": attempt.verifier,
        }
        secret = None if client.client_secret is None else (client.client_id, client.client_secret)
        token = await self._issuers.redeem(client.issuer, form, secret)
        claims = await self._verified(token)
        nonce = claims.get("nonce")
        is_of_login = isinstance(nonce, str) and hmac.compare_digest(nonce.encode(), attempt.nonce.encode())
        if claims["iss"] != attempt.issuer or not is_of_login:
            raise Unauthenticated("the identity provider answered another login; log in again")
        return token

    async def identify(self, token: str) -> Identity:
        """The user whom an ID token names, or Unauthenticated."""
        claims = await self._verified(token)
        return identity_of(claims, replace(self._rules, audience=self._clients[claims["iss"]].client_id))

    async def _verified(self, token: str) -> Claims:
        """The claims of an ID token that was issued for this server."""
        claims = await self._issuers.verify(token, int(self._now_s() * 1000))
        client = self._clients.get(claims["iss"])
        party = claims.get("azp")
        if client is None or party not in (None, client.client_id) or not _is_for(client.client_id, claims):
            raise Unauthenticated("the ID token of the identity provider is issued for another application")
        return claims

    def _client(self, issuer: str) -> BrowserClient:
        client = self._clients.get(issuer)
        if client is None:
            raise InvalidInput(
                "no login is configured for this issuer; choose a way to log in on the login page", field="issuer"
            )
        return client


def _is_for(client_id: str, claims: Claims) -> bool:
    """Whether a token is issued for a client. One for several audiences must name the party that it is issued to."""
    audience = claims.get("aud")
    if isinstance(audience, list):
        return client_id in audience and (len(audience) == 1 or claims.get("azp") == client_id)
    return audience == client_id
