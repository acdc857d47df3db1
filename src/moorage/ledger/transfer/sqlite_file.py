"""Ledgers in one SQLite file: copying, checking, sealing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moorage.core.errors import Damaged, InvalidInput, Unavailable
from moorage.ledger.migrations import require_readable
from moorage.ledger.sqlite.connections import FILE
from moorage.ledger.transfer.digests import Digest, Digests, Tell, digests_of, require_equal
from moorage.ledger.transfer.tables import SEAL

_PAGES_AT_ONCE: Final = 4096
# Somebody else is at work, or the disk or its permissions refused us: none of it is damage.
_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_FULL,
    }
)


def ledger_of(folder: Path) -> Path:
    """The file of a data folder's ledger. Opening it would make one, so a wrong folder is refused before."""
    file = folder / FILE
    if not file.is_file():
        raise InvalidInput(f"there is no ledger in {folder}: name the data folder of a server", field="data")
    return file


@contextlib.contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """One moment of a ledger, held while others write on. Needs no lock of the folder."""
    with plain_words(file), contextlib.closing(_connect(file, "ro")) as db:
        db.execute("pragma busy_timeout = 10000")
        db.execute("begin")
        db.execute("select 1 from sqlite_schema").fetchone()  # the moment is taken at the first read
        yield db


@contextlib.contextmanager
def writing(partial: Path, *, named: Path) -> Iterator[sqlite3.Connection]:
    """A file that nobody else knows yet: a crash loses it anyway, so nothing waits for the disk.

    Errors speak of the file that the user named.
    """
    with plain_words(named), contextlib.closing(_connect(partial, "rw")) as db:
        db.execute("pragma journal_mode = delete")  # a copy of a live ledger says that it has a write-ahead log
        db.execute("pragma journal_mode = memory")
        db.execute("pragma synchronous = off")
        yield db


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)


@contextlib.contextmanager
def plain_words(file: Path) -> Iterator[None]:
    """Errors of SQLite as errors of ours that name the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _PASSING:
            raise Unavailable(
                f"cannot use {file}: {error}; check its permissions and the free space, then run the command again"
            ) from error
        raise Damaged(f"{file} is damaged or no ledger: {error}; use a good backup") from error


def copy(source: sqlite3.Connection, to: Path, tell: Tell) -> None:
    """Copy all pages of the moment that the source holds."""

    def on_step(_: int, left: int, total: int) -> None:
        tell(f"copying: {total - left:,} of {total:,} pages")

    with contextlib.closing(_connect(to, "rw")) as target:
        # In steps only for the sake of progress: the source's open transaction keeps the steps together.
        source.backup(target, pages=_PAGES_AT_ONCE, progress=on_step, sleep=0)


def check(db: sqlite3.Connection, file: Path) -> None:
    """Damaged, unless every page and index is sound and the schema is one that this code can read."""
    words = db.execute("pragma integrity_check(1)").fetchone()[0]
    if words != "ok":
        raise Damaged(f"{file} is damaged: {words.splitlines()[-1]}; use a good backup")
    require_readable(db.execute("select max(oldest_code) from schema_version").fetchone()[0])


def seal(db: sqlite3.Connection, digests: Digests) -> None:
    """Write into a backup what its tables must hash to."""
    db.execute("begin")
    db.execute(f"drop table if exists {SEAL}")
    db.execute(
        f"create table {SEAL} (table_name text primary key, row_count integer not null, sha256 text not null) strict"
    )
    db.executemany(f"insert into {SEAL} values (?, ?, ?)", [(name, d.rows, d.sha256) for name, d in digests.items()])
    db.execute("commit")


def require_sealed(db: sqlite3.Connection, file: Path, tell: Tell) -> dict[str, Digest]:
    """The digests of a backup, after every table was found to be what they say."""
    check(db, file)
    if db.execute("select 1 from sqlite_schema where name = ?", (SEAL,)).fetchone() is None:
        raise InvalidInput(f"{file} is no backup: make one with `moorage backup`")
    expected = {name: Digest(rows, sha256) for name, rows, sha256 in db.execute(f"select * from {SEAL}")}
    require_equal(expected, digests_of(db, tell), f"the backup {file} is damaged, use another one")
    return expected


def last_seq(db: sqlite3.Connection) -> int:
    return int(db.execute("select coalesce(max(seq), 0) from entry").fetchone()[0])
