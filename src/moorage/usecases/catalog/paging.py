"""Page tokens: opaque, authenticated, bound to the list they continue."""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import blake2b

from moorage.core.errors import InvalidInput

LARGEST_PAGE = 1000
_TAG_BYTES = 16


def page_size(asked: int | None, *, default: int = 100, largest: int = LARGEST_PAGE, field: str = "max_results") -> int:
    """How many items a page holds; 0 and none mean the server's choice."""
    if asked is None or asked == 0:
        return default
    if asked < 0:
        raise InvalidInput(f"{field} is negative", field=field)
    return min(asked, largest)


def seal(secret: bytes, scope: str, after: str) -> str:
    """A token that continues the list `scope` after a key."""
    key = after.encode()
    return base64.urlsafe_b64encode(_tag(secret, scope, key) + key).rstrip(b"=").decode()


def unseal(secret: bytes, scope: str, token: str | None, *, field: str = "page_token") -> str:
    """The key a token stands for; no token means the beginning. An edited or foreign one is refused."""
    if not token:
        return ""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        after = raw[_TAG_BYTES:].decode()
        # The text is compared, not the bytes: base64 has several spellings for the same ones.
        if hmac.compare_digest(token, seal(secret, scope, after)):
            return after
    except (binascii.Error, ValueError):
        pass
    raise InvalidInput(f"{field} was not made by this list; start again without it", field=field)


def _tag(secret: bytes, scope: str, key: bytes) -> bytes:
    return blake2b(scope.encode() + b"\0" + key, key=secret, digest_size=_TAG_BYTES).digest()
