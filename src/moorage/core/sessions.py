"""Session tokens: short-lived, signed, and bound to the token or principal that they were issued for.

They are not stored. Each use reads the object that they name, so they end when it does: with a revoked token or a
deactivated user, at the latest when they expire.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from moorage.core.ids import SecurableId

LIFETIME_SECONDS: Final = 3600

_FORM = re.compile(r"moor_([0-9a-f]{32})_x([0-9a-f]{10})_[A-Za-z0-9_-]{43}")


class Session(NamedTuple):
    """A session token with a valid signature."""

    id: SecurableId
    expires_at_s: int


def session_key(secret: bytes) -> bytes:
    """The signing key, from a secret that all servers of a ledger share. It differs from the secret's other uses."""
    return hmac.digest(secret, b"moorage session tokens", hashlib.sha256)


def new_session(key: bytes, id: SecurableId, expires_at_s: int) -> str:
    return _signed(key, f"moor_{id.replace('-', '')}_x{expires_at_s:010x}")


def parse_session(key: bytes, text: str) -> Session | None:
    """The session, or None if the text is not a session token that was signed with this key."""
    found = _FORM.fullmatch(text)
    if found is None or not hmac.compare_digest(_signed(key, text[: found.end(2)]), text):
        return None
    digits = found[1]
    id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return Session(SecurableId(id), int(found[2], 16))


def _signed(key: bytes, text: str) -> str:
    signature = urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode().rstrip("=")
    return f"{text}_{signature}"
