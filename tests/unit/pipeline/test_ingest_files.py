"""The files of an ingest, and the log of its batches."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from moorage.pipeline.ingest import csv_files
from moorage.pipeline.ingest.batches import BatchLog, LocalFolder
from moorage.pipeline.ingest.csv_files import delimiter_of, has_line_breaks, is_utf8
from moorage.pipeline.ingest.files import (
    SourceFile,
    UnreadableFile,
    find_files,
    input_format_of,
    open_location,
    source_id,
)
from moorage.pipeline.ingest.fitting import by_footer
from moorage.pipeline.ingest.parsing import LineFinder, _header, _reason, explain
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


def test_a_source_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestRefused, match="'gs://lake/in' is neither on local disk nor in S3"):
        find_files("gs://lake/in")
    with pytest.raises(IngestRefused, match=r"cannot be read: .*File name too long"):
        find_files(str(tmp_path / ("x" * 300)))
    (tmp_path / "_a.json").write_text("{}")
    with pytest.raises(IngestRefused, match=r"_a\.json' is a hidden file, which Spark does not read; rename it"):
        find_files(str(tmp_path / "_a.json"))


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
    log, file = BatchLog(LocalFolder(tmp_path / "log")), SourceFile("/in/a.json", 1, 1)
    assert log.unfinished() is None
    batch = log.plan([file])
    assert BatchLog(LocalFolder(tmp_path / "log")).unfinished() == batch
    assert log.taken() == {"/in/a.json": file}
    log.finish(batch)
    assert log.unfinished() is None
    assert log.plan([]).number == 1


def test_two_runs_cannot_take_the_same_number(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.create("0000000000.batch", b"{}")
    with pytest.raises(FileExistsError):
        folder.create("0000000000.batch", b"{}")
    assert [file.name for file in tmp_path.iterdir()] == ["0000000000.batch"]


def test_a_second_run_at_the_same_time_is_refused(tmp_path: Path) -> None:
    """It would take the batch of the first one for one that a kill has left, and write its rows again."""
    first, second = BatchLog(LocalFolder(tmp_path)), BatchLog(LocalFolder(tmp_path))
    with first.held(), pytest.raises(IngestRefused, match="is running"), second.held():
        pass
    with second.held():
        assert second.unfinished() is None


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


def test_a_rejected_record_gets_the_number_of_its_line(tmp_path: Path) -> None:
    """Equal records have the lines in their order, also if they are more than one batch of Arrow has."""
    file = tmp_path / "a.json"
    file.write_text('{"id": 1}\n{broken\n{"id": 2}\n{broken\n[1]\r\n{broken\n')
    batches = [
        pa.RecordBatch.from_pydict({"file": [file.as_uri()] * len(records), "record": records})
        for records in (["{broken", "{broken"], ["[1]", "{broken"])
    ]
    found = [row for batch in explain("json", {"id": "bigint"}, iter(batches)) for row in batch.to_pylist()]
    assert [row["line"] for row in found] == [2, 4, 5, 6]


def test_a_record_that_is_on_no_line_has_no_number_and_the_next_ones_have(tmp_path: Path) -> None:
    first, second, lines = tmp_path / "a", tmp_path / "b", LineFinder()
    for file in (first, second):
        file.write_text("x\ny\nz\n")
    asked = [(first, "x"), (first, "?"), (first, "y"), (second, "z"), (tmp_path / "none", "x"), (first, "z")]
    assert [lines.find(str(file), text) for file, text in asked] == [1, None, 2, 3, None, 3]


def test_a_record_of_several_lines_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,name\r\n1,"x\r\ny"\r\n2,"x\r\ny",3\r\n')
    assert LineFinder().find(str(tmp_path / "a.csv"), '2,"x\ny",3') == 4


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('id,name\n1,"a ""b"", c"\n2,d\n', False),
        ('id,name\n1,"a\nb"\n', True),
        ('id,name\n1,"a', False),
        ("", False),
        ('"' * 4 * 1024 * 1024 + "\n" + '"' * (4 * 1024 * 1024 + 1) + "\n", True),
    ],
)
def test_line_breaks_in_fields_are_found(tmp_path: Path, text: str, found: bool) -> None:  # noqa: FBT001
    (tmp_path / "a.csv").write_text(text)
    assert has_line_breaks(fs.LocalFileSystem(), str(tmp_path / "a.csv")) is found


@pytest.mark.parametrize(
    ("data", "valid"),
    [("é".encode() * 5_000_000, True), (b"caf\xe9\n", False), (b"\xc3", False), (b"", True), (b"a\0b", True)],
    ids=["chunks", "latin", "cut", "empty", "null"],
)
def test_bytes_that_are_not_utf_8_are_found(tmp_path: Path, data: bytes, valid: bool) -> None:  # noqa: FBT001
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data, 1))
    assert is_utf8(str(tmp_path / "a.csv")) is is_utf8(str(tmp_path / "a.csv.gz")) is valid


def test_large_csv_files_are_split_unless_a_field_has_line_breaks(tmp_path: Path) -> None:
    texts = {"small.csv": 'a\n"b\nc"\n', "plain.csv": "a\nb\n", "breaks.csv": 'a\n"b\nc"\n', "packed.csv.gz": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    large = csv_files.SPLIT_BYTES + 1
    sizes = {str(tmp_path / name): 1 if name == "small.csv" else large for name in texts}
    found = csv_files.by_line_breaks(sizes, sizes)
    assert {whole: sorted(Path(path).name for path in paths) for whole, paths in found.items()} == {
        True: ["breaks.csv", "packed.csv.gz", "small.csv"],
        False: ["plain.csv"],
    }


def test_empty_lines_before_the_header_are_not_the_header(tmp_path: Path) -> None:
    """A file that counts as one without a header is left out, and its rows would be lost silently."""
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf\n\r\nid,name\n1,a\n")
    assert _header(str(tmp_path / "a.csv"), ",") == ("id", "name")


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst"])
def test_a_csv_file_that_cannot_be_unpacked_is_named(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.csv.{suffix}"
    file.write_bytes(b"id,name\n1,a\n" * 100)
    with pytest.raises(UnreadableFile, match=rf"a\.csv\.{suffix}: its header cannot be read: "):
        _header(str(file), ",")


def test_the_name_of_a_file_tells_its_delimiter() -> None:
    names = {"/in/a.csv": ",", "/in/a.TSV.gz": "\t", "/in/a.tsv": "\t", "/in/tsv": ","}
    assert {name: delimiter_of(name, None) for name in names} == names
    assert delimiter_of("/in/a.tsv", ";") == ";"


def test_the_keys_of_an_object_store_are_opened_as_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key may have characters that a URL encodes."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for key in ("lake/a b.csv", "lake/é.csv", "lake/ts=1%3A2/x#y?.csv"):
        assert open_location(f"s3a://{key}")[1] == key


@pytest.mark.parametrize("data", [b"", b"PAR1 PAR1", b"x" * 100, b"PAR1" + b"x" * 50 + b"\x10\x00\x00\x00PAR1"])
def test_a_broken_parquet_file_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"a\.parquet: not a Parquet file: "):
        by_footer([str(tmp_path / "a.parquet")])
