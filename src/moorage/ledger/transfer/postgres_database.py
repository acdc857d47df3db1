"""Reads and fills the ledger of a PostgreSQL database, table by table."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, TypeAlias

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from moorage.core.errors import Unavailable
from moorage.ledger.migrations import newest
from moorage.ledger.postgres import connections
from moorage.ledger.transfer.digests import Digest, Hashing, Tell
from moorage.ledger.transfer.tables import Row, Table, rows_of, tables_in

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # generic only in the type stubs

_CONNECT_S: Final = 10.0
_MIN_SLICE_ROWS, _MAX_SLICE_ROWS = 16, 8192
_SLICE_BYTES: Final = 4 * 1024 * 1024


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """Open a connection with settings for whole tables; those of the servers suit short statements.

    With several hosts it connects to the primary, because replicas may lag behind. A single host may be a replica,
    so that a replica can be backed up.
    """
    several = "," in url.partition("://")[2].partition("/")[0]
    try:
        connection = await asyncpg.connect(
            url,
            timeout=_CONNECT_S,
            server_settings={"application_name": "moorage transfer", "jit": "off"},
            target_session_attrs=SessionAttribute.primary if several else SessionAttribute.any,
        )
        try:
            yield connection
        finally:
            await connection.close(timeout=_CONNECT_S)
    except (*connections.LOST, TimeoutError, asyncpg.PostgresError) as error:
        raise Unavailable(
            f"the database failed or is unreachable: {str(error) or 'no answer in time'}; the database has no partial "
            "changes, so fix the cause and run the same command again"
        ) from error


class Layout:
    """The tables of the ledger in PostgreSQL: the same columns as in SQLite, but flags are booleans."""

    def __init__(self, tables: tuple[Table, ...], flags: frozenset[tuple[str, str]]) -> None:
        self.tables = tables
        self._flags = flags

    @classmethod
    async def read(cls, connection: Connection, db: sqlite3.Connection) -> Layout:
        """The layout that matches the SQLite ledger, or Unavailable if the two schemas differ in version."""
        tables = tables_in(db)
        found = await connection.fetch(
            "select table_name, column_name, data_type from information_schema.columns "
            "where table_schema = current_schema() and table_name = any($1)",  # other applications may have tables here
            [table.name for table in tables],
        )
        columns = {(table.name, column) for table in tables for column in table.columns}
        if not await _are_up_to_date(connection, db) or columns != {(row[0], row[1]) for row in found}:
            raise Unavailable(
                "the two ledgers have different schema versions: upgrade both with `moorage migrate`, "
                "and restore a backup into a folder first"
            )
        return cls(tables, frozenset((row[0], row[1]) for row in found if row[2] == "boolean"))

    def flags_of(self, table: Table) -> tuple[int, ...]:
        return tuple(at for at, column in enumerate(table.columns) if (table.name, column) in self._flags)


async def _are_up_to_date(connection: Connection, db: sqlite3.Connection) -> bool:
    """Whether both schemas are the current ones. Additions of a later schema would not be copied."""
    (version,) = db.execute("select max(version) from schema_version").fetchone()
    is_current = version == newest("moorage.ledger.sqlite")
    return is_current and await connections.schema_version(connection) == newest("moorage.ledger.postgres")


async def slices_of(connection: Connection, table: Table, flags: tuple[int, ...]) -> AsyncIterator[list[Row]]:
    """All rows in key order, a few MB at a time, with the values that SQLite would store."""
    cursor = await connection.cursor(table.select)
    count = _MIN_SLICE_ROWS
    while records := await cursor.fetch(count):
        found = [_from_postgres(record, flags) for record in records]
        yield found
        # Row sizes in one table differ by up to a factor of a million, so the slice size grows at most twofold.
        size = sum(len(value) for row in found for value in row if isinstance(value, str | bytes))
        count = max(_MIN_SLICE_ROWS, min(_MAX_SLICE_ROWS, 2 * count, count * _SLICE_BYTES // max(size, 1)))


def _from_postgres(record: asyncpg.Record, flags: tuple[int, ...]) -> Row:
    row = tuple(record)
    return tuple(int(value) if at in flags else value for at, value in enumerate(row)) if flags else row


def _to_postgres(rows: Iterable[Row], flags: tuple[int, ...]) -> Iterator[Row]:
    for row in rows:
        yield tuple(bool(value) if at in flags else value for at, value in enumerate(row)) if flags else row


async def digests_of(connection: Connection, layout: Layout, tell: Tell) -> dict[str, Digest]:
    """The digest of every table of the database. Needs an open transaction for a consistent snapshot."""
    found = {}
    for table in layout.tables:
        hashing = Hashing(f"reading {table.name} in the database", tell)
        async for rows in slices_of(connection, table, layout.flags_of(table)):
            for _ in hashing.through(rows):
                pass
        found[table.name] = hashing.digest
    return found


async def fill(connection: Connection, layout: Layout, db: sqlite3.Connection, tell: Tell) -> dict[str, Digest]:
    """Stream every table of an SQLite ledger into the database, and return the digests of what was sent."""
    sent = {}
    for table in layout.tables:
        hashing = Hashing(f"writing {table.name} to the database", tell)
        await connection.copy_records_to_table(
            table.name,
            records=_to_postgres(hashing.through(rows_of(db, table)), layout.flags_of(table)),
            columns=table.columns,
        )
        sent[table.name] = hashing.digest
    return sent


async def count_rows(connection: Connection, layout: Layout) -> dict[str, int]:
    return {table.name: await connection.fetchval(f"select count(*) from {table.name}") for table in layout.tables}
