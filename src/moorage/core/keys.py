"""Idempotency keys: which texts are valid. `is_final` of an error decides whether a key records it."""

from __future__ import annotations

from typing import Final

from moorage.core.errors import InvalidInput

MAX_KEY_LENGTH: Final = 255


def require_key(key: str) -> str:
    """The key; InvalidInput if it is empty, too long or not printable."""
    if not 0 < len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidInput(
            f"an idempotency key has 1 to {MAX_KEY_LENGTH} printable characters", field="Idempotency-Key"
        )
    return key
