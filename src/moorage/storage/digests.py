"""What bytes are known by."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Final

_LARGE: Final = 4 * 1024 * 1024
"""This much takes a few milliseconds to hash; a commit of a gigabyte would make all other callers wait for seconds."""


async def digest_of(data: bytes) -> str:
    """The SHA-256 of the bytes in hexadecimal digits."""
    return await asyncio.to_thread(_digest, data) if len(data) > _LARGE else _digest(data)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
