"""The files of an ingest, and the log of its batches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.pipeline.ingest.files import BatchLog, SourceFile, _write_new, find_files, input_format_of, source_id
from moorage.pipeline.ingest.parsing import _reason
from moorage.pipeline.ingest.requests import IngestRefused
from moorage.pipeline.ingest.run import _file_in


def test_hidden_and_unfinished_files_are_not_part_of_a_source(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    (tmp_path / "_done").mkdir()
    for name in ("a.json", ".b.json", "_SUCCESS", "c.json.tmp", "day/d.json", "_done/e.json"):
        (tmp_path / name).write_text("{}")
    assert [Path(file.path).name for file in find_files(str(tmp_path))] == ["a.json", "d.json"]
    assert [Path(file.path).name for file in find_files(f"{tmp_path}/*/d*.json")] == ["d.json"]
    assert [Path(file.path).name for file in find_files((tmp_path / "a.json").as_uri())] == ["a.json"]


def test_the_oldest_file_comes_first(tmp_path: Path) -> None:
    for name, at in (("a.json", 200), ("b.json", 100)):
        (tmp_path / name).write_text("{}")
        os.utime(tmp_path / name, (at, at))
    assert [Path(file.path).name for file in find_files(str(tmp_path))] == ["b.json", "a.json"]


def test_a_folder_has_one_id_in_every_spelling(tmp_path: Path) -> None:
    assert source_id(str(tmp_path)) == source_id(f"{tmp_path}/") == source_id(tmp_path.as_uri())


@pytest.mark.parametrize(
    ("names", "kind"), [(["a.json", "b.jsonl.gz"], "json"), (["a.tsv"], "csv"), (["x.log", "y.txt"], "text")]
)
def test_the_names_of_files_tell_their_format(names: list[str], kind: str) -> None:
    assert input_format_of([SourceFile(name, 1, 1) for name in names], "in") == kind


def test_names_of_several_formats_are_refused() -> None:
    with pytest.raises(IngestRefused, match="--input-format"):
        input_format_of([SourceFile("a.json", 1, 1), SourceFile("b.csv", 1, 1)], "in")


def test_a_planned_batch_is_repeated_until_it_is_done(tmp_path: Path) -> None:
    log, file = BatchLog(tmp_path / "log"), SourceFile("/in/a.json", 1, 1)
    assert log.unfinished() is None
    batch = log.plan([file])
    assert BatchLog(tmp_path / "log").unfinished() == batch
    assert log.taken() == {"/in/a.json": file}
    log.finish(batch)
    assert log.unfinished() is None
    assert log.plan([]).number == 1


def test_two_runs_cannot_take_the_same_number(tmp_path: Path) -> None:
    _write_new(tmp_path / "0000000000.batch", b"{}")
    with pytest.raises(FileExistsError):
        _write_new(tmp_path / "0000000000.batch", b"{}")
    assert [file.name for file in tmp_path.iterdir()] == ["0000000000.batch"]


@pytest.mark.parametrize(
    "message",
    [
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a%20b.parquet. SQLSTATE: KD001",
        "file:/in/a%20b.parquet is not a Parquet file",
    ],
)
def test_the_file_that_an_error_names_is_found(message: str) -> None:
    files = [SourceFile("/in/c.parquet", 1, 1), SourceFile("/in/a b.parquet", 1, 1)]
    assert _file_in(message, files) == files[1]
    assert _file_in("out of memory", files) is None


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{broken", "not valid JSON"),
        ("[1]", "expected a JSON object, not list"),
        ('{"id": "x"}', "the field 'id' is not of type bigint"),
        ('{"id": 1, "tags": 2}', "the field 'tags' is not of type array<string>"),
    ],
)
def test_a_rejected_record_gets_its_reason(record: str, reason: str) -> None:
    assert reason in _reason("json", record, {"id": "bigint", "tags": "array<string>"})
