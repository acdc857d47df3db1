"""Limits how many requests each caller sends per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Final

from moorage.core.errors import TooManyRequests

BURST_SECONDS: Final = 10
"""A caller that was idle may send the requests of this many seconds at once."""
_ROUNDING: Final = 1e-6
_MAX_CALLERS: Final = 100_000


class RateLimit:
    """A token bucket per caller. Each server counts by itself."""

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._used_up_to: dict[str, float] = {}
        """Time is the currency: each request costs a caller `1 / per_second` seconds, and it can save up a burst."""

    def require(self, caller: str) -> None:
        """Count a request of the caller, or raise TooManyRequests."""
        now = self._clock()
        spent = max(self._used_up_to.get(caller, 0.0), now - BURST_SECONDS)
        after = spent + 1.0 / self._per_second
        if after > now + _ROUNDING:
            wait = ceil(after - now - _ROUNDING)
            raise TooManyRequests(
                f"too many requests: this server allows each caller {self._per_second:g} per second; "
                f"retry after {wait} s",
                retry_after_seconds=wait,
            )
        if len(self._used_up_to) >= _MAX_CALLERS:
            self._forget_idle(now)
        self._used_up_to[caller] = after

    def _forget_idle(self, now: float) -> None:
        """Drop the callers whose buckets are full again. If all are busy, drop all: memory must have a bound."""
        busy = {caller: at for caller, at in self._used_up_to.items() if at > now - BURST_SECONDS}
        self._used_up_to = busy if len(busy) < _MAX_CALLERS else {}
