"""What the core may not make: new ids and fences."""

from __future__ import annotations

import os
import time
from random import Random

from moorage.core.ids import DraftId, Fence, JobId, SecurableId

_random = Random(os.urandom(32))


def _uuid7() -> str:
    """A UUID whose text sorts by the time of its making, so that neighbours in time are neighbours on disk.

    Its other bits need to be unique, not secret, so they do not cost a call of the system each time.
    """
    random = _random.getrandbits(74)
    text = f"{time.time_ns() // 1_000_000:012x}7{random >> 62:03x}{1 << 63 | random & (1 << 62) - 1:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def securable_id() -> SecurableId:
    return SecurableId(_uuid7())


def draft_id() -> DraftId:
    return DraftId(_uuid7())


def job_id() -> JobId:
    return JobId(_uuid7())


def fence() -> Fence:
    """Random on purpose: a lost lease row can never make an old fence valid again."""
    return Fence(os.urandom(16).hex())
