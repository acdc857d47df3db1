"""A killed transfer leaves no partial result in use, and can be repeated."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from moorage.ledger.sqlite.connections import FILE
from moorage.ledger.transfer.atomic_file import create_atomically
from moorage.ledger.transfer.move import move
from moorage.testing import builders as make
from tests.transfer.stores import Digests, NewStore, contents_of, fill, silent

IN_A_CHILD = """
import asyncio, sys
from pathlib import Path
from moorage.ledger.transfer.backup import back_up_database, back_up_folder
from moorage.ledger.transfer.move import move
from moorage.ledger.transfer.restore import restore_database, restore_folder
act, one, two = sys.argv[1:]
progress = lambda message: None
match act:
    case "back_up_folder": back_up_folder(Path(one), Path(two), progress)
    case "back_up_database": asyncio.run(back_up_database(one, Path(two), progress))
    case "restore_folder": restore_folder(Path(one), Path(two), progress)
    case "restore_database": asyncio.run(restore_database(Path(one), two, progress))
    case "move": asyncio.run(move(Path(one), two, progress))
"""


async def run_and_kill(act: str, one: object, two: object, at: str) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", IN_A_CHILD, act, str(one), str(two), env={**os.environ, "MOORAGE_DIE_AT": at}
    )
    assert await child.wait() == -signal.SIGKILL


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["transfer.copied", "transfer.compared"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_killed_backup_leaves_nothing_under_its_name_and_the_next_one_cleans_up(
    kind: str, step: str, new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store(kind)
    async with store.ledger() as ledger:
        await fill(ledger)
    target = tmp_path / "out" / "backup.db"
    target.parent.mkdir()
    where = store.folder if kind == "sqlite" else store.url
    await run_and_kill("back_up_folder" if kind == "sqlite" else "back_up_database", where, target, at=step)
    assert not target.exists()
    await store.back_up(target.with_name("tuesday.db"))
    assert [path.name for path in target.parent.iterdir()] == ["tuesday.db"]


async def test_a_backup_does_not_delete_the_partial_file_of_a_running_backup(
    new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store("sqlite")
    async with store.ledger() as ledger:
        await fill(ledger)
    with create_atomically(tmp_path / "monday.db") as partial:
        await store.back_up(tmp_path / "tuesday.db")
        assert partial.exists()
    assert (tmp_path / "monday.db").exists()


@pytest.mark.parametrize("step", ["transfer.copied", "transfer.compared"])
async def test_a_killed_restore_into_a_folder_can_be_repeated(backup: Path, step: str, new_store: NewStore) -> None:
    new = new_store("sqlite")
    await run_and_kill("restore_folder", backup, new.folder, at=step)
    assert not (new.folder / FILE).exists()
    await new.restore(backup)
    assert sorted(path.name for path in new.folder.iterdir()) == [FILE, "ledger.lock"]


async def test_a_restore_killed_after_its_last_step_is_complete(backup: Path, new_store: NewStore) -> None:
    new = new_store("sqlite")
    await run_and_kill("restore_folder", backup, new.folder, at="transfer.renamed")
    async with new.ledger() as ledger:
        last = (await ledger.position()).seq
        assert (await make.add(ledger, make.catalog(ledger.root, "afterwards"))).seq == last + 1


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["transfer.filled", "transfer.compared", "transfer.committed"])
@pytest.mark.parametrize("act", ["restore_database", "move"])
async def test_a_killed_restore_or_move_into_a_database_can_be_repeated(
    act: str, step: str, backup: Path, new_store: NewStore
) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    await old.restore(backup)
    before = await contents_of(old)
    await run_and_kill(act, backup if act == "restore_database" else old.folder, new.url, at=step)
    again: Awaitable[Digests] = new.restore(backup) if act == "restore_database" else move(old.folder, new.url, silent)
    await again
    assert await contents_of(new) == before
