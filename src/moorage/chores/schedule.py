"""Runs each chore periodically until the server stops."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from moorage.core.errors import Unavailable
from moorage.usecases.identity.audit import delete_old_accesses, store_accesses
from moorage.usecases.pipelines.triggers import start_due_pipelines
from moorage.usecases.ports import Ports
from moorage.usecases.storage.storage_credentials import reseal_due
from moorage.usecases.upkeep.autopilot import look_after_tables
from moorage.usecases.upkeep.convert import convert_due
from moorage.usecases.upkeep.lifetimes import record_lifetime
from moorage.usecases.upkeep.publish import make_durable, publish_due
from moorage.usecases.upkeep.purge import purge_due
from moorage.usecases.upkeep.sweep import sweep_next

log = logging.getLogger(__name__)

_SETTLED_MS = 2_000
"""The server that ratifies a commit publishes it immediately. The chore publishes only what was left over."""


_BATCH = 1_000


class Chore(msgspec.Struct, frozen=True):
    name: str
    rounds: float
    """The pause between two runs, as a multiple of the server's interval."""
    run: Callable[[Ports], Awaitable[int]]
    rests: float = 0.0
    """The pause is at least this multiple of the time that the run took."""
    runs_at_stop: bool = False
    """Whether a shutdown waits for the chore and runs it once more, instead of cancelling it."""


async def _publish(ports: Ports) -> int:
    return await publish_due(ports, older_than_ms=_SETTLED_MS)


async def _forget_keys(ports: Ports) -> int:
    deleted = 0
    while (batch := await ports.ledger.delete_expired_receipts(_BATCH)) == _BATCH:
        deleted += batch
    return deleted + batch


CHORES = (
    # Soon, because until then the ledger keeps the bytes. But a slow disk must have time for other writers.
    Chore("sync", 0.05, make_durable, rests=1.0, runs_at_stop=True),
    Chore("store_accesses", 0.5, store_accesses, runs_at_stop=True),
    Chore("publish", 0.5, _publish),
    Chore("convert", 0.5, convert_due),
    # Often: with the default interval, a run is enqueued within half a second of the commit that triggers it.
    Chore("start_pipelines", 0.2, start_due_pipelines),
    # At most a fifth of the time: a long line has many files, and leftovers do no harm.
    Chore("sweep", 0.1, sweep_next, rests=4.0),
    Chore("purge", 2.5, purge_due),
    Chore("forget_keys", 30.0, _forget_keys),
    Chore("delete_old_accesses", 30.0, delete_old_accesses),
    Chore("reseal", 30.0, reseal_due),
    Chore("record_lifetime", 30.0, record_lifetime),
    # At most a twentieth of the time: it reads the logs and manifests of many tables, and no client needs it soon.
    Chore("upkeep", 5.0, look_after_tables, rests=20.0),
)


async def run_chores(ports: Ports, stop: asyncio.Event, *, interval_s: float) -> None:
    """Run every chore at its own interval. A failure is logged and retried: nothing depends on a single run."""
    rounds = {asyncio.create_task(_repeat(chore, ports, stop, interval_s)): chore for chore in CHORES}
    await stop.wait()
    # A chore may purge for minutes. Its next run, on any server, continues where it was cancelled.
    for each, chore in rounds.items():
        if not chore.runs_at_stop:
            each.cancel()
    await asyncio.wait(rounds)


async def _repeat(chore: Chore, ports: Ports, stop: asyncio.Event, interval_s: float) -> None:
    while not stop.is_set():
        started = time.monotonic()
        await _run(chore, ports)
        rest = chore.rests * (time.monotonic() - started)
        # Jitter keeps the servers out of step, so that each finds work that another one has already done.
        pause = max(rest, chore.rounds * interval_s * random.uniform(0.8, 1.2))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    if chore.runs_at_stop:
        await _run(chore, ports)


async def _run(chore: Chore, ports: Ports) -> None:
    try:
        await chore.run(ports)
    except Unavailable as error:  # no traceback: an outage of an hour would fill the log
        log.warning("chore %s is delayed: %s", chore.name, error.message)
    except Exception:
        log.exception("chore %s failed; it will be retried", chore.name)
