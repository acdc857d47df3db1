"""What the rows of a table hash to, the same in both stores."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from moorage.core.errors import Damaged
from moorage.ledger.transfer.tables import Row, rows_of, tables_in

Tell = Callable[[str], None]
"""Hears now and then how far a long step has come."""

_TELL_EVERY: Final = 4096

_encode = msgspec.msgpack.Encoder().encode


class Digest(msgspec.Struct, frozen=True):
    rows: int
    sha256: str


Digests = Mapping[str, Digest]
"""By the name of the table."""


class Hashing:
    """Hashes the rows that pass through."""

    def __init__(self, what: str, tell: Tell) -> None:
        self._what = what
        self._tell = tell
        self._hash = hashlib.sha256()
        self._rows = 0

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            # Texts, bytes, numbers and nulls are told apart, and each row by its length.
            self._hash.update(_encode(row))
            self._rows += 1
            if self._rows % _TELL_EVERY == 0:
                self._tell(f"{self._what}: {self._rows:,} rows")
            yield row

    @property
    def digest(self) -> Digest:
        return Digest(self._rows, self._hash.hexdigest())


def digests_of(db: sqlite3.Connection, tell: Tell) -> dict[str, Digest]:
    """What every table of an SQLite ledger hashes to."""
    found = {}
    for table in tables_in(db):
        hashing = Hashing(f"reading {table.name}", tell)
        for _ in hashing.through(rows_of(db, table)):
            pass
        found[table.name] = hashing.digest
    return found


def require_equal(expected: Digests, found: Digests, what: str) -> None:
    """Damaged, naming the first table that is not what it should be."""
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            raise Damaged(f"{what}: its table '{name}' has {_words(found, name)}, expected {_words(expected, name)}")


def _words(digests: Digests, name: str) -> str:
    digest = digests.get(name)
    return "nothing" if digest is None else f"{digest.rows} rows with sha256 {digest.sha256[:12]}…"
