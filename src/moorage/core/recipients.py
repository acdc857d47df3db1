"""Recipients of shares: their tokens, their addresses, and what they were granted. Pure: no clock, no randomness.

A token is a secret that only its holder has. The record of a recipient contains a digest of it, so neither the
database nor the feed reveals it. The secret has 256 random bits, so a plain SHA-256 needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.networks import is_among
from moorage.core.securables import Doc, Securable

Authentication: TypeAlias = Literal["TOKEN", "OIDC_FEDERATION"]

MAX_TOKENS: Final = 2
"""Two tokens are valid during a rotation: the former one until its end, and the new one."""
MAX_GRANTS: Final = 1_000
MAX_PROPERTIES: Final = 50
MAX_PROPERTY_KEY: Final = 255
MAX_PROPERTY_VALUE: Final = 1_000
MAX_COMMENT: Final = 65_536

_TOKEN: Final = re.compile(r"moor_([0-9a-f]{32})_[A-Za-z0-9_-]{43}")
UNKNOWN: Final = "the token is not valid; use the newest profile file, or ask the provider of the share for a new one"


class Recipient(Caller, frozen=True, kw_only=True):
    """An authenticated recipient. It is no principal of the catalog: it reads its shares, and nothing else."""

    shares: frozenset[SecurableId] = frozenset()
    """The shares that were granted. One of them may have been dropped since."""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    address: str = ""
    """The IP address that the request came from."""


class RecipientToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One token of a recipient. It has no secret before its activation link is used."""

    id: str
    created_at_ms: int
    created_by: str
    expires_at_ms: int
    digest: str | None = None
    activated_at_ms: int | None = None

    @property
    def is_activated(self) -> bool:
        return self.digest is not None

    def is_valid(self, now_ms: int) -> bool:
        return now_ms < self.expires_at_ms


class OidcPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens of an identity provider authenticate the recipient."""

    issuer: str
    subject_claim: str
    subject: str
    audiences: tuple[str, ...] = ()


class RecipientDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The details in the record of a recipient."""

    authentication: Authentication = "TOKEN"
    tokens: tuple[RecipientToken, ...] = ()
    """Ascending by creation."""
    shares: tuple[SecurableId, ...] = ()
    """The shares that were granted. One that was dropped since stays here, and an undrop makes it readable again."""
    addresses: tuple[str, ...] = ()
    """The IP addresses and networks that requests may come from. Empty: any."""
    oidc: OidcPolicy | None = None


def details_of(recipient: Securable) -> RecipientDetails:
    return msgspec.convert(recipient.doc.details, RecipientDetails)


def with_details(doc: Doc, details: RecipientDetails) -> Doc:
    return replace(doc, details=msgspec.to_builtins(details))


def token_text(recipient: SecurableId, secret: str) -> str:
    """A token as its holder sends it. It names the recipient, so that one read finds it."""
    return f"moor_{recipient.replace('-', '')}_{secret}"


def recipient_of_token(text: str) -> SecurableId | None:
    """The recipient that a token claims to be from; None if the text is no token of this server."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    digits = match[1]
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return SecurableId("-".join(parts))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def require_token(details: RecipientDetails, text: str, now_ms: int) -> None:
    """Raise Unauthenticated unless the text is a valid token of the recipient."""
    digest = digest_of(text)
    found = None
    for token in details.tokens:
        if hmac.compare_digest(token.digest or "", digest):
            found = token
    if found is None:
        raise Unauthenticated(UNKNOWN)
    if not found.is_valid(now_ms):
        raise Unauthenticated("the token has expired; ask the provider of the share to rotate it")


def rotated(
    tokens: Sequence[RecipientToken], new: RecipientToken, *, now_ms: int, grace_ms: int
) -> tuple[RecipientToken, ...]:
    """The tokens after a rotation: the former one stays valid for the grace period, the new one waits for activation.

    Links that were never used stop to work, because the new link replaces them.
    """
    until_ms = now_ms + grace_ms
    former = [token for token in tokens if token.is_activated and token.is_valid(now_ms)] if grace_ms > 0 else []
    if len(former) >= MAX_TOKENS:
        raise InvalidInput(
            f"the recipient has {len(former)} valid tokens, because its last rotation has not ended; "
            "set existing_token_expire_in_seconds to 0 to end both now",
            field="existing_token_expire_in_seconds",
        )
    return (*(replace(token, expires_at_ms=min(token.expires_at_ms, until_ms)) for token in former), new)


def activated(tokens: Sequence[RecipientToken], id: str, digest: str, now_ms: int) -> tuple[RecipientToken, ...]:
    """The tokens after the activation link of one of them was used."""
    return tuple(replace(token, digest=digest, activated_at_ms=now_ms) if token.id == id else token for token in tokens)


def is_allowed_from(addresses: Sequence[str], address: str) -> bool:
    """Whether a request from this address is allowed. Without a list, every address is."""
    return not addresses or is_among(addresses, address)


def granted(shares: Sequence[SecurableId], share: SecurableId) -> tuple[SecurableId, ...]:
    if share in shares:
        return tuple(shares)
    if len(shares) >= MAX_GRANTS:
        raise InvalidInput(f"a recipient has at most {MAX_GRANTS} shares", field="changes")
    return (*shares, share)


def require_text(text: str | None, field: str, limit: int) -> str | None:
    """Return a text unchanged if clients can show all of it, or raise InvalidInput."""
    if text is not None and len(text) > limit:
        raise InvalidInput(f"{field} has {len(text)} characters; at most {limit} are allowed", field=field)
    return text


def require_properties(properties: Mapping[str, str], field: str) -> dict[str, str]:
    """Return properties unchanged if they are within the limits of the protocol, or raise InvalidInput."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidInput(f"{field} has {len(properties)} entries; at most {MAX_PROPERTIES} are allowed", field=field)
    for key, value in properties.items():
        require_text(key, f"a key of {field}", MAX_PROPERTY_KEY)
        require_text(value, f"{field}.{key}", MAX_PROPERTY_VALUE)
    return dict(properties)
