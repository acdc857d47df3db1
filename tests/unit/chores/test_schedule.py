"""The schedule: every chore runs periodically, also after failures, until the server stops."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moorage.chores import schedule
from moorage.chores.schedule import Chore, run_chores
from moorage.core.errors import Unavailable
from moorage.testing import builders as make
from moorage.usecases.ports import Ports
from tests.unit.chores.lakes import ClockedPorts, commit, new_table, waiting


async def run_for(ports: Ports, seconds: float) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(run_chores(ports, stop, interval_s=0.01))
    await asyncio.sleep(seconds)
    stop.set()
    async with asyncio.timeout(5):
        await running


async def test_the_schedule_runs_every_chore(ports: ClockedPorts) -> None:
    table = await new_table(ports, "t")
    await commit(ports, table, 0)
    gone = await new_table(ports, "gone")
    await make.add(ports.ledger, make.drop(gone, hold_ms=0))
    await ports.ledger.append(make.draft(key=make.idempotency_key("k", lifetime_ms=1)))
    ports.clock.advance(5000)

    async def is_done() -> bool:
        return await waiting(ports) == [] and (await ports.ledger.lineage(gone)).chain == ()

    async with asyncio.timeout(30):  # a busy disk takes a while
        while not await is_done():
            await run_for(ports, 0.3)
    ports.clock.advance(-5000)
    assert await ports.ledger.receipt(make.ANN, "k") is None


async def test_a_chore_that_fails_is_logged_and_retried_and_stops_no_other(
    ports: ClockedPorts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = {"bad": 0, "good": 0}

    async def bad(ports: Ports) -> int:
        runs["bad"] += 1
        raise RuntimeError("broken")

    async def good(ports: Ports) -> int:
        runs["good"] += 1
        return 0

    monkeypatch.setattr(schedule, "CHORES", (Chore("bad", 1.0, bad), Chore("good", 1.0, good)))
    with caplog.at_level(logging.ERROR):
        await run_for(ports, 0.2)
    assert runs["bad"] > 2
    assert runs["good"] > 2
    assert "chore bad failed; it will be retried" in caplog.text


async def test_a_delayed_chore_is_logged_in_one_line(
    ports: ClockedPorts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def cut_off(ports: Ports) -> int:
        raise Unavailable("the database cannot be reached")

    monkeypatch.setattr(schedule, "CHORES", (Chore("cut_off", 1.0, cut_off),))
    await run_for(ports, 0.1)
    logged = caplog.records[0]
    assert (logged.levelname, logged.exc_info) == ("WARNING", None)
    assert logged.getMessage() == "chore cut_off is delayed: the database cannot be reached"


async def test_a_stop_does_not_wait_for_a_long_chore(ports: ClockedPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(ports: Ports) -> int:
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(schedule, "CHORES", (Chore("endless", 1.0, endless),))
    await run_for(ports, 0.05)


async def test_a_stop_waits_for_a_chore_that_runs_at_stop_and_runs_it_once_more(
    ports: ClockedPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stop = asyncio.Event(), asyncio.Event()
    ended = 0

    async def slow(ports: Ports) -> int:
        nonlocal ended
        begun.set()
        await stop.wait()
        await asyncio.sleep(0)
        ended += 1
        return 1

    monkeypatch.setattr(schedule, "CHORES", (Chore("slow", 1.0, slow, runs_at_stop=True),))
    running = asyncio.create_task(run_chores(ports, stop, interval_s=3600))
    await begun.wait()
    stop.set()
    async with asyncio.timeout(5):
        await running
    assert ended == 2


async def test_one_run_deletes_more_receipts_than_one_step(ports: ClockedPorts) -> None:
    drafts = [make.draft(key=make.idempotency_key(f"k{n}", lifetime_ms=1)) for n in range(2500)]
    await asyncio.gather(*[ports.ledger.append(draft) for draft in drafts])
    ports.clock.advance(10)
    forget = next(chore for chore in schedule.CHORES if chore.name == "forget_keys")
    assert await forget.run(ports) == 2500
    assert await forget.run(ports) == 0
