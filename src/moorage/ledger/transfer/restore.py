"""Restores a backup into a folder or database without a ledger."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from pathlib import Path

from moorage.core.errors import InvalidInput
from moorage.ledger.faults import reach
from moorage.ledger.sqlite.connections import FILE, lock_folder, require_not_moved
from moorage.ledger.transfer import sqlite_file
from moorage.ledger.transfer.atomic_file import create_atomically
from moorage.ledger.transfer.digests import Digest, Tell
from moorage.ledger.transfer.move import copy_into_database
from moorage.ledger.transfer.tables import SEAL


def restore_folder(backup: Path, folder: Path, tell: Tell) -> dict[str, Digest]:
    """Restore a backup into a data folder without a ledger. If it was killed, run it again."""
    _require_file(backup)
    with contextlib.closing(lock_folder(folder)):
        require_not_moved(folder)
        _require_no_ledger(folder)
        with create_atomically(folder / FILE) as partial:
            tell("copying the backup")
            shutil.copyfile(backup, partial)
            reach("transfer.copied")
            # The copy is verified, not the backup, because the copy becomes the ledger.
            with sqlite_file.writing(partial, named=backup) as db:
                digests = sqlite_file.require_sealed(db, backup, tell)
                db.execute(_extend_holds(db))
                db.execute(f"drop table {SEAL}")
            reach("transfer.compared")
            return digests


async def restore_database(backup: Path, url: str, tell: Tell) -> dict[str, Digest]:
    """Restore a backup into an empty database. If it was killed, the database is still empty: run it again."""
    _require_file(backup)
    with sqlite_file.reading(backup) as db:
        sqlite_file.require_sealed(db, backup, tell)
        return await copy_into_database(db, url, tell, amend={"securable": _extend_holds(db)})


def _extend_holds(db: sqlite3.Connection) -> str:
    """The statement that extends holds and lifetimes by the age of the backup.

    An object that was dropped then may have been undropped since, and a staging table may have become a table. Without
    the extension, a server would purge their files as soon as it starts, before an operator can undrop them again.
    """
    last = db.execute("select at_ms from entry order by seq desc limit 1").fetchone()
    age_ms = 0 if last is None else max(0, time.time_ns() // 1_000_000 - last[0])
    return (
        f"update securable set purge_at = purge_at + {age_ms}, expires_at = expires_at + {age_ms} "
        "where purge_at is not null or expires_at is not null"
    )


def _require_file(backup: Path) -> None:
    if not backup.is_file():
        raise InvalidInput(f"there is no backup {backup}: name the file that `moorage backup` wrote", field="from")


def _require_no_ledger(folder: Path) -> None:
    # SQLite would replay a left-over write-ahead log into the restored file and corrupt it.
    found = [folder / name for name in (FILE, f"{FILE}-wal", f"{FILE}-journal") if (folder / name).exists()]
    if found:
        raise InvalidInput(
            f"the data folder {folder} holds a ledger ({found[0].name}): restore into an empty one, or move it away"
        )
