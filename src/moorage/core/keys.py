"""Idempotency keys: which texts are keys. Which refusals a key records is stated by each error (`is_final`)."""

from __future__ import annotations

from typing import Final

from moorage.core.errors import InvalidInput

LONGEST_KEY: Final = 255


def require_key(key: str) -> str:
    """The key, or InvalidInput."""
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidInput(f"an idempotency key has 1 to {LONGEST_KEY} printable characters", field="Idempotency-Key")
    return key
