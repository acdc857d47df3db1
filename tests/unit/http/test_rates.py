"""The rate limit per caller."""

from __future__ import annotations

import pytest

from moorage.core.errors import TooManyRequests
from moorage.http import rates
from moorage.http.rates import BURST_SECONDS, RateLimit


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def sent(limit: RateLimit, caller: str, tries: int = 1000) -> int:
    """How many requests of a caller pass now."""
    for count in range(tries):
        try:
            limit.require(caller)
        except TooManyRequests:
            return count
    return tries


def test_a_caller_may_send_a_burst_and_then_its_rate() -> None:
    clock = Clock()
    limit = RateLimit(5, clock=clock)
    assert sent(limit, "ann") == 5 * BURST_SECONDS
    clock.now += 2
    assert sent(limit, "ann") == 10
    clock.now += 1000
    assert sent(limit, "ann") == 5 * BURST_SECONDS, "time is not saved beyond a burst"


def test_callers_do_not_share_a_limit() -> None:
    limit = RateLimit(1, clock=Clock())
    sent(limit, "ann")
    assert sent(limit, "bob") == BURST_SECONDS


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limit = RateLimit(0.1, clock=Clock())
    limit.require("ann")
    with pytest.raises(TooManyRequests, match=r"0\.1 per second; retry after 10 s") as error:
        limit.require("ann")
    assert error.value.details == {"retry_after_seconds": 10}


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    limit = RateLimit(1, clock=clock)
    sent(limit, "ann")
    for _ in range(100):
        with pytest.raises(TooManyRequests):
            limit.require("ann")
    clock.now += 1
    assert sent(limit, "ann") == 1


def test_the_number_of_known_callers_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MAX_CALLERS", 10)
    clock = Clock()
    limit = RateLimit(1, clock=clock)
    sent(limit, "busy")
    clock.now += 1
    for number in range(1000):
        clock.now += BURST_SECONDS / 100
        limit.require(f"c{number}")
        assert len(limit._used_up_to) <= 10
