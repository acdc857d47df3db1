"""Managed tables: the ledger decides which versions exist, and the folder follows."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from moorage.core.errors import Damaged, InvalidInput, VersionNotFound
from moorage.formats.delta.replay import to_files
from moorage.snapshots.snapshot import Snapshot
from moorage.snapshots.snapshots import Snapshots
from moorage.snapshots.table_ref import Ratified
from moorage.storage.local import LocalStorage
from moorage.storage.port import Listed
from tests.snapshots.log_builder import IN_COMMIT_TIMES, LogBuilder, add, lines, metadata, remove

MANAGED = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["catalogManaged", "v2Checkpoint"],
    "writerFeatures": ["catalogManaged", "v2Checkpoint", "inCommitTimestamp"],
}


def info(at_ms: int) -> dict[str, Any]:
    return {"commitInfo": {"inCommitTimestamp": at_ms, "operation": "WRITE"}}


def create(log: LogBuilder) -> None:
    log.commit(info(1_000), {"protocol": MANAGED}, metadata(configuration=IN_COMMIT_TIMES), add("a"))


def stage(log: LogBuilder, version: int) -> Ratified:
    path = f"_delta_log/_staged_commits/{version:020}.uuid.json"
    log.write(path.removeprefix("_delta_log/"), log.bytes_of(version))
    return Ratified(version=version, path=path)


def inline(log: LogBuilder, version: int) -> Ratified:
    return Ratified(version=version, data=log.bytes_of(version))


def paths(snapshot: Snapshot) -> set[str]:
    return {file.path for file in to_files(snapshot.select())}


async def test_ratified_commits_are_visible_before_they_are_published(log: LogBuilder, snapshots: Snapshots) -> None:
    create(log)
    log.commit(info(2_000), add("b"), publish=False)
    log.commit(info(3_000), remove("a"), add("c"), publish=False)
    ref = log.ref(ratified=(stage(log, 1), inline(log, 2)))
    newest = await snapshots.at(ref)
    assert (newest.version, newest.timestamp_ms, paths(newest)) == (2, 3_000, {"b", "c"})
    assert paths(await snapshots.at(ref, 1)) == {"a", "b"}


async def test_a_file_above_the_head_is_not_a_version(log: LogBuilder, snapshots: Snapshots) -> None:
    create(log)
    log.commit(info(2_000), add("b"))
    log.commit(info(3_000), add("never ratified"))
    log.checkpoint(2)
    log.hint(2)
    assert paths(await snapshots.at(log.ref(head=1))) == {"a", "b"}
    with pytest.raises(VersionNotFound, match="version 2 does not exist; the latest is 1"):
        await snapshots.at(log.ref(head=1), 2)


async def test_a_commit_in_the_ledger_takes_precedence_over_a_published_file(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    create(log)
    log.commit(info(2_000), add("b"), publish=False)
    log.write(f"{1:020}.json", lines([info(2_000), add("forged")]))
    assert paths(await snapshots.at(log.ref(ratified=(inline(log, 1),)))) == {"a", "b"}


async def test_a_commit_whose_staged_file_is_missing_is_read_from_its_published_file(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    create(log)
    log.commit(info(2_000), add("b"))
    missing = Ratified(version=1, path="_delta_log/_staged_commits/missing.json")
    assert paths(await snapshots.at(log.ref(ratified=(missing,)))) == {"a", "b"}


async def test_a_commit_whose_staged_file_was_changed_is_read_from_its_published_file(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    create(log)
    log.commit(info(2_000), add("b"))
    data = log.bytes_of(1)
    log.write("_staged_commits/changed.json", data.upper())
    path = "_delta_log/_staged_commits/changed.json"
    changed = Ratified(version=1, path=path, size=len(data), digest=sha256(data).hexdigest())
    assert paths(await snapshots.at(log.ref(ratified=(changed,)))) == {"a", "b"}


@pytest.mark.parametrize("wrong", [{"size": 1}, {"digest": sha256(b"other").hexdigest()}])
async def test_bytes_that_differ_from_the_ratified_commit_are_damage(
    log: LogBuilder, snapshots: Snapshots, wrong: dict[str, Any]
) -> None:
    create(log)
    log.commit(info(2_000), add("b"), publish=False)
    data = log.bytes_of(1)
    right = Ratified(version=1, data=data, size=len(data), digest=sha256(data).hexdigest())
    assert paths(await snapshots.at(log.ref(ratified=(right,)))) == {"a", "b"}
    with pytest.raises(Damaged, match="version 1 of table t differs from the ratified commit"):
        await Snapshots(LocalStorage(log.folder)).at(log.ref(ratified=(Ratified(version=1, data=data, **wrong),)))


async def test_a_staged_path_outside_the_table_is_refused(log: LogBuilder, snapshots: Snapshots) -> None:
    create(log)
    with pytest.raises(InvalidInput):
        await snapshots.at(log.ref(ratified=(Ratified(version=1, path="../x"),)))


class Counting(LocalStorage):
    """Records every read and listing."""

    def __init__(self, *roots: Path) -> None:
        super().__init__(*roots)
        self.reads: list[str] = []

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        self.reads.append(path.removeprefix("_delta_log/"))
        return await super().read(root, path, limit=limit)

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        self.reads.append("list")
        return await super().list(root, prefix, after=after)


async def test_a_new_version_reads_its_own_commit_and_lists_nothing(log: LogBuilder, tmp_path: Path) -> None:
    create(log)
    storage = Counting(tmp_path)
    snapshots = Snapshots(storage)
    await snapshots.at(log.ref(head=0))
    storage.reads.clear()
    log.commit(info(2_000), add("b"))
    log.commit(info(3_000), add("c"), publish=False)
    newest = log.ref(head=2, ratified=(inline(log, 2),))
    assert paths(await snapshots.at(newest)) == {"a", "b", "c"}
    assert storage.reads == [f"{1:020}.json"]
    storage.reads.clear()
    assert (await snapshots.at(newest)).version == 2
    assert storage.reads == []


async def test_commits_that_were_deleted_are_read_from_a_checkpoint(log: LogBuilder, snapshots: Snapshots) -> None:
    create(log)
    await snapshots.at(log.ref(head=0))
    for version in range(1, 6):
        log.commit(info(1_000 * version), add(f"{version}"))
    log.checkpoint(4, "v2 parquet with sidecars")
    log.hint(4)
    log.delete_commits(0, 1, 2, 3)
    assert paths(await snapshots.at(log.ref(head=5))) == {"a", "1", "2", "3", "4", "5"}


async def test_a_table_whose_commits_are_all_published_needs_only_its_head(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    create(log)
    log.commit(info(2_000), add("b"))
    snapshot = await snapshots.at(log.ref(head=1))
    assert (snapshot.timestamp_ms, paths(snapshot)) == (2_000, {"a", "b"})
    assert snapshot.commit_info == {"inCommitTimestamp": 2_000, "operation": "WRITE"}
