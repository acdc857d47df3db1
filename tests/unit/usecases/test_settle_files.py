"""Files of a part: they stay if the entry exists or may exist, and are deleted if it does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from msgspec.structs import force_setattr

from moorage.core.callers import Caller
from moorage.core.entries import Done, IdempotencyKey, KeysFree, Receipt
from moorage.core.errors import OutcomeUnknown, Unavailable
from moorage.core.ids import SecurableId, Seq
from moorage.core.securables import MAIN
from moorage.ledger.port import Stale
from moorage.testing import builders as make
from moorage.usecases.parts import File, NewFile, Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Prepare, settle
from tests.unit.usecases.test_settle import EXPECT, Script, errand, ports_on

TABLE = SecurableId("table")


class Disk:
    """Storage in memory. The file `broken` can be neither written nor deleted."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"old": b"", "broken": b""}

    async def overwrite(self, root: str, path: str, data: bytes) -> None:
        if path == "broken":
            raise Unavailable("the disk is full")
        self.files[path] = data

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        await self.overwrite(root, path, data)
        return path.startswith("durable")

    async def delete(self, root: str, path: str) -> None:
        if path == "broken":
            raise Unavailable("the disk is read-only")
        self.files.pop(path, None)


def at(ledger: Script) -> tuple[Ports, Disk]:
    ports, disk = ports_on(ledger), Disk()
    force_setattr(ports, "storage", cast(Any, disk))
    return ports, disk


def writing(name: Callable[[], str], **given: Any) -> Prepare:
    async def prepare(_: Caller) -> list[Part]:
        return [Part(files=(NewFile("r", name(), b"x"),), done=Done(ids=("i",)), **given)]

    return prepare


async def test_the_file_of_a_stale_attempt_is_deleted_and_that_of_the_last_one_stays() -> None:
    ports, disk = at(Script(Stale(EXPECT), Stale(EXPECT)))
    names = iter(("first", "second", "third"))
    await settle(ports, errand(), writing(lambda: next(names)))
    assert set(disk.files) == {"old", "broken", "third"}


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        (Unavailable("no"), False),
        (OutcomeUnknown("unknown"), True),
        (Receipt(seq=Seq(3), at_ms=1, outcome=Done(ids=("x",)), replayed=True), False),
    ],
)
async def test_a_file_stays_only_if_its_entry_may_exist(answer: Any, stays: bool) -> None:  # noqa: FBT001
    ports, disk = at(Script(answer))
    with suppress(Unavailable, OutcomeUnknown):
        await settle(ports, errand(key="k"), writing(lambda: "new"))
    assert ("new" in disk.files) is stays


@pytest.mark.parametrize("before", [1, 20])
async def test_if_one_file_cannot_be_written_none_stays_and_nothing_is_appended(before: int) -> None:
    ledger = Script()
    ports, disk = at(ledger)

    async def prepare(_: Caller) -> list[Part]:
        return [Part(files=(NewFile("r", path, b"x"),)) for path in (*map(str, range(before)), "broken", "two")]

    with pytest.raises(Unavailable, match="disk is full"):
        await settle(ports, errand(), prepare)
    assert set(disk.files) == {"old", "broken"}
    assert ledger.drafts == []


async def test_obsolete_files_are_deleted_after_the_append_and_never_fail_it() -> None:
    for obsolete, left in (("old", {"broken"}), ("broken", {"old", "broken"})):
        ports, disk = at(Script())
        await settle(ports, errand(), writing(lambda: "new", obsolete=(File("r", obsolete),)))
        assert set(disk.files) == {*left, "new"}
    ports, disk = at(Script(Unavailable("no")))
    with pytest.raises(Unavailable):
        await settle(ports, errand(), writing(lambda: "new", obsolete=(File("r", "old"),)))
    assert "old" in disk.files


@pytest.mark.parametrize(
    "answer", [Stale(KeysFree(("k",))), Receipt(seq=Seq(3), at_ms=1, outcome=Done(), replayed=True)]
)
async def test_a_used_key_of_another_request_is_reported_without_a_retry(answer: Any) -> None:
    ledger = Script(answer)
    ports, disk = at(ledger)
    keys = (IdempotencyKey(value="k", fingerprint="p", lifetime_ms=1),)
    with pytest.raises(Stale) as stale:
        await settle(ports, errand(), writing(lambda: "new", keys=keys))
    assert stale.value.expect == KeysFree(("k",))
    assert (len(ledger.drafts), "new" in disk.files) == (1, False)


@pytest.mark.parametrize(
    ("file", "is_unsynced"),
    [
        (NewFile("r", "durable", b"x", is_in_ledger=True), False),
        (NewFile("r", "kept", b"x", is_in_ledger=True), True),
        (NewFile("r", "large", b"x"), False),
    ],
)
async def test_only_a_file_that_is_not_durable_is_recorded_as_unsynced(file: NewFile, is_unsynced: bool) -> None:  # noqa: FBT001
    ledger = Script()
    ports, disk = at(ledger)
    document, other = make.attached(TABLE, 7, document=b"{}"), make.attached(TABLE, 7, ref="branch", staged=b"x")

    async def prepare(_: Caller) -> list[Part]:
        return [Part(files=(file,), attachments=(document, other))]

    await settle(ports, errand(), prepare)
    assert file.path in disk.files
    assert [each.unsynced for each in ledger.drafts[-1].attachments] == [is_unsynced, False]
    assert ports.local.unsynced == ({(TABLE, MAIN): 7} if is_unsynced else {})
