"""Page tokens: opaque, authenticated, bound to the list they continue."""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import blake2b

from moorage.core.errors import InvalidInput

MAX_PAGE_SIZE = 1000
_TAG_BYTES = 16


def page_size(
    requested: int | None, *, default: int = 100, largest: int = MAX_PAGE_SIZE, field: str = "max_results"
) -> int:
    """The number of items on a page. None and 0 mean the default of the server."""
    if requested is None or requested == 0:
        return default
    if requested < 0:
        raise InvalidInput(f"{field} is negative", field=field)
    return min(requested, largest)


def seal(secret: bytes, scope: str, after: str) -> str:
    """A token that continues the list `scope` after a key."""
    key = after.encode()
    return base64.urlsafe_b64encode(_tag(secret, scope, key) + key).rstrip(b"=").decode()


def unseal(secret: bytes, scope: str, token: str | None, *, field: str = "page_token") -> str:
    """The key that a token continues after; empty without a token. A changed or foreign token is refused."""
    if not token:
        return ""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        after = raw[_TAG_BYTES:].decode()
        # Compares the text, not the bytes: base64 has several spellings of the same bytes.
        if hmac.compare_digest(token, seal(secret, scope, after)):
            return after
    except (binascii.Error, ValueError):
        pass
    raise InvalidInput(f"{field} is not a token of this list; start again without it", field=field)


def _tag(secret: bytes, scope: str, key: bytes) -> bytes:
    return blake2b(scope.encode() + b"\0" + key, key=secret, digest_size=_TAG_BYTES).digest()
