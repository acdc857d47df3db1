"""A table at each of its versions, read from the files that its log folder still contains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.core.errors import Damaged, InvalidInput, Unsupported, VersionNotFound
from moorage.formats.delta.replay import to_files
from moorage.snapshots import states
from moorage.snapshots.snapshot import Snapshot
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.local import LocalStorage
from tests.snapshots.log_builder import (
    CHECKPOINT_KINDS,
    FEATURES,
    PROTOCOL,
    CheckpointKind,
    LogBuilder,
    add,
    metadata,
    reconciled,
    remove,
    vector,
)


def write_eight_versions(log: LogBuilder) -> None:
    """Write eight versions that together cover every case of replay."""
    log.commit({"protocol": FEATURES}, metadata(), add("a"), add("b"), {"txn": {"appId": "x", "version": 1}})
    log.commit(add("c", size=3), remove("a"))
    log.commit({"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}}, add("e"))
    log.commit(remove("b"), add("b", deletionVector=vector("v", offset=1)), {"txn": {"appId": "x", "version": 2}})
    log.commit(metadata({"id": "long", "name": "string"}), add("f"))
    log.commit({"domainMetadata": {"domain": "d", "configuration": "1", "removed": True}})
    log.commit(
        remove("b", deletionVector=vector("v", offset=1)), add("b", deletionVector=vector("v", offset=50)), remove("c")
    )
    log.commit({"commitInfo": {"operation": "RESTORE"}}, add("a", size=9), {"txn": {"appId": "y", "version": 1}})


def content_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The whole content of a snapshot, as sorted actions."""
    content: list[tuple[str, object]] = [("add", file) for file in to_files(snapshot.select())]
    content += [("txn", txn) for txn in snapshot.transactions.values()]
    content += [("domainMetadata", domain) for domain in snapshot.domains.values()]
    content += [("protocol", snapshot.protocol), ("metaData", snapshot.metadata)]
    actions = [{kind: json.loads(msgspec.json.encode(value))} for kind, value in content]
    return sorted((_without_defaults(action) for action in actions), key=repr)


def expected_content(log: LogBuilder, version: int) -> list[dict[str, Any]]:
    """The content that the snapshot must have, as sorted actions."""
    actions = [action for action in reconciled(log.commits[: version + 1]) if "remove" not in action]
    return sorted((_without_defaults(action) for action in actions), key=repr)


def _without_defaults(action: dict[str, Any]) -> dict[str, Any]:
    ((kind, value),) = action.items()
    return {
        kind: {name: value[name] for name in sorted(value) if value[name] not in (None, {}, []) and name != "format"}
    }


