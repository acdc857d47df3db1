"""If the file of a ledger is damaged, every writer gets an error and none waits forever."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moorage.core.errors import Unavailable
from moorage.ledger.sqlite import SqliteLedger
from moorage.ledger.sqlite.connections import FILE
from moorage.testing import builders as make


def damage(file: Path, index: str) -> None:
    """Overwrite the first page of an index."""
    with closing(sqlite3.connect(file)) as db:
        size = db.execute("pragma page_size").fetchone()[0]
        root = db.execute("select rootpage from sqlite_schema where name = ?", (index,)).fetchone()[0]
    with file.open("r+b") as bytes_:
        bytes_.seek((root - 1) * size)
        bytes_.write(b"\xff" * size)


async def test_writers_of_a_damaged_ledger_get_an_error_and_readers_continue(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    lake = await make.lake(ledger)
    await ledger.close()
    damage(tmp_path / FILE, "sqlite_autoindex_entry_1")
    ledger = await SqliteLedger.open(tmp_path)
    async with asyncio.timeout(60):
        for name in ("one", "two"):
            with pytest.raises(Unavailable, match="nothing was done"):
                await ledger.append(make.draft(make.table(lake.namespace, name)))
        assert (await ledger.lineage(lake.table)).chain[-1].id == lake.table
        await ledger.close()
