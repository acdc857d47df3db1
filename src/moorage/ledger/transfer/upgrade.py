"""Upgrades the schema of a ledger without starting a server."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from moorage.ledger.postgres import connections as postgres
from moorage.ledger.sqlite import connections as sqlite
from moorage.ledger.transfer import postgres_database, sqlite_file


class Upgrade(msgspec.Struct, frozen=True):
    """The schema version before and after. 0: there was no schema."""

    before: int
    after: int


def upgrade_folder(folder: Path) -> Upgrade:
    """Upgrade the ledger of a data folder. Its server must be stopped."""
    file = sqlite_file.ledger_of(folder)
    sqlite.require_not_moved(folder)
    with (
        contextlib.closing(sqlite.lock_folder(folder)),
        sqlite_file.translate_errors(file),
        contextlib.closing(sqlite.connect(file)) as db,
    ):
        before = int(db.execute("select coalesce(max(version), 0) from schema_version").fetchone()[0])
        return Upgrade(before, sqlite.migrate(db))


async def upgrade_database(url: str) -> Upgrade:
    """Upgrade the ledger of a database. Servers of the previous release may keep running: migrations support them."""
    async with postgres_database.connected(url) as connection:
        await postgres.require_suitable(connection)
        before = await postgres.schema_version(connection)
        await postgres.migrate(connection)
        return Upgrade(before, await postgres.schema_version(connection))
