"""Logins by identity providers: what a verified token states about a caller."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Final

import msgspec

from moorage.access.oidc import Claims, Issuers
from moorage.core.errors import Unauthenticated

_LEEWAY_SECONDS: Final = 60
_MAX_AGE_SECONDS: Final = 3600.0
"""Tokens are verified again after this time, so that withdrawn keys are refused."""
_MAX_KNOWN: Final = 10_000


class LoginRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a token must be issued for, and what to read from it."""

    audience: str
    name_claim: str = "email"
    groups_claim: str | None = None
    creates_users: bool = False


class Identity(msgspec.Struct, frozen=True):
    """What a valid token states about its holder."""

    name: str
    external_id: str
    groups: tuple[str, ...]
    expires_at_s: float


class Logins:
    """Identifies callers by tokens of the issuers. A verified token is known by its digest for a while."""

    def __init__(self, issuers: Issuers, rules: LoginRules, *, now_s: Callable[[], float] = time.time) -> None:
        self._issuers = issuers
        self._rules = rules
        self._now_s = now_s
        self._known: dict[bytes, tuple[float, Identity]] = {}

    @property
    def creates_users(self) -> bool:
        return self._rules.creates_users

    async def identify(self, text: str) -> Identity:
        """The holder of a token, or Unauthenticated."""
        digest = hashlib.sha256(text.encode()).digest()
        verified_at, known = self._known.get(digest, (0.0, None))
        if known is None or time.monotonic() - verified_at > _MAX_AGE_SECONDS:
            claims = await self._issuers.verify(text, int(self._now_s() * 1000))
            known = identity_of(claims, self._rules)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[digest] = time.monotonic(), known
        if known.expires_at_s + _LEEWAY_SECONDS <= self._now_s():
            raise Unauthenticated("the token of the identity provider has expired; get a new one")
        return known


def identity_of(claims: Claims, rules: LoginRules) -> Identity:
    """The holder of a token with a valid signature, or Unauthenticated. Pure."""
    audience = claims.get("aud")
    if rules.audience not in (audience if isinstance(audience, list) else [audience]):
        raise Unauthenticated("the token of the identity provider is not valid: it is issued for another audience")
    if not isinstance(claims.get("sub"), str):
        raise Unauthenticated("the token of the identity provider is not valid: it has no claim 'sub'")
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not name:
        raise Unauthenticated(f"the token has no claim '{rules.name_claim}', which names the user")
    if rules.name_claim == "email" and claims.get("email_verified") is False:
        raise Unauthenticated(f"the identity provider has not verified the address '{name}'")
    groups = claims.get(rules.groups_claim, ()) if rules.groups_claim else ()
    named = tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else ()
    return Identity(name, f"{claims['iss']}|{claims['sub']}", named, float(claims["exp"]))
