"""The schemas in the headers of Avro files."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pytest

from moorage.pipeline.ingest.avro_files import by_schema
from moorage.pipeline.ingest.files import UnreadableFile


def write(file: Path, *names: str, doc: str = "") -> None:
    fields = [{"name": name, "type": "long", "doc": doc} for name in names]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    with file.open("wb") as sink:
        fastavro.writer(sink, schema, [dict.fromkeys(names, 1)], codec="deflate", metadata={"by": "a test"})


def test_files_are_grouped_by_the_fields_that_they_have(tmp_path: Path) -> None:
    for name, fields in (("a", ["id"]), ("b", ["id", "flag"]), ("c", ["id"])):
        write(tmp_path / name, *fields)
    groups = by_schema(str(tmp_path / name) for name in "abc")
    found = {tuple(field["name"] for field in json.loads(text)["fields"]): paths for text, paths in groups.items()}
    assert found == {("id",): [str(tmp_path / "a"), str(tmp_path / "c")], ("id", "flag"): [str(tmp_path / "b")]}


def test_a_long_schema_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a", "id", doc="x" * 70_000)
    (text,) = by_schema([str(tmp_path / "a")])
    assert len(text) > 70_000


@pytest.mark.parametrize("data", [b"", b"PAR1", b"Obj\x01", b"Obj\x01\x02\x16avro.schema\xfe\x7f{}", b"Obj\x01\x00"])
def test_a_file_of_another_kind_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "a b.avro"
    file.write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"^file:///.*/a%20b\.avro: not an Avro file"):
        by_schema([str(file)])
