"""kill -9 at every named step and at random: a draft is appended completely or not at all, and the next start works."""

import os
import random
import time

import pytest

from moorage.core.entries import Done, Draft, HeadIs
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, NO_PARENT, Shelf
from moorage.ledger.faults import APPEND, MIGRATE
from moorage.ledger.port import Ledger
from moorage.testing import builders as make
from moorage.testing.builders import Lake
from tests.crash.children import KILLED, SOAK, open_ledger_at, require_gapless, run_victim, start_victim

KILLS = 300 if SOAK else 10
WRITERS = 8
# PostgreSQL runs the steps between the call and its response. A kill of our process cannot interrupt them.
APPENDS = [("sqlite", step) for step in APPEND] + [("postgres", APPEND[0]), ("postgres", APPEND[-1])]
MIGRATIONS = [(store, step) for store in ("sqlite", "postgres") for step in MIGRATE]


def transaction(lake: Lake) -> Draft:
    """Three tables, a job, a document and a key in one draft."""
    return make.draft(
        *[make.commit(table, 1) for table in lake.tables],
        expects=[HeadIs(table, MAIN, 0) for table in lake.tables],
        jobs=[make.job(dedupe="d")],
        attachments=[make.attached(lake.tables[0], 1, document=b"{}")],
        key=make.idempotency_key("k"),
        outcome=Done(versions=(1, 1, 1)),
    )


async def traces(ledger: Ledger, lake: Lake, draft: Draft) -> list[bool]:
    """For each trace that the draft leaves, whether it exists."""
    heads = [await ledger.head(table, MAIN) for table in lake.tables]
    return [
        *[head is not None and head.version == 1 for head in heads],
        *[len(await ledger.versions(table, MAIN, first=1)) == 1 for table in lake.tables],
        await ledger.document(lake.tables[0], MAIN, 1) is not None,
        await ledger.receipt(make.ANN, "k") is not None,
        await ledger.job(draft.jobs[0].id) is not None,
        any(entry.draft == draft.id for entry in await ledger.entries(0)),
    ]


@pytest.mark.parametrize(("address", "step"), APPENDS, indirect=["address"])
async def test_a_kill_leaves_all_of_a_transaction_or_nothing(address: str, step: str) -> None:
    ledger = await open_ledger_at(address)
    lake = await make.lake(ledger, "a", "b", "c")
    await ledger.close()
    draft = transaction(lake)
    assert run_victim("append", address, stdin=[draft], die_at=f"{step}:1").returncode == KILLED

    ledger = await open_ledger_at(address)
    left = await traces(ledger, lake, draft)
    assert left == [step == "append.committed"] * len(left)
    seq = await require_gapless(ledger)
    again = await ledger.append(draft)
    assert (again.seq, again.replayed) == ((seq, True) if left[0] else (seq + 1, False))
    assert all(await traces(ledger, lake, draft))
    await ledger.close()


@pytest.mark.parametrize("step", ["append.checked:3", "append.applied:1", "append.applied:5", "append.recorded:1"])
async def test_a_kill_in_a_batch_leaves_none_of_it(tmp_path: os.PathLike[str], step: str) -> None:
    address = str(tmp_path)
    ledger = await open_ledger_at(address)
    lake = await make.lake(ledger, *"abcdef")
    await ledger.close()
    drafts = [make.draft(make.commit(table, 1), expects=[HeadIs(table, MAIN, 0)]) for table in lake.tables]
    child = run_victim("append", address, stdin=drafts, die_at=step)
    assert (child.returncode, child.stdout) == (KILLED, b"")
    ledger = await open_ledger_at(address)
    assert await require_gapless(ledger) == 2
    for draft in drafts:
        assert not (await ledger.append(draft)).replayed
    await ledger.close()


@pytest.mark.parametrize(("address", "step"), APPENDS + MIGRATIONS, indirect=["address"])
async def test_a_kill_during_the_first_start_is_repaired_by_the_next(address: str, step: str) -> None:
    assert run_victim("append", address, stdin=[], die_at=f"{step}:1").returncode == KILLED
    ledger = await open_ledger_at(address)
    assert await require_gapless(ledger) == 1
    assert len((await ledger.children(NO_PARENT, Shelf.METASTORE)).items) == 1
    await make.lake(ledger)
    await ledger.close()


@pytest.mark.parametrize(("address", "step"), MIGRATIONS, indirect=["address"])
async def test_a_kill_during_an_upgrade_keeps_the_ledger_and_the_next_upgrade_succeeds(address: str, step: str) -> None:
    ledger = await open_ledger_at(address)
    lake = await make.lake(ledger)
    await ledger.close()
    assert run_victim("migrate", address, die_at=f"{step}:1").returncode == KILLED
    ledger = await open_ledger_at(address)
    assert await require_gapless(ledger) == 2
    await make.add(ledger, make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)])
    await ledger.close()
    for _ in range(2):
        child = run_victim("migrate", address)
        assert (child.returncode, child.stdout) == (0, b"3\n"), child.stderr.decode()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_kills_at_random_times_lose_and_duplicate_nothing(address: str) -> None:
    chance = random.Random(os.environ.get("MOORAGE_SEED", "moorage"))
    ledger = await open_ledger_at(address)
    lake = await make.lake(ledger, *[f"t{n}" for n in range(WRITERS)])
    await ledger.close()
    receipts: list[tuple[str, int]] = []
    known = 2
    for _ in range(KILLS):
        new_receipts = kill_after(
            address, list(lake.tables), acknowledged=chance.randrange(200), then_s=chance.random() / 100
        )
        receipts += new_receipts
        ledger = await open_ledger_at(address)
        last = await require_gapless(ledger, receipts)
        # Each writer had at most one draft in progress, so at most that many were appended without acknowledgement.
        assert known + len(new_receipts) <= last <= known + len(new_receipts) + WRITERS
        heads = [await ledger.head(table, MAIN) for table in lake.tables]
        assert sum(head.version for head in heads if head is not None) == last - 2
        await ledger.close()
        known = last


def kill_after(address: str, tables: list[SecurableId], *, acknowledged: int, then_s: float) -> list[tuple[str, int]]:
    """Kill the writers `then_s` after this many drafts were acknowledged. Return all acknowledged drafts."""
    child = start_victim("write", address, stdin=tables)
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(acknowledged)]
    time.sleep(then_s)
    child.kill()
    lines += child.stdout.readlines()
    child.stdout.close()
    assert child.wait() == KILLED
    return [(draft, int(seq)) for draft, seq in (line.decode().split() for line in lines)]
