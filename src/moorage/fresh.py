"""New ids and fences. The core may not make them, because it has no clock and no randomness."""

from __future__ import annotations

import os
import secrets
import time
from itertools import count
from random import Random

from moorage.core.ids import DraftId, Fence, JobId, SecurableId


class _Uuids:
    """UUIDs of version 7. Their text sorts by creation time, so ids created together are stored together on disk.

    The ids of one millisecond share a random prefix, followed by a counter that starts at a random number. They must
    be unique, not secret, so an id does not need a system call of its own.
    """

    def __init__(self) -> None:
        self._random = Random(os.urandom(32))
        self._millisecond = 0
        self._prefix = ""
        self._count = count()

    def make(self) -> str:
        now = time.time_ns() // 1_000_000
        if now != self._millisecond:
            self._begin(now)
        return f"{self._prefix}{next(self._count):012x}"

    def _begin(self, millisecond: int) -> None:
        time, random = f"{millisecond:012x}", self._random.getrandbits
        self._millisecond = millisecond
        self._prefix = f"{time[:8]}-{time[8:]}-7{random(12):03x}-{0x8000 | random(14):04x}-"
        self._count = count(random(47))  # 47 of 48 bits: the counter never overflows its 12 digits


_uuid7 = _Uuids().make


def securable_id() -> SecurableId:
    return SecurableId(_uuid7())


def draft_id() -> DraftId:
    return DraftId(_uuid7())


def job_id() -> JobId:
    return JobId(_uuid7())


def secret() -> str:
    """256 random bits as 43 characters that need no escaping in a URL or header."""
    return secrets.token_urlsafe(32)


def fence() -> Fence:
    """A random fence. A counter would restart if its lease row were lost, and make an old fence valid again."""
    return Fence(os.urandom(16).hex())
