"""The fields of JSON files without a column, which Spark's reader leaves out silently."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from moorage.pipeline.ingest import json_fields
from moorage.pipeline.ingest.files import SourceFile
from moorage.pipeline.ingest.json_fields import (
    FieldScan,
    OnlySparkParses,
    Piece,
    lines_of,
    missing_in_type,
    missing_in_value,
    plan_tasks,
    unknown_in,
)
from moorage.pipeline.ingest.run import unknown_of

LONG_NAME = "name_of_the_owner"
POINT = StructType([StructField("x", LongType()), StructField("y", LongType())])
FLAT = StructType([StructField("id", LongType()), StructField("name", StringType())])
LONG = StructType([*FLAT.fields, StructField("harbours", LongType()), StructField(LONG_NAME, StringType())])
NESTED = StructType(
    [
        StructField("id", LongType()),
        StructField("at", POINT),
        StructField("path", ArrayType(POINT)),
        StructField("marks", MapType(StringType(), POINT)),
        StructField("raw", StringType()),
    ]
)


def fields_in(text: str, schema: StructType = FLAT) -> set[str]:
    scan = FieldScan(schema)
    scan.look_through(text.encode())
    return scan.found


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"id": 1}\n{"name": {"c": [1]}}\n', set()),
        ('{"id": 1}\n{"id": "x", "d": null}', {"d"}),
        ('{"id": 1}\n{broken\n\n[1]\n7\n{"é": true}\n', {"é"}),
        ('{"x": 1, "x": 2}\n', {"x"}),
        ('[{"id": 1}, {"x": 2}]\n', {"x"}),
        ('{"id" : 1, "x" : 2}\n', {"x"}),
        ('{"id"\t: 1, "x"\t: 2}\n', {"x"}),
        ('{"ID": 1, "name": "a"}\n', {"ID"}),
        ('{"a\\"id": 1}\n', {'a"id'}),
        ('{"\\u0069d": 1}\n', set()),
        ('{"name": "\\"x\\": 1"}\n', set()),
        ('{"name": "\\"id\\":", "y": 1}\n', {"y"}),
        ('{"id":1,"name":"a","z":0}\n', {"z"}),
        ("\n \n", set()),
        ("", set()),
    ],
)
def test_every_field_without_a_column_is_found(text: str, fields: set[str]) -> None:
    assert fields_in(text) == fields


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"id": 1, "at": {"x": 1, "id": 2}}\n', {"at.id"}),
        ('{"x": 1, "at": {"x": 1}}\n', {"x"}),
        ('{"path": [{"x": 1}, {"z": 2}], "marks": {"a": {"y": 1, "z": 2}}}\n', {"path.z", "marks.*.z"}),
        ('{"raw": {"any": 1}, "marks": {"any": {"x": 1}}}\n', set()),
        ('{"at": {"z": 1}}\n{"at": {"z": "text"}}\n{broken\n', {"at.z"}),
    ],
)
def test_a_field_in_a_struct_has_the_path_to_it(text: str, fields: set[str]) -> None:
    assert fields_in(text, NESTED) == fields


similar = ["id", "name", 'a"id', "x", "harbour", "harbours", "harboursx", LONG_NAME, LONG_NAME[1:], "N" + LONG_NAME[1:]]
names = st.text(st.sampled_from('idnamexé:" \\,{}\n'), max_size=6) | st.sampled_from([*similar, f'a"{LONG_NAME}'])
records = st.dictionaries(names, st.integers(0, 9) | names | st.dictionaries(names, names, max_size=2), max_size=4)


@given(st.lists(records, max_size=4), st.booleans(), st.booleans(), st.integers(0, 9))
def test_a_comparison_misses_no_field_that_parsing_finds(
    rows: list[dict[str, object]],
    tight: bool,  # noqa: FBT001
    plain: bool,  # noqa: FBT001
    before: int,
) -> None:
    separators = (",", ":") if tight else (", ", ": ")
    lines = '{"id": 1}\n' * before
    lines += "\n".join(json.dumps(row, ensure_ascii=plain, separators=separators) for row in rows)
    assert fields_in(lines, LONG) == {name for row in rows for name in missing_in_value(row, LONG)}


def test_only_lines_that_may_have_other_names_are_parsed() -> None:
    usual = '{"id": 1, "name": "Oslo, 12:30", "harbours": null, "name_of_the_owner": "Ann: \\"x\\""}\n' * 50
    scan = FieldScan(LONG)
    assert scan._names.lines_with_others(usual.encode()) == b""
    other = '{"id": 1, "Harbours": 2}'
    assert scan._names.lines_with_others(f"{usual}{other}\n{usual}".encode()) == other.encode()


def test_a_field_that_was_found_does_not_make_the_next_lines_slow() -> None:
    scan, lines = FieldScan(FLAT), b'{"id": 1, "x": 2}\n'
    assert scan._names.lines_with_others(lines) == lines
    scan.look_through(lines)
    assert scan.found == {"x"}
    assert scan._names.lines_with_others(lines) == b""


def test_names_that_only_spark_accepts_are_left_to_spark() -> None:
    with pytest.raises(OnlySparkParses):
        fields_in("{'id': 1, 'x': 2}\n")


def test_a_record_may_span_chunks_and_files_may_be_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_fields, "CHUNK_BYTES", 64)
    file = tmp_path / "a.json.gz"
    rows = [{f"field_{at}": "x" * at} for at in range(0, 200, 7)]
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = {name for text in lines_of(Piece(str(file))) for name in unknown_in(text, FLAT)}
    assert found == {f"field_{at}" for at in range(0, 200, 7)}


@pytest.mark.parametrize("chunk", [1, 7, 64, 4096])
@pytest.mark.parametrize("size", [1, 10, 33])
def test_the_pieces_of_a_file_have_all_its_lines_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, size: int
) -> None:
    monkeypatch.setattr(json_fields, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(json_fields, "_PIECE_BYTES", size)
    lines = [b"x" * length for length in (3, 0, 40, 9, 10, 1, 1, 25)]
    file = tmp_path / "a.json"
    file.write_bytes(b"\n".join(lines))
    pieces = [piece for task in plan_tasks([SourceFile(str(file), file.stat().st_size, 1)]) for piece in task]
    assert len(pieces) > 1
    found = {line for piece in pieces for text in lines_of(piece) for line in text.split(b"\n")}
    assert found - {b""} == set(lines) - {b""}


def test_small_files_share_a_task_and_large_ones_are_cut() -> None:
    small = [SourceFile(f"/in/{number}.json", 1_000, 1) for number in range(10_000)]
    assert len(plan_tasks(small)) <= 4
    assert len(plan_tasks([SourceFile("/in/a.json", 1_000_000_000, 1)])) == 15
    assert len(plan_tasks([SourceFile("/in/a.json.gz", 1_000_000_000, 1)])) == 1


def test_the_schema_that_spark_infers_is_compared_in_the_same_way() -> None:
    found = StructType([*NESTED.fields, StructField("z", LongType()), StructField("_corrupt_record", StringType())])
    assert set(missing_in_type(found, NESTED)) == {"z"}
    deeper = StructType([StructField("path", ArrayType(StructType([StructField("z", LongType())])))])
    assert set(missing_in_type(deeper, NESTED)) == {"path.z"}


def test_names_in_other_formats_are_compared_without_regard_to_case() -> None:
    assert unknown_of(["ID", "name", "x"], ["id", "name"]) == ["x"]
