"""Requests in progress: their deadlines, and a shutdown that waits for them."""

from __future__ import annotations

import asyncio
import time

from moorage.http.exchanges import Ending, Exchange

_ERROR_RESPONSE_SECONDS = 2.0


class InFlight:
    """All open exchanges. One periodic timer enforces their deadlines.

    A timer per request costs more than the routing. A sweep over the few open exchanges costs almost nothing,
    and enforcing a limit of 30 s one second late is acceptable.
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
        """Wait for accepted requests to finish, and end those that are still running after `seconds`.

        Returns True if all of them finished. Long polls and streams are ended immediately.
        """
        self.stopping = True
        for exchange in self._open:
            if exchange.is_patient:
                exchange.end(Ending.STOPPING)
        if await self._wait_until_empty(seconds):
            return True
        for exchange in self._open:
            exchange.end(Ending.STOPPING)
        await self._wait_until_empty(_ERROR_RESPONSE_SECONDS)
        return False

    async def _wait_until_empty(self, seconds: float) -> bool:
        if self._open:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), seconds)
            except TimeoutError:
                return False
        return True
