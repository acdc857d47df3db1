"""A COMMIT that the disk refuses has no effect. After a failed fsync the outcome is unknown, and the server exits."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from moorage.core.entries import HeadIs, Receipt
from moorage.core.errors import OutcomeUnknown, Unavailable
from moorage.core.securables import MAIN
from moorage.ledger.sqlite import SqliteLedger, store, writer
from moorage.testing import builders as make


class FaultyDisk(sqlite3.Connection):
    """A connection whose next COMMIT fails with this code, as after an error of the operating system."""

    fails_with: int | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql == "commit" and self.fails_with is not None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, self.fails_with = self.fails_with, None
            raise error
        return super().execute(sql, parameters)


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> list[FaultyDisk]:
    """The connections of the next ledger: the reader's, then the writer's."""
    opened: list[FaultyDisk] = []
    connect = sqlite3.connect

    def connect_to_faulty_disk(*args: Any, **settings: Any) -> FaultyDisk:
        opened.append(connect(*args, **settings, factory=FaultyDisk))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_to_faulty_disk)
    return opened


@pytest.fixture(autouse=True, params=["on the loop", "on a thread"])
def commit_on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits to a slow disk run on a thread."""
    if request.param == "on a thread":
        monkeypatch.setattr(writer, "_FAST_DISK_SECONDS", 0.0)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE])
async def test_a_batch_that_the_disk_refused_is_retried_draft_by_draft(
    tmp_path: Path, disks: list[FaultyDisk], code: int
) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    lake = await make.lake(ledger)
    disks[1].fails_with = code
    drafts = [make.draft(make.commit(lake.table, n), expects=[HeadIs(lake.table, MAIN, n - 1)]) for n in (1, 2, 3)]
    receipts = [answer for answer in await make.gather(ledger, *drafts) if isinstance(answer, Receipt)]
    assert [receipt.seq for receipt in receipts] == [3, 4, 5]
    disks[1].fails_with = code
    with pytest.raises(Unavailable, match="nothing was written"):
        await make.add(ledger, make.commit(lake.table, 4))
    assert (await ledger.position()).seq == 5
    await ledger.close()


async def test_after_a_failed_fsync_outcomes_are_unknown_and_drafts_are_refused(
    tmp_path: Path, disks: list[FaultyDisk]
) -> None:
    fatal_errors: list[str] = []
    ledger = await SqliteLedger.open(tmp_path, fatal=fatal_errors.append)
    await make.lake(ledger, "a")
    disks[1].fails_with = sqlite3.SQLITE_IOERR_FSYNC
    drafts = [make.draft(make.catalog(ledger.root, name)) for name in "bcd"]
    assert [type(answer) for answer in await make.gather(ledger, *drafts)] == [OutcomeUnknown] * 3
    assert len(fatal_errors) == 1
    assert "disk failed" in fatal_errors[0]
    for name in "ef":
        with pytest.raises(Unavailable):
            await make.add(ledger, make.catalog(ledger.root, name))
    await ledger.close()


def test_a_server_exits_when_its_disk_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    exit_codes: list[int] = []
    monkeypatch.setattr("os._exit", exit_codes.append)
    store._exit_now("the disk failed")
    assert exit_codes == [70]
