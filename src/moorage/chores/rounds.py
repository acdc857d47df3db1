"""The rounds: each chore again and again, until the server stops."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from moorage.core.errors import Unavailable
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.publish import make_durable, publish_due
from moorage.usecases.upkeep.purge import purge_due

log = logging.getLogger(__name__)

_SETTLED_MS = 2_000
"""Whoever ratified a commit publishes it at once; the chore only sweeps what was left behind."""


_AT_ONCE = 1_000


class Chore(msgspec.Struct, frozen=True):
    name: str
    rounds: float
    """How many of the server's intervals lie between two runs."""
    run: Callable[[Ports], Awaitable[int]]
    ends_stop: bool = False
    """Whether the stop waits for it and has it run once more, instead of leaving it where it is."""


async def _publish(ports: Ports) -> int:
    return await publish_due(ports, older_than_ms=_SETTLED_MS)


async def _forget_keys(ports: Ports) -> int:
    gone = 0
    while (some := await ports.ledger.forget_receipts(_AT_ONCE)) == _AT_ONCE:
        gone += some
    return gone + some


CHORES = (
    Chore("sync", 0.5, make_durable, ends_stop=True),
    Chore("publish", 0.5, _publish),
    Chore("purge", 2.5, purge_due),
    Chore("forget_keys", 30.0, _forget_keys),
)


async def make_rounds(ports: Ports, stop: asyncio.Event, *, interval_s: float) -> None:
    """Run every chore at its own pace. A failure is logged and tried again: nothing depends on one round."""
    rounds = {asyncio.create_task(_repeat(chore, ports, stop, interval_s)): chore for chore in CHORES}
    await stop.wait()
    # A chore may be purging for minutes; whoever runs it next goes on where it was.
    for each, chore in rounds.items():
        if not chore.ends_stop:
            each.cancel()
    await asyncio.wait(rounds)


async def _repeat(chore: Chore, ports: Ports, stop: asyncio.Event, interval_s: float) -> None:
    while not stop.is_set():
        await _run(chore, ports)
        # Not in step with the other servers, so that one finds the other's work done.
        pause = chore.rounds * interval_s * random.uniform(0.8, 1.2)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    if chore.ends_stop:
        await _run(chore, ports)


async def _run(chore: Chore, ports: Ports) -> None:
    try:
        await chore.run(ports)
    except Unavailable as error:  # a database that is away for an hour is told in few words, not in traces
        log.warning("the chore %s has to wait: %s", chore.name, error.message)
    except Exception:
        log.exception("the chore %s failed; it will be tried again", chore.name)
