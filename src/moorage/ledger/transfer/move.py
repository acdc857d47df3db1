"""The move from SQLite to PostgreSQL. Every table is compared by digest before the transaction commits."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from types import MappingProxyType

from moorage.core.errors import InvalidInput
from moorage.ledger.faults import reach
from moorage.ledger.postgres import connections as postgres
from moorage.ledger.sqlite import connections as sqlite
from moorage.ledger.transfer import postgres_database, sqlite_file
from moorage.ledger.transfer.atomic_file import sync_folder
from moorage.ledger.transfer.digests import Digest, Tell, digests_of, require_equal


async def move(folder: Path, url: str, tell: Tell) -> dict[str, Digest]:
    """Copy the ledger of a data folder into an empty database. The folder's server must be stopped."""
    file = sqlite_file.ledger_of(folder)
    with contextlib.closing(sqlite.lock_folder(folder)), sqlite_file.translate_errors(file):
        with contextlib.closing(sqlite.connect(file)) as db:
            sqlite.migrate(db)
        with sqlite_file.reading(file) as db:
            sqlite_file.check(db, file)
            # A ledger that was moved before is obsolete: servers have written to its new store since.
            moved = await copy_into_database(db, url, tell, before_fill=lambda: sqlite.require_not_moved(folder))
        sqlite.mark_as_moved(folder)
        sync_folder(folder)
    return moved


async def copy_into_database(
    db: sqlite3.Connection,
    url: str,
    tell: Tell,
    *,
    before_fill: Callable[[], None] = lambda: None,
    amend: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Digest]:
    """Copy all tables of an SQLite ledger in one transaction, read them back, and compare them before it commits.

    If the database already holds exactly this ledger, an earlier run has completed and nothing is left to do. If it is
    empty, `before_fill` may still refuse. After the comparison, the statements of `amend` change tables by name.
    """
    async with postgres_database.connected(url) as connection:
        await postgres.require_suitable(connection)
        await postgres.migrate(connection)
        layout = await postgres_database.Layout.read(connection, db)
        async with connection.transaction():
            # Without the lock, a server that starts now would write the first entry of another ledger.
            await connection.execute(f"lock table {', '.join(t.name for t in layout.tables)} in exclusive mode")
            count = await postgres_database.count_rows(connection, layout)
            if any(count.values()):
                return await _require_same_ledger(connection, layout, db, count, amend.keys(), tell)
            before_fill()
            sent = await postgres_database.fill(connection, layout, db, tell)
            reach("transfer.filled")
            found = await postgres_database.digests_of(connection, layout, tell)
            require_equal(sent, found, "the database does not hold what was written, and the copy was rolled back")
            for statement in amend.values():
                await connection.execute(statement)
            reach("transfer.compared")
        reach("transfer.committed")
    return sent


async def _require_same_ledger(
    connection: postgres_database.Connection,
    layout: postgres_database.Layout,
    db: sqlite3.Connection,
    count: dict[str, int],
    amended: Set[str],
    tell: Tell,
) -> dict[str, Digest]:
    sent = digests_of(db, tell)
    same = count == {name: digest.rows for name, digest in sent.items()}
    found = await postgres_database.digests_of(connection, layout, tell) if same else {}
    if not same or any(sent[name] != digest for name, digest in found.items() if name not in amended):
        raise InvalidInput(
            f"the database already holds another ledger ({count['entry']} entries): choose an empty one",
            field="database",
        )
    return sent
