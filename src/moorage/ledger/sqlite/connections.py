"""Opens the SQLite file: durability settings, the lock of the folder, migrations."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import IO

from moorage.core.errors import Unavailable
from moorage.ledger.faults import reach
from moorage.ledger.migrations import migrations_of, require_readable

# Without it, sqlite3 looks for an adapter for every null, and creates and discards an exception each time.
sqlite3.register_adapter(type(None), lambda none: none)

FILE = "ledger.db"
_LOCK = "ledger.lock"
_MOVED = "ledger.moved"
LARGEST_LOG = 64 * 1024 * 1024
"""A write-ahead log above this size is truncated when it restarts. A smaller one keeps its size."""


def lock_folder(folder: Path) -> IO[str]:
    """Lock the folder for the life of this process: two writers on one SQLite file starve each other."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / _LOCK, "a+", encoding="ascii")  # noqa: SIM115 - held open on purpose
    except OSError as error:
        raise Unavailable(
            f"cannot write to the data folder {folder}: {error.strerror}; "
            "make it writable or choose another with --data"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read(20).strip() or "unknown"
        lock.close()
        raise Unavailable(
            f"another Moorage (process {holder}) is using the data folder {folder}: stop it, choose another "
            "folder with --data, or run several servers on PostgreSQL with --database"
        ) from error
    lock.truncate(0)
    with suppress(OSError):  # the pid is only informative: a full disk must not prevent the start
        os.write(lock.fileno(), str(os.getpid()).encode())
    return lock


def mark_as_moved(folder: Path) -> None:
    """Mark the ledger as moved. A server that used this copy again would fork the history."""
    (folder / _MOVED).touch()


def require_not_moved(folder: Path) -> None:
    if (folder / _MOVED).exists():
        raise Unavailable(
            f"the ledger of {folder} was moved to PostgreSQL: name the database with --database, or, to continue "
            f"here without anything written there since, remove {folder / _MOVED}"
        )


def connect(file: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode. Writers issue BEGIN and COMMIT themselves."""
    try:
        db = sqlite3.connect(
            f"{file.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
    except sqlite3.Error as error:
        raise _cannot_open(file, error) from error
    try:
        db.execute("pragma busy_timeout = 10000")
        if not read_only:
            db.execute("pragma journal_mode = wal")
        # An acknowledged commit must survive a power failure. NORMAL would lose the last ones.
        db.execute("pragma synchronous = full")
        # Checkpoints run on their own thread: inside a commit they would raise its p99 latency.
        db.execute("pragma wal_autocheckpoint = 0")
        db.execute(f"pragma journal_size_limit = {LARGEST_LOG}")
        db.execute("pragma cache_size = -65536")
        db.execute("pragma temp_store = memory")
        # Debian enables it: deleted data would be overwritten with zeros, and the zeros written to the log.
        db.execute("pragma secure_delete = off")
    except sqlite3.Error as error:
        db.close()
        raise _cannot_open(file, error) from error
    return db


def _cannot_open(file: object, error: sqlite3.Error) -> Unavailable:
    return Unavailable(
        f"cannot open the ledger {file}: {error}; check that it is a ledger, its permissions and the free disk space"
    )


def migrate(db: sqlite3.Connection) -> int:
    """Bring the schema up to date and return its version. Each step is atomic."""
    try:
        return _migrate(db)
    except sqlite3.Error as error:
        if db.in_transaction:
            db.execute("rollback")
        raise _cannot_open(db.execute("pragma database_list").fetchone()[2], error) from error


def _migrate(db: sqlite3.Connection) -> int:
    # SQLite also opens a file that it cannot write. Without this trial write, which is rolled back, the
    # server would start and then refuse every change.
    db.execute("begin immediate")
    db.execute("pragma user_version = 1")
    db.execute("rollback")
    db.execute(
        "create table if not exists schema_version (version integer primary key, oldest_code integer not null) strict"
    )
    at, oldest = db.execute(
        "select coalesce(max(version), 0), coalesce(max(oldest_code), 0) from schema_version"
    ).fetchone()
    require_readable(oldest)
    for step in migrations_of("moorage.ledger.sqlite"):
        if step.version <= at:
            continue
        db.execute("begin immediate")
        reach("migrate.begun")
        for statement in _statements(step.sql):
            db.execute(statement)
        reach("migrate.applied")
        db.execute("insert into schema_version (version, oldest_code) values (?, ?)", (step.version, step.oldest_code))
        db.execute("commit")
        reach("migrate.committed")
        at = step.version
    return int(at)


def _statements(sql: str) -> list[str]:
    """Split a script into statements. `executescript` would commit implicitly."""
    statements, pending = [], ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements
