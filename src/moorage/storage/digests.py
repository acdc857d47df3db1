"""Digests of file contents."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Final

_LARGE: Final = 256 * 1024
"""Hashing this much takes a quarter of a millisecond. A thread does not hold the lock of the interpreter meanwhile."""


async def digest_of(data: bytes) -> str:
    """Return the SHA-256 of the bytes in hexadecimal digits."""
    return await asyncio.to_thread(_digest, data) if len(data) > _LARGE else _digest(data)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