async def test_every_version_equals_the_replay_of_its_commits(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    for version in (7, 0, 3, 4, 2, 6, 1, 5):
        snapshot = await snapshots.at(log.ref(), version)
        assert snapshot.version == version
        assert content_of(snapshot) == expected_content(log, version)


@pytest.mark.parametrize("kind", CHECKPOINT_KINDS)
@pytest.mark.parametrize("version", [4, 7])
async def test_a_checkpoint_of_any_kind_replaces_the_commits_before_it(
    log: LogBuilder, snapshots: Snapshots, kind: CheckpointKind, version: int
) -> None:
    write_eight_versions(log)
    log.checkpoint(4, kind)
    log.delete_commits(0, 1, 2, 3)
    assert content_of(await snapshots.at(log.ref(), version)) == expected_content(log, version)


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
async def test_a_compacted_log_replaces_its_commits(log: LogBuilder, snapshots: Snapshots, version: int) -> None:
    write_eight_versions(log)
    log.compact(1, 5)
    log.compact(1, 3)
    log.compact(6, 7)
    log.write(f"{2:020}.json", b"never read")
    assert content_of(await snapshots.at(log.ref(), version)) == expected_content(log, version)


async def test_a_compacted_log_does_not_hide_the_commit_info_of_the_version(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    write_eight_versions(log)
    log.compact(1, 7)
    assert (await snapshots.at(log.ref())).commit_info == {"operation": "RESTORE"}


async def test_a_compacted_log_that_extends_past_the_version_is_not_used(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    log.compact(1, 5)
    assert content_of(await snapshots.at(log.ref(), 4)) == expected_content(log, 4)


async def test_versions_before_and_after_the_last_checkpoint_hint_are_read(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    write_eight_versions(log)
    log.checkpoint(4)
    log.hint(4)
    assert content_of(await snapshots.at(log.ref())) == expected_content(log, 7)
    assert content_of(await snapshots.at(log.ref(), 2)) == expected_content(log, 2)


@pytest.mark.parametrize("hint", [b"{", b'{"version":"x"}', b'{"version":99}', b'{"version":6}', b""])
async def test_a_wrong_checkpoint_hint_does_not_change_the_result(
    log: LogBuilder, snapshots: Snapshots, hint: bytes
) -> None:
    write_eight_versions(log)
    log.checkpoint(4)
    log.write("_last_checkpoint", hint)
    assert content_of(await snapshots.at(log.ref())) == expected_content(log, 7)


async def test_a_checkpoint_that_lacks_a_part_is_ignored(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    log.checkpoint(4, "in parts")
    (log.log / f"{4:020}.checkpoint.{2:010}.{3:010}.parquet").unlink()
    assert content_of(await snapshots.at(log.ref())) == expected_content(log, 7)


async def test_a_version_past_the_end_does_not_exist(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    with pytest.raises(VersionNotFound, match="version 8 does not exist; the latest is 7"):
        await snapshots.at(log.ref(), 8)
    with pytest.raises(VersionNotFound):
        await snapshots.at(log.ref(), -1)


async def test_a_version_whose_commits_were_deleted_is_no_longer_available(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    write_eight_versions(log)
    log.checkpoint(5)
    log.delete_commits(0, 1, 2, 3, 4)
    with pytest.raises(VersionNotFound, match="version 4 is no longer available; the oldest available version is 5"):
        await snapshots.at(log.ref(), 4)


async def test_a_version_below_the_floor_is_no_longer_available(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    with pytest.raises(VersionNotFound, match="version 2 is no longer available; the oldest available version is 3"):
        await snapshots.at(log.ref(head=7, floor=3), 2)


async def test_a_gap_in_the_log_is_damage(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    log.delete_commits(3)
    with pytest.raises(Damaged, match="version 7 cannot be read: version 3 is missing from the log"):
        await snapshots.at(log.ref())
    assert content_of(await snapshots.at(log.ref(), 2)) == expected_content(log, 2)


async def test_a_folder_without_a_log_has_no_version(log: LogBuilder, snapshots: Snapshots) -> None:
    with pytest.raises(VersionNotFound, match="there is no Delta log at"):
        await snapshots.at(log.ref())


async def test_a_log_without_metadata_is_damage(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, add("a"))
    with pytest.raises(Damaged, match="no protocol or no metaData"):
        await snapshots.at(log.ref())


async def test_the_error_for_a_damaged_commit_names_its_file(log: LogBuilder, snapshots: Snapshots) -> None:
    write_eight_versions(log)
    log.write(f"{5:020}.json", b'{"add":')
    with pytest.raises(Damaged, match=r"00000000000000000005\.json is damaged: line 1"):
        await snapshots.at(log.ref())


async def test_a_sidecar_that_is_missing_or_outside_its_folder_is_refused(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    write_eight_versions(log)
    log.checkpoint(4, "v2 json with sidecars")
    checkpoint = next(log.log.glob("*.checkpoint.*.json"))
    text = checkpoint.read_text()
    for other, error in (
        ("../../../etc/x.parquet", InvalidInput),
        ("file:///etc/x.parquet", InvalidInput),
        (f"{log.folder}/elsewhere/x.parquet", Damaged),
        ("_delta_log/x.parquet", Damaged),
        ("gone.parquet", Damaged),
    ):
        checkpoint.write_text(text.replace("00000000-0000-0000-0000-000000000064.parquet", other))
        with pytest.raises(error):
            await snapshots.at(log.ref())


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 4, "minWriterVersion": 7},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"], "writerFeatures": ["new"]},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"], "writerFeatures": []},
    ],
)
async def test_a_table_with_unsupported_reader_features_is_refused(
    log: LogBuilder, snapshots: Snapshots, protocol: dict[str, Any]
) -> None:
    log.commit({"protocol": protocol}, metadata())
    with pytest.raises(Unsupported):
        await snapshots.at(log.ref())


@pytest.mark.parametrize(
    "path", ["../other/x.parquet", "/etc/passwd", "s3://bucket/x", "a/../../x", "a%2f..%2f..%2fx", "_delta_log/x", ""]
)
@pytest.mark.parametrize("kind", [None, "classic", "v2 json", "v2 parquet with sidecars"])
async def test_a_path_outside_the_table_is_refused(
    log: LogBuilder, snapshots: Snapshots, path: str, kind: CheckpointKind | None
) -> None:
    log.commit(PROTOCOL, metadata(), add("fine"), add(path))
    if kind is not None:
        log.checkpoint(0, kind)
    with pytest.raises(InvalidInput, match="outside the table"):
        await snapshots.at(log.ref())


@pytest.mark.parametrize("kind", [None, "classic"])
@pytest.mark.parametrize(
    "location",
    [
        {"storageType": "p", "pathOrInlineDv": "file:///etc/passwd"},
        {"storageType": "u", "pathOrInlineDv": "../.." + "0" * 20},
    ],
)
async def test_a_deletion_vector_outside_the_table_is_refused(
    log: LogBuilder, snapshots: Snapshots, kind: CheckpointKind | None, location: dict[str, str]
) -> None:
    log.commit({"protocol": FEATURES}, metadata(), add("a", deletionVector={**vector("x"), **location}))
    if kind is not None:
        log.checkpoint(0, kind)
    with pytest.raises(InvalidInput, match="outside the table"):
        await snapshots.at(log.ref())


async def test_absolute_paths_inside_the_table_are_read(log: LogBuilder, snapshots: Snapshots) -> None:
    inside = [f"file:{log.folder}/x", f"file://{log.folder}/y", f"{log.folder}/z", "with%20space", "day=12%3A00/w"]
    log.commit(PROTOCOL, metadata(), *(add(path) for path in inside))
    assert sorted(file.path for file in to_files((await snapshots.at(log.ref())).select())) == sorted(inside)


async def test_a_log_that_is_cleaned_while_it_is_read_is_read_again(log: LogBuilder, tmp_path: Path) -> None:
    write_eight_versions(log)
    log.checkpoint(2)

    class Cleaning(LocalStorage):
        """At the first read of a commit, a client replaces commits with a checkpoint."""

        cleaned = False

        async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
            if not self.cleaned and path.endswith(f"{3:020}.json"):
                self.cleaned = True
                log.checkpoint(5)
                log.delete_commits(0, 1, 2, 3, 4)
            return await super().read(root, path, limit=limit)

    assert content_of(await Snapshots(Cleaning(tmp_path)).at(log.ref())) == expected_content(log, 7)


async def test_a_large_commit_is_replayed_in_slices(
    log: LogBuilder, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = {"commitInfo": {"operation": "CLONE"}}
    log.commit(
        {"protocol": FEATURES},
        metadata(),
        info,
        *(add(f"{n}") for n in range(100)),
        *(remove(f"{n}") for n in range(50)),
    )
    monkeypatch.setattr(states, "SLICE", 1_000)
    monkeypatch.setattr(states, "PIECE", 300)
    snapshot = await snapshots.at(log.ref())
    assert content_of(snapshot) == expected_content(log, 0)
    assert snapshot.commit_info == {"operation": "CLONE"}


def test_a_server_that_reads_no_log_does_not_load_arrow() -> None:
    code = "import sys, moorage.snapshots.snapshots; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
