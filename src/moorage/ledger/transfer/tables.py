"""The tables of a ledger, read from its schema, so that a transfer includes new tables without a code change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import msgspec

SEAL: Final = "backup_info"
"""The table of a backup that holds the digests of the others."""

_NOT_TRANSFERRED: Final = ("schema_version", SEAL)

Row = tuple[Any, ...]


class Table(msgspec.Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The order in which rows are read and hashed. Both stores sort texts by code point."""

    @property
    def select(self) -> str:
        return f"select {', '.join(self.columns)} from {self.name} order by {', '.join(self.key)}"


def tables_in(db: sqlite3.Connection) -> tuple[Table, ...]:
    """The tables to transfer, in name order: no table has a foreign key."""
    names = [
        name
        for (name,) in db.execute(
            "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
        )
        if name not in _NOT_TRANSFERRED
    ]
    return tuple(_table(db, name) for name in names)


def _table(db: sqlite3.Connection, name: str) -> Table:
    columns = db.execute("select name, pk from pragma_table_info(?) order by cid", (name,)).fetchall()
    key = sorted((position, column) for column, position in columns if position)
    return Table(name, tuple(column for column, _ in columns), tuple(column for _, column in key))


def rows_of(db: sqlite3.Connection, table: Table) -> Iterator[Row]:
    return iter(db.execute(table.select))
