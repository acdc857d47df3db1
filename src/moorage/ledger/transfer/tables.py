"""The tables of a ledger, read from its schema, so that a new one is carried along without being told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import msgspec

SEAL: Final = "backup_info"
"""What a backup says about its own tables."""

_NOT_CARRIED: Final = ("schema_version", SEAL)

Row = tuple[Any, ...]


class Table(msgspec.Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The order in which rows are read and hashed: both stores sort its texts by code points."""

    @property
    def select(self) -> str:
        return f"select {', '.join(self.columns)} from {self.name} order by {', '.join(self.key)}"


def tables_in(db: sqlite3.Connection) -> tuple[Table, ...]:
    """What there is to carry, in the order of names: no table refers to another one."""
    names = [
        name
        for (name,) in db.execute(
            "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
        )
        if name not in _NOT_CARRIED
    ]
    return tuple(_table(db, name) for name in names)


def _table(db: sqlite3.Connection, name: str) -> Table:
    columns = db.execute("select name, pk from pragma_table_info(?) order by cid", (name,)).fetchall()
    key = sorted((place, column) for column, place in columns if place)
    return Table(name, tuple(column for column, _ in columns), tuple(column for _, column in key))


def rows_of(db: sqlite3.Connection, table: Table) -> Iterator[Row]:
    return iter(db.execute(table.select))
