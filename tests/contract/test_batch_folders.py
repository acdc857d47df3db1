"""The folder in which an ingest records its batches: on local disk and in S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.pipeline.ingest.batches import BatchFolder, BatchLog, LocalFolder, StoreFolder
from moorage.pipeline.ingest.files import SourceFile
from moorage.pipeline.ingest.requests import IngestRefused
from moorage.testing.minio import KEY, REGION, MinioServer


@pytest.fixture(params=["local", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> BatchFolder:
    if request.param == "local":
        return LocalFolder(tmp_path / "table" / "_ingest" / "source")
    minio: MinioServer = request.getfixturevalue("minio")
    keys = {
        "access_key": KEY.access_key_id,
        "secret_key": KEY.secret_access_key,
        "endpoint_override": minio.endpoint,
        "region": REGION,
    }
    return StoreFolder(f"s3://{minio.new_bucket()}/lake/table/_ingest/source", lambda: keys)


def test_a_name_is_taken_once_and_keeps_its_first_bytes(folder: BatchFolder) -> None:
    assert folder.names() == []
    folder.create("a", b"first")
    with pytest.raises(FileExistsError):
        folder.create("a", b"second")
    assert (folder.names(), folder.read("a")) == (["a"], b"first")
    folder.remove("a")
    assert folder.names() == []


def test_a_log_continues_where_another_machine_has_left_it(folder: BatchFolder) -> None:
    files = [SourceFile(f"s3a://in/{number}.json", 1, 1) for number in range(3)]
    first = BatchLog(folder)
    with first.held():
        first.finish(first.plan(files[:2]))
        left = first.plan(files[2:])
    second = BatchLog(folder)
    with second.held():
        assert second.unfinished() == left
        second.finish(left)
        second.finish(left)
        assert second.unfinished() is None
        assert sorted(second.taken()) == [file.path for file in files]
        assert second.plan([]).number == 2


def test_files_that_another_machine_has_planned_since_they_were_compared_are_not_planned_again(
    folder: BatchFolder,
) -> None:
    file = SourceFile("s3a://in/0.json", 1, 1)
    first, second = BatchLog(folder), BatchLog(folder)
    assert first.taken() == second.taken() == {}
    first.finish(first.plan([file]))
    with pytest.raises(IngestRefused, match="another ingest"):
        second.plan([file])
    assert list(second.taken()) == [file.path]


def test_no_batch_is_planned_beside_one_of_another_machine(folder: BatchFolder) -> None:
    """A table that has the later batch would take the earlier one for a repeated one, and its rows would be lost."""
    files = [SourceFile(f"s3a://in/{number}.json", 1, 1) for number in range(2)]
    first, second = BatchLog(folder), BatchLog(folder)
    assert second.unfinished() is None
    running = first.plan(files[:1])
    assert list(second.taken()) == [files[0].path]
    with pytest.raises(IngestRefused, match="another ingest"):
        second.plan(files[1:])
    second.finish(running)
    assert second.plan(files[1:]).number == 1
