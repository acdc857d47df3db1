"""Digests are computed without blocking the event loop."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from moorage.storage.digests import digest_of


async def test_many_bytes_are_hashed_without_blocking_the_event_loop() -> None:
    data = b"m" * 16 * 1024 * 1024
    hashing = asyncio.create_task(digest_of(data))
    await asyncio.sleep(0)
    assert not hashing.done()
    assert await hashing == sha256(data).hexdigest()


async def test_few_bytes_are_hashed_immediately() -> None:
    hashing = asyncio.create_task(digest_of(b"m"))
    await asyncio.sleep(0)
    assert hashing.done()
    assert await hashing == sha256(b"m").hexdigest()
