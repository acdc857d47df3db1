"""The write-ahead log of the embedded ledger: a file of constant size that is overwritten."""

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from moorage.ledger.sqlite import SqliteLedger, checkpoints, connections
from moorage.ledger.transfer import sqlite_file
from moorage.testing import builders as make

LOG = "ledger.db-wal"
MEGABYTE = 1024 * 1024


def size(folder: Path) -> int:
    return (folder / LOG).stat().st_size


async def write(ledger: SqliteLedger, megabytes: int) -> None:
    lake = await make.lake(ledger, catalog_name=f"lake{(await ledger.position()).seq}")
    for version in range(1, megabytes + 1):
        bytes_ = make.attached(lake.table, version, staged=os.urandom(MEGABYTE))
        commit = make.published_commit(lake.table, version)
        await ledger.append(make.draft(commit, attachments=[bytes_]))


async def test_the_log_is_preallocated_before_the_first_commit(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    before = size(tmp_path)
    await write(ledger, 2)
    assert size(tmp_path) == before >= 8 * MEGABYTE
    await ledger.close()


async def test_a_log_of_zeros_hides_no_entry(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    await make.lake(ledger)
    before = await ledger.entries(0)
    await ledger.close()
    assert not (tmp_path / LOG).exists()
    (tmp_path / LOG).write_bytes(bytes(MEGABYTE))
    ledger = await SqliteLedger.open(tmp_path)
    assert await ledger.entries(0) == before
    await make.lake(ledger, catalog_name="another")
    assert len(await ledger.entries(0)) > len(before)
    await ledger.close()


async def test_a_log_that_grew_during_a_long_read_shrinks_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_FILLED_BYTES", MEGABYTE)
    monkeypatch.setattr(checkpoints, "_FULL_BYTES", 2 * MEGABYTE)
    monkeypatch.setattr(connections, "LARGEST_LOG", 2 * MEGABYTE)
    ledger = await SqliteLedger.open(tmp_path)
    await make.lake(ledger)
    with sqlite_file.reading(tmp_path / "ledger.db"):
        await write(ledger, 4)
        assert size(tmp_path) > 4 * MEGABYTE
    async with asyncio.timeout(30):
        while size(tmp_path) > 2 * MEGABYTE:
            await make.add(ledger, make.catalog(ledger.root, f"c{(await ledger.position()).seq}"))
            await asyncio.sleep(0.05)
    await ledger.close()


async def test_the_event_loop_does_not_wait_while_the_log_is_restarted(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    checkpointer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    checkpointer.execute("begin immediate")  # the lock that a restart of the log holds
    ledger._checkpointer.blocks_writers = True
    append = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "late")))
    for _ in range(20):
        await asyncio.sleep(0.001)
        assert (await ledger.position()).seq == 1
    assert not append.done()
    checkpointer.execute("rollback")
    checkpointer.close()
    assert (await append).seq == 2
    await ledger.close()
