"""The form of a token: `moor_`, the id of the object that it belongs to, and 256 random bits.

The id makes the lookup one read by primary key. Only the SHA-256 digest of the whole text is stored: the secret has
256 random bits, so a slow hash would add nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, NamedTuple

from moorage.core.ids import SecurableId

PREFIX: Final = "moor_"

_FORM = re.compile(r"moor_([0-9a-f]{32})_[A-Za-z0-9_-]{43}")


class Token(NamedTuple):
    """A token that has the right form. Nothing is known about its secret yet."""

    id: SecurableId
    text: str


def new_token(id: SecurableId, secret: str) -> str:
    """The text of a token for an object, from a secret of 43 random characters."""
    text = f"{PREFIX}{id.replace('-', '')}_{secret}"
    if parse_token(text) is None:
        raise ValueError("a token needs an id and a secret of 43 characters")
    return text


def parse_token(text: str) -> Token | None:
    """The token, or None if the text does not have the form of one."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    digits = found[1]
    id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return Token(SecurableId(id), text)


def digest_of(text: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_token(text: str, digest: str) -> bool:
    """Whether the digest is that of the token, in a time that does not depend on where they differ."""
    return hmac.compare_digest(digest_of(text), digest)
