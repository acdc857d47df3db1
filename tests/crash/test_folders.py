"""A full disk or a read-only folder gives a clear error, loses nothing, and writing continues afterwards."""

import os
import sqlite3
from pathlib import Path

import pytest

from moorage.core.entries import HeadIs, Receipt
from moorage.core.errors import Unavailable
from moorage.core.securables import MAIN
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from tests.crash.children import require_gapless, run_victim


@pytest.mark.slow
async def test_a_full_disk_loses_nothing_and_writing_continues_when_there_is_space(tmp_path: Path) -> None:
    child = run_victim("run-out-of-disk", str(tmp_path))
    assert child.returncode == 0, child.stderr.decode()
    assert b"Traceback" not in child.stderr, child.stderr.decode()
    ledger = await SqliteLedger.open(tmp_path)
    assert await require_gapless(ledger) == int(child.stdout)
    await ledger.close()


def test_a_ledger_opens_though_its_log_cannot_be_preallocated(tmp_path: Path) -> None:
    child = run_victim("open-on-a-full-disk", str(tmp_path))
    assert (child.returncode, child.stdout) == (0, b"True\n"), child.stderr.decode()
    assert b"cannot preallocate the ledger's write-ahead log" in child.stderr, child.stderr.decode()


def test_a_disk_without_any_space_gives_one_clear_error(tmp_path: Path) -> None:
    child = run_victim("open-without-any-space", str(tmp_path))
    assert child.returncode == 0, child.stderr.decode()
    assert child.stdout.decode().startswith(f"Unavailable: cannot open the ledger {tmp_path / 'ledger.db'}: ")


@pytest.mark.slow
def test_checkpoints_continue_after_a_full_disk(tmp_path: Path) -> None:
    child = run_victim("checkpoint-on-a-full-disk", str(tmp_path))
    assert (child.returncode, child.stdout) == (0, b"True\n"), child.stderr.decode()
    assert b"Traceback" not in child.stderr, child.stderr.decode()


async def test_a_full_database_refuses_one_draft_and_keeps_the_rest_of_its_batch(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    lake = await make.lake(ledger, "light", "heavy")
    light, heavy = lake.tables
    writer = ledger._writer._db
    (pages,) = writer.execute("pragma page_count").fetchone()
    writer.execute(f"pragma max_page_count = {pages + 20}")
    large = make.attached(heavy, 1, document=os.urandom(1_000_000))
    results = await make.gather(
        ledger,
        make.draft(make.commit(light, 1), expects=[HeadIs(light, MAIN, 0)]),
        make.draft(make.commit(heavy, 1), expects=[HeadIs(heavy, MAIN, 0)], attachments=[large]),
        make.draft(make.commit(light, 2), expects=[HeadIs(light, MAIN, 1)]),
    )
    assert [isinstance(result, Receipt) for result in results] == [True, False, True]
    assert isinstance(results[1], Unavailable)
    assert "full" in results[1].message
    assert await require_gapless(ledger) == 4
    writer.execute("pragma max_page_count = 1000000")
    await ledger.append(make.draft(make.commit(heavy, 1), expects=[HeadIs(heavy, MAIN, 0)], attachments=[large]))
    await ledger.close()


def protect(path: Path, mode: int) -> None:
    path.chmod(mode)


def error_of_nobody(folder: Path) -> str:
    child = run_victim("open-as-nobody", str(folder))
    assert child.returncode == 0, child.stderr.decode()
    assert b"Traceback" not in child.stderr, child.stderr.decode()
    return child.stdout.decode()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder that another user can enter, but not write to."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and os.geteuid() == 0 and folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o711)
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    return data


def test_the_error_for_a_read_only_folder_names_it(data: Path) -> None:
    protect(data, 0o555)
    assert error_of_nobody(data).startswith(f"Unavailable: cannot write to the data folder {data}: ")


async def test_the_error_for_a_ledger_in_a_read_only_folder_names_the_folder(data: Path) -> None:
    await (await SqliteLedger.open(data)).close()
    for name in ("ledger.lock", "ledger.db"):
        protect(data / name, 0o444)
    protect(data, 0o555)
    assert error_of_nobody(data).startswith(f"Unavailable: cannot write to the data folder {data}: ")


async def test_the_error_for_a_read_only_ledger_names_its_file(data: Path) -> None:
    await (await SqliteLedger.open(data)).close()
    protect(data, 0o777)
    protect(data / "ledger.lock", 0o666)
    protect(data / "ledger.db", 0o444)
    assert error_of_nobody(data).startswith(f"Unavailable: cannot open the ledger {data / 'ledger.db'}: ")


async def test_the_error_for_a_file_that_is_not_a_ledger_names_it(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"no database at all, but a good deal longer than a header" * 100)
    with pytest.raises(Unavailable, match=r"cannot open the ledger .*ledger.db"):
        await SqliteLedger.open(tmp_path)


async def test_a_ledger_of_a_later_release_is_refused_with_advice(tmp_path: Path) -> None:
    await (await SqliteLedger.open(tmp_path)).close()
    db = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    db.execute("insert into schema_version (version, oldest_code) values (9999, 9999)")
    db.close()
    with pytest.raises(Unavailable, match=r"needs Moorage with schema code 9999.*upgrade Moorage"):
        await SqliteLedger.open(tmp_path)


async def test_a_refused_folder_can_be_opened_after_it_is_repaired(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(Unavailable) as refusal:  # holding the error must not hold the lock of the folder
        await SqliteLedger.open(tmp_path)
    (tmp_path / "ledger.db").unlink()
    await (await SqliteLedger.open(tmp_path)).close()
    assert refusal.value is not None
