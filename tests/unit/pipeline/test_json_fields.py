"""The fields of JSON files, of which Spark's reader reports only those with a column."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from moorage.pipeline.ingest import parsing
from moorage.pipeline.ingest.parsing import fields_of
from moorage.pipeline.ingest.run import unknown_of


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"a": 1}\n{"b": {"c": [1]}}\n', {"a", "b"}),
        ('{"a": 1}\n{"a": "x", "d": null}', {"a", "d"}),
        ('{"a": 1}\n{broken\n\n[1]\n7\n{"é": true}\n', {"a", "é"}),
        ('{"a": 1, "a": 2}\n', {"a"}),
        ("\n \n", set()),
        ("", set()),
    ],
    ids=["objects", "several types", "broken lines", "a field twice", "blank lines", "empty"],
)
def test_every_field_is_found(tmp_path: Path, text: str, fields: set[str]) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert fields_of(str(file)) == fields


def test_a_record_may_span_chunks_and_files_may_be_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_CHUNK_BYTES", 64)
    file = tmp_path / "a.json.gz"
    rows = [{f"field_{at}": "x" * at} for at in range(0, 200, 7)]
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert fields_of(str(file)) == {f"field_{at}" for at in range(0, 200, 7)}


def test_names_of_json_fields_are_compared_exactly_and_those_of_other_formats_are_not() -> None:
    assert unknown_of(["ID", "name", "x"], ["id", "name"], exact=True) == ["ID", "x"]
    assert unknown_of(["ID", "name", "x"], ["id", "name"], exact=False) == ["x"]
