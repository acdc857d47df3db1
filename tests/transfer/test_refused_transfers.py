"""Damaged, unknown or busy sources and targets are refused with a reason, and nothing is left behind."""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from moorage.core.errors import Damaged, InvalidInput, MoorageError, Unavailable
from moorage.ledger.sqlite.connections import FILE
from moorage.ledger.transfer import sqlite_file
from moorage.ledger.transfer.backup import back_up_folder
from moorage.ledger.transfer.digests import digests_of
from moorage.ledger.transfer.restore import restore_database
from moorage.ledger.transfer.upgrade import upgrade_folder
from moorage.testing import builders as make
from tests.transfer.stores import NewStore, fill, silent


def forge(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("update entry set caller = 'mallory' where seq = 2")
        db.commit()


def lose_a_row(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("delete from receipt where key = 'k2'")
        db.commit()


def truncate(backup: Path) -> None:
    os.truncate(backup, backup.stat().st_size // 2)


def overwrite_page(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as db:
        size = db.execute("pragma page_size").fetchone()[0]
        page = db.execute("select rootpage from sqlite_schema where name = 'entry'").fetchone()[0]
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xaa" * 100)


def remove_seal(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("drop table backup_info")


def replace_with_text(backup: Path) -> None:
    backup.write_text("This is no database at all. " * 1000)


def raise_schema_version(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("insert into schema_version values (99, 99)")
        db.commit()


DAMAGES: list[tuple[Callable[[Path], None], type[MoorageError], str]] = [
    (forge, Damaged, r"good.db is damaged, use another one: its table 'entry' has \d+ rows with"),
    (lose_a_row, Damaged, "good.db is damaged, use another one: its table 'receipt' has 1 rows with"),
    (truncate, Damaged, "good.db is damaged"),
    (overwrite_page, Damaged, "good.db is damaged"),
    (remove_seal, InvalidInput, "good.db is not a backup: make one with `moorage backup`"),
    (replace_with_text, Damaged, "good.db is damaged or not a ledger: file is not a database"),
    (raise_schema_version, Unavailable, "needs Moorage with schema code 99 or newer"),
    (Path.unlink, InvalidInput, "there is no backup .*good.db"),
]


@pytest.mark.parametrize(("damage", "error", "words"), DAMAGES, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_damaged_backup_is_refused_and_leaves_an_empty_folder(
    damage: Callable[[Path], None], error: type[MoorageError], words: str, backup: Path, new_store: NewStore
) -> None:
    damage(backup)
    new = new_store("sqlite")
    with pytest.raises(error, match=words):
        await new.restore(backup)
    assert [path.name for path in new.folder.iterdir()] in ([], ["ledger.lock"])


@pytest.mark.postgres
async def test_a_damaged_backup_is_refused_and_leaves_an_empty_database(backup: Path, new_store: NewStore) -> None:
    forge(backup)
    new = new_store("postgres")
    with pytest.raises(Damaged, match=r"good.db is damaged, use another one: its table 'entry'"):
        await new.restore(backup)
    async with new.ledger() as ledger:
        assert (await ledger.position()).seq == 1


async def test_the_backup_of_a_damaged_ledger_is_refused(new_store: NewStore, tmp_path: Path) -> None:
    old = new_store("sqlite")
    async with old.ledger() as ledger:
        await fill(ledger)
    overwrite_page(old.folder / FILE)
    target = tmp_path / "out" / "backup.db"
    target.parent.mkdir()
    with pytest.raises(Damaged, match=r"ledger.db is damaged.*use an intact backup"):
        await old.back_up(target)
    assert list(target.parent.iterdir()) == []


async def test_nothing_that_exists_is_overwritten(backup: Path, new_store: NewStore) -> None:
    used = new_store("sqlite")
    async with used.ledger() as ledger:
        await make.lake(ledger)
        with pytest.raises(InvalidInput, match=r"good.db already exists: choose another name"):
            await used.back_up(backup)
        with pytest.raises(Unavailable, match=r"another Moorage .* is using the data folder"):
            await used.restore(backup)
    with pytest.raises(InvalidInput, match=r"holds a ledger \(ledger.db\): restore into an empty one"):
        await used.restore(backup)
    async with used.ledger() as ledger:
        assert (await ledger.position()).seq == 2


async def test_a_restore_refuses_a_folder_with_a_write_ahead_log(backup: Path, new_store: NewStore) -> None:
    new = new_store("sqlite")
    (new.folder / f"{FILE}-wal").write_bytes(b"from a ledger that was deleted")
    with pytest.raises(InvalidInput, match=r"holds a ledger \(ledger.db-wal\)"):
        await new.restore(backup)


@pytest.mark.parametrize("act", [lambda f: back_up_folder(f, f / "b", silent), upgrade_folder])
def test_a_folder_without_a_ledger_is_refused_and_left_empty(act: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no ledger in"):
        act(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgres
@pytest.mark.parametrize(
    "change", ["insert into schema_version values (99, 1)", "alter table entry add column to_come text"]
)
async def test_a_backup_with_another_schema_version_is_not_restored_into_a_database(
    change: str, backup: Path, new_store: NewStore
) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute(change)
        db.commit()
    with contextlib.closing(sqlite3.connect(backup)) as db:
        sqlite_file.seal(db, digests_of(db, silent))
    with pytest.raises(Unavailable, match="different schema versions: upgrade both with `moorage migrate`"):
        await new_store("postgres").restore(backup)


@pytest.mark.postgres
async def test_a_database_of_a_later_release_is_not_backed_up_partially(new_store: NewStore, tmp_path: Path) -> None:
    later = new_store("postgres")
    async with later.ledger():
        pass
    operator = await asyncpg.connect(later.url)
    await operator.execute("create table to_come (x int); insert into schema_version values (99, 1)")
    await operator.close()
    with pytest.raises(Unavailable, match="different schema versions"):
        await later.back_up(tmp_path / "later.db")


async def test_an_unreachable_database_is_refused_with_advice(backup: Path) -> None:
    with pytest.raises(Unavailable, match=r"the database failed or is unreachable: .*run the same command again"):
        await restore_database(backup, "postgresql://127.0.0.1:1/nothing", silent)
