"""Make a backup: one sealed file, from either store, while servers go on writing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from moorage.ledger.faults import reach
from moorage.ledger.postgres import connections
from moorage.ledger.sqlite.connections import migrate, require_unmoved
from moorage.ledger.transfer import postgres_database, sqlite_file
from moorage.ledger.transfer.aside import written_aside
from moorage.ledger.transfer.digests import Digest, Hashing, Tell, digests_of, require_equal


def back_up_folder(folder: Path, to: Path, tell: Tell) -> dict[str, Digest]:
    """The ledger of a data folder, as it was at one moment. Its server may run and write meanwhile."""
    file = sqlite_file.ledger_of(folder)
    require_unmoved(folder)  # a backup of what no longer counts would be found out when it is needed
    with written_aside(to) as partial:
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
    """The ledger of a database, as it was at one moment. Any number of servers may write meanwhile."""
    with written_aside(to) as partial, sqlite_file.writing(partial, named=to) as db:
        migrate(db)
        async with postgres_database.connected(url) as connection:
            await connections.require_migrated(connection)
            layout = await postgres_database.Layout.read(connection, db)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                digests = await _copy_rows(connection, layout, db, tell)
        reach("transfer.copied")
        require_equal(digests, digests_of(db, tell), f"{to} did not keep what was written")
        sqlite_file.seal(db, digests)
        reach("transfer.compared")
        return digests


async def _copy_rows(
    connection: postgres_database.Connection, layout: postgres_database.Layout, db: sqlite3.Connection, tell: Tell
) -> dict[str, Digest]:
    read = {}
    for table in layout.tables:
        hashing = Hashing(f"reading {table.name}", tell)
        insert = f"insert into {table.name} ({', '.join(table.columns)}) values ({', '.join('?' * len(table.columns))})"
        async for rows in postgres_database.slices_of(connection, table, layout.flags_of(table)):
            db.execute("begin")
            db.executemany(insert, hashing.through(rows))
            db.execute("commit")
        read[table.name] = hashing.digest
    return read
