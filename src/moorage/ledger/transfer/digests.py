"""Digests of the rows of a table, equal for both stores."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from moorage.core.errors import Damaged
from moorage.ledger.transfer.tables import Row, rows_of, tables_in

Tell = Callable[[str], None]
"""Called from time to time with the progress of a long step."""

_PROGRESS_EVERY_ROWS: Final = 4096

_encode = msgspec.msgpack.Encoder().encode


class Digest(msgspec.Struct, frozen=True):
    rows: int
    sha256: str


Digests = Mapping[str, Digest]
"""Digests by table name."""


class Hashing:
    """Hashes rows as they pass through."""

    def __init__(self, what: str, tell: Tell) -> None:
        self._what = what
        self._tell = tell
        self._hash = hashlib.sha256()
        self._rows = 0

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            # msgpack distinguishes text, bytes, numbers and null, and encodes the length of each row.
            self._hash.update(_encode(row))
            self._rows += 1
            if self._rows % _PROGRESS_EVERY_ROWS == 0:
                self._tell(f"{self._what}: {self._rows:,} rows")
            yield row

    @property
    def digest(self) -> Digest:
        return Digest(self._rows, self._hash.hexdigest())


def digests_of(db: sqlite3.Connection, tell: Tell) -> dict[str, Digest]:
    """The digest of every table of an SQLite ledger."""
    found = {}
    for table in tables_in(db):
        hashing = Hashing(f"reading {table.name}", tell)
        for _ in hashing.through(rows_of(db, table)):
            pass
        found[table.name] = hashing.digest
    return found


def require_equal(expected: Digests, found: Digests, what: str) -> None:
    """Raise Damaged with the first table whose digest differs."""
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            raise Damaged(f"{what}: its table '{name}' has {_brief(found, name)}, expected {_brief(expected, name)}")


def _brief(digests: Digests, name: str) -> str:
    digest = digests.get(name)
    return "nothing" if digest is None else f"{digest.rows} rows with sha256 {digest.sha256[:12]}…"
