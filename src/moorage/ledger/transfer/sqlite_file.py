"""Copies, checks and seals the SQLite file of a ledger."""

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

_PAGES_PER_STEP: Final = 4096
# The file is locked, or the disk or its permissions refused access. None of these means damage.
_NOT_DAMAGE: Final = frozenset(
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
    """The ledger file of a data folder. A wrong folder is refused here, because opening the file would create one."""
    file = folder / FILE
    if not file.is_file():
        raise InvalidInput(f"there is no ledger in {folder}: name the data folder of a server", field="data")
    return file


@contextlib.contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a consistent snapshot of a ledger. Others may keep writing. Needs no lock on the folder."""
    with translate_errors(file), contextlib.closing(_connect(file, "ro")) as db:
        db.execute("pragma busy_timeout = 10000")
        db.execute("begin")
        db.execute("select 1 from sqlite_schema").fetchone()  # the first read takes the snapshot
        yield db


@contextlib.contextmanager
def writing(partial: Path, *, named: Path) -> Iterator[sqlite3.Connection]:
    """Open a temporary file for writing. A crash discards it anyway, so no write waits for the disk.

    Errors name `named`, the file that the user gave.
    """
    with translate_errors(named), contextlib.closing(_connect(partial, "rw")) as db:
        db.execute("pragma journal_mode = delete")  # a copy of a live ledger is still in WAL mode
        db.execute("pragma journal_mode = memory")
        db.execute("pragma synchronous = off")
        yield db


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)


@contextlib.contextmanager
def translate_errors(file: Path) -> Iterator[None]:
    """Turn SQLite errors into Moorage errors that name the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _NOT_DAMAGE:
            raise Unavailable(
                f"cannot use {file}: {error}; check its permissions and the free space, then run the command again"
            ) from error
        raise Damaged(f"{file} is damaged or not a ledger: {error}; use an intact backup") from error


def copy(source: sqlite3.Connection, to: Path, tell: Tell) -> None:
    """Copy all pages of the source's snapshot."""

    def on_step(_: int, left: int, total: int) -> None:
        tell(f"copying: {total - left:,} of {total:,} pages")

    with contextlib.closing(_connect(to, "rw")) as target:
        # In steps only to report progress. The source's open transaction keeps the steps consistent.
        source.backup(target, pages=_PAGES_PER_STEP, progress=on_step, sleep=0)


def check(db: sqlite3.Connection, file: Path) -> None:
    """Raise Damaged unless every page and index is intact, and Unavailable if the schema is too new."""
    finding = db.execute("pragma integrity_check(1)").fetchone()[0]
    if finding != "ok":
        raise Damaged(f"{file} is damaged: {finding.splitlines()[-1]}; use an intact backup")
    require_readable(db.execute("select max(oldest_code) from schema_version").fetchone()[0])


def seal(db: sqlite3.Connection, digests: Digests) -> None:
    """Store the digests of its tables in a backup."""
    db.execute("begin")
    db.execute(f"drop table if exists {SEAL}")
    db.execute(
        f"create table {SEAL} (table_name text primary key, row_count integer not null, sha256 text not null) strict"
    )
    db.executemany(f"insert into {SEAL} values (?, ?, ?)", [(name, d.rows, d.sha256) for name, d in digests.items()])
    db.execute("commit")


def require_sealed(db: sqlite3.Connection, file: Path, tell: Tell) -> dict[str, Digest]:
    """Check every table of a backup against the stored digests, and return them."""
    check(db, file)
    if db.execute("select 1 from sqlite_schema where name = ?", (SEAL,)).fetchone() is None:
        raise InvalidInput(f"{file} is not a backup: make one with `moorage backup`")
    expected = {name: Digest(rows, sha256) for name, rows, sha256 in db.execute(f"select * from {SEAL}")}
    require_equal(expected, digests_of(db, tell), f"the backup {file} is damaged, use another one")
    return expected


def last_seq(db: sqlite3.Connection) -> int:
    return int(db.execute("select coalesce(max(seq), 0) from entry").fetchone()[0])
