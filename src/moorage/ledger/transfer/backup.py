"""Backups: one sealed file from either store, while servers continue to write."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from moorage.ledger.faults import reach
from moorage.ledger.postgres import connections
from moorage.ledger.sqlite.connections import migrate, require_not_moved
from moorage.ledger.transfer import postgres_database, sqlite_file
from moorage.ledger.transfer.atomic_file import create_atomically
from moorage.ledger.transfer.digests import Digest, Hashing, Tell, digests_of, require_equal


def back_up_folder(folder: Path, to: Path, tell: Tell) -> dict[str, Digest]:
    """Back up a consistent snapshot of a data folder's ledger. Its server may keep writing."""
    file = sqlite_file.ledger_of(folder)
    require_not_moved(folder)  # a backup of an obsolete ledger would be noticed only when it is needed
    with create_atomically(to) as partial:
        with sqlite_file.reading(file) as source:
            sqlite_file.copy(source, partial, tell)
        reach("transfer.copied")
        with sqlite_file.writing(partial, named=file) as db:
            sqlite_file.check(db, file)
            digests = digests_of(db, tell)
            sqlite_file.seal(db, digests)
        reach("transfer.compared")
        return digests


async def back_up_database(url: str, to: Path, tell: Tell) -> dict[str, Digest]:
    """Back up a consistent snapshot of a database's ledger. Servers may keep writing."""
    with create_atomically(to) as partial, sqlite_file.writing(partial, named=to) as db:
        migrate(db)
        async with postgres_database.connected(url) as connection:
            await connections.require_migrated(connection)
            layout = await postgres_database.Layout.read(connection, db)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                digests = await _copy_rows(connection, layout, db, tell)
        reach("transfer.copied")
        require_equal(digests, digests_of(db, tell), f"{to} does not contain what was written to it")
        sqlite_file.seal(db, digests)
        reach("transfer.compared")
        return digests


async def _copy_rows(
    connection: postgres_database.Connection, layout: postgres_database.Layout, db: sqlite3.Connection, tell: Tell
) -> dict[str, Digest]:
    digests = {}
    for table in layout.tables:
        hashing = Hashing(f"reading {table.name}", tell)
        insert = f"insert into {table.name} ({', '.join(table.columns)}) values ({', '.join('?' * len(table.columns))})"
        async for rows in postgres_database.slices_of(connection, table, layout.flags_of(table)):
            db.execute("begin")
            db.executemany(insert, hashing.through(rows))
            db.execute("commit")
        digests[table.name] = hashing.digest
    return digests
