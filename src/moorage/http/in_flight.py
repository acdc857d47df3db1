"""Requests between their first byte and their last: deadlines, and a stop that waits for them."""

from __future__ import annotations

import asyncio
import time

from moorage.http.exchanges import Ending, Exchange

_LAST_WORDS_SECONDS = 2.0


class InFlight:
    """All open exchanges. One sweeping timer serves their deadlines.

    A timer per request costs more than the routing; a sweep over the few that are open costs nothing,
    and a limit of 30 s may well be kept a second late.
    """

    def __init__(self, sweep_seconds: float) -> None:
        self._open: set[Exchange] = set()
        self._sweep_seconds = sweep_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, exchange: Exchange) -> None:
        self._open.add(exchange)
        if self._timer is None:
            self._arm()

    def leave(self, exchange: Exchange) -> None:
        self._open.discard(exchange)
        if self.stopping and not self._open:
            self._idle.set()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = time.monotonic()
        for exchange in self._open:
            if exchange.deadline < now:
                exchange.end(Ending.TOO_LATE)
        if self._open:
            self._arm()

    async def drain(self, seconds: float) -> bool:
        """Lets what was accepted finish; whoever still works after `seconds` is told that we stop.

        True if all finished by themselves. Those who only wait for news are ended at once.
        """
        self.stopping = True
        for exchange in self._open:
            if exchange.is_patient:
                exchange.end(Ending.STOPPING)
        if await self._emptied(seconds):
            return True
        for exchange in self._open:
            exchange.end(Ending.STOPPING)
        await self._emptied(_LAST_WORDS_SECONDS)
        return False

    async def _emptied(self, seconds: float) -> bool:
        if self._open:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), seconds)
            except TimeoutError:
                return False
        return True
