"""What the core may not make: new ids and fences."""

from __future__ import annotations

import os
import time
from itertools import count
from random import Random

from moorage.core.ids import DraftId, Fence, JobId, SecurableId


class _Uuids:
    """UUIDs of version 7. Their text sorts by the time of their making: neighbours in time are neighbours on disk.

    Those of one millisecond share a random front and are counted behind it from a random number on. They need to be
    unique, not secret, so they do not cost a call of the system each.
    """

    def __init__(self) -> None:
        self._random = Random(os.urandom(32))
        self._millisecond = 0
        self._front = ""
        self._count = count()

    def make(self) -> str:
        now = time.time_ns() // 1_000_000
        if now != self._millisecond:
            self._begin(now)
        return f"{self._front}{next(self._count):012x}"

    def _begin(self, millisecond: int) -> None:
        time, random = f"{millisecond:012x}", self._random.getrandbits
        self._millisecond = millisecond
        self._front = f"{time[:8]}-{time[8:]}-7{random(12):03x}-{0x8000 | random(14):04x}-"
        self._count = count(random(47))  # and room for as many again: it never grows by a digit


_uuid7 = _Uuids().make


def securable_id() -> SecurableId:
    return SecurableId(_uuid7())


def draft_id() -> DraftId:
    return DraftId(_uuid7())


def job_id() -> JobId:
    return JobId(_uuid7())


def fence() -> Fence:
    """Random on purpose: a lost lease row can never make an old fence valid again."""
    return Fence(os.urandom(16).hex())
