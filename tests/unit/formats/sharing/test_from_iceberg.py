"""Iceberg tables in the words of Delta: what can be told, and what is refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from moorage.core.errors import Damaged, Unsupported
from moorage.formats.delta.deletion_vectors import frame, from_base85
from moorage.formats.iceberg.manifests import ContentFile, Stats
from moorage.formats.iceberg.specs import specs_of
from moorage.formats.sharing.from_iceberg import SharedIceberg, current_snapshot, describe, to_vector, vectors_of

FIELDS = [
    {"id": 1, "name": "id", "type": "long", "required": True, "doc": "the key"},
    {"id": 2, "name": "day", "type": "date", "required": False},
    {"id": 3, "name": "name", "type": "string", "required": False},
]
SPEC = [
    {"source-id": 2, "field-id": 1000, "name": "day", "transform": "identity"},
    {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[4]"},
]


def table(*schemas: list[dict[str, Any]], specs: list[list[dict[str, Any]]] | None = None) -> dict[str, Any]:
    found = schemas or (FIELDS,)
    return {
        "table-uuid": "u",
        "schemas": [{"type": "struct", "schema-id": n, "fields": fields} for n, fields in enumerate(found)],
        "current-schema-id": len(found) - 1,
        "partition-specs": [{"spec-id": n, "fields": fields} for n, fields in enumerate(specs or [SPEC])],
        "default-spec-id": 0,
    }


def file(
    path: str = "s3://b/t/a b.parquet", *, spec: int = 0, partition: tuple[Any, ...] = (0, 3), **given: Any
) -> Any:
    bounds = {1: struct.pack("<q", 5), 2: struct.pack("<i", 0), 3: b"x"}
    stats = Stats(None, None, {1: 0, 3: 2}, None, bounds, bounds)
    return ContentFile(
        **{
            "content": 0,
            "path": path,
            "format": "parquet",
            "spec_id": spec,
            "partition": partition,
            "records": 10,
            "size": 7,
            "sequence": 1,
            "stats": stats,
            "added_by": 1,
            "is_added": True,
            **given,
        }
    )


def told(document: dict[str, Any], *files: Any) -> SharedIceberg:
    return describe(document, files, specs_of(document), root="s3://b/t/")


def test_a_file_has_partition_values_and_bounds() -> None:
    found = told(table(), file())
    assert found.metadata.partition_columns == ("day",)
    (add,) = found.files
    assert (add.path, add.size, add.partition_values) == ("s3://b/t/a%20b.parquet", 7, {"day": "1970-01-01"})
    assert json.loads(add.stats or "") == {
        "numRecords": 10,
        "nullCount": {"id": 0, "name": 2},
        "minValues": {"id": 5, "name": "x"},
        "maxValues": {"id": 5, "name": "x"},
    }


def test_columns_keep_their_types_and_comments() -> None:
    nested = {
        "id": 4,
        "name": "s",
        "required": False,
        "type": {
            "type": "struct",
            "fields": [
                {
                    "id": 5,
                    "name": "l",
                    "required": False,
                    "type": {"type": "list", "element-id": 6, "element": "int", "element-required": True},
                },
                {"id": 7, "name": "d", "required": False, "type": "decimal(9,2)"},
            ],
        },
    }
    found = told(table([*FIELDS, nested, {"id": 8, "name": "at", "type": "timestamp", "required": False}]))
    fields = {field["name"]: field for field in json.loads(found.metadata.schema_string)["fields"]}
    assert fields["id"] == {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "the key"}}
    inner = {field["name"]: field["type"] for field in fields["s"]["type"]["fields"]}
    assert inner == {"l": {"type": "array", "elementType": "integer", "containsNull": False}, "d": "decimal(9,2)"}
    assert fields["at"]["type"] == "timestamp_ntz"
    assert found.protocol.reader_features == ("timestampNtz",)
    assert told(table()).protocol.min_reader_version == 1


def test_a_column_is_a_partition_column_only_if_all_files_are_partitioned_by_it() -> None:
    document = table(specs=[SPEC, []])
    assert told(document, file(), file(spec=1, partition=())).metadata.partition_columns == ()
    assert told(document, file()).metadata.partition_columns == ("day",)


def test_an_empty_table_has_the_partition_columns_of_its_next_files() -> None:
    assert told(table()).metadata.partition_columns == ("day",)
    assert told(table(specs=[[]])).metadata.partition_columns == ()


def test_a_column_with_an_empty_text_is_no_partition_column_because_readers_of_delta_read_null() -> None:
    document = table(specs=[[{"source-id": 3, "field-id": 1000, "name": "name", "transform": "identity"}]])
    files = [file(partition=(value,)) for value in ("a", "", None)]
    assert told(document, files[0], files[2]).metadata.partition_columns == ("name",)
    found = told(document, *files)
    assert found.metadata.partition_columns == ()
    assert {str(add.partition_values) for add in found.files} == {"{}"}
    filtered = describe(document, files, specs_of(document), root="s3://b/t/", is_filtered=True)
    assert filtered.metadata.partition_columns == ("name",)


RENAMED = [{**FIELDS[0], "name": "key"}, *FIELDS[1:]]
READDED = [{**FIELDS[0], "id": 9}, *FIELDS[1:]]
WIDENED = [{**FIELDS[0], "type": "int"}, *FIELDS[1:]]


IN_LIST = {"type": "list", "element-id": 8, "element-required": False}


def in_list(kind: str) -> list[dict[str, Any]]:
    return [{"id": 5, "name": "l", "type": {**IN_LIST, "element": kind}, "required": False}]


def in_map(kind: str) -> list[dict[str, Any]]:
    ids = {"key-id": 8, "value-id": 9, "value-required": False}
    return [{"id": 5, "name": "l", "type": {"type": "map", "key": "string", "value": kind, **ids}, "required": False}]


def without_ids(*schemas: Any) -> Any:
    return {**table(*schemas), "properties": {"schema.name-mapping.default": "[]"}}


@pytest.mark.parametrize("before", [RENAMED, READDED])
def test_columns_that_older_files_name_otherwise_are_found_by_id(before: Any) -> None:
    found = told(table(before, FIELDS), file())
    assert found.metadata.configuration == {"delta.columnMapping.mode": "id"}
    assert found.protocol.reader_features == ("columnMapping",)
    for field in json.loads(found.metadata.schema_string)["fields"]:
        id = next(each["id"] for each in FIELDS if each["name"] == field["name"])
        assert field["metadata"]["delta.columnMapping.id"] == id
        assert field["metadata"]["delta.columnMapping.physicalName"] == f"iceberg-field-{id}"
    (add,) = found.files
    assert (found.metadata.partition_columns, add.partition_values) == ((), {})
    assert set(json.loads(add.stats or "")["minValues"]) <= {f"iceberg-field-{each['id']}" for each in FIELDS}


def test_a_file_of_the_table_may_have_another_spelling_of_its_location() -> None:
    (add,) = told(table(), file("s3a://b/t/a b.parquet")).files
    assert add.path == "s3://b/t/a%20b.parquet"


def named(name: str) -> list[dict[str, Any]]:
    return [{**FIELDS[0], "name": name}, *FIELDS[1:]]


STRUCT = {"type": "struct", "fields": named("a-b")}


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        (named("order id"), "id"),
        (named("a.b"), "id"),
        (named("2nd"), "id"),
        (named("a\u0308"), "id"),  # a combining character
        (named("\U00010400"), "id"),  # a letter of two characters in Java
        ([*FIELDS, {"id": 7, "name": "s", "type": STRUCT, "required": False}], "id"),
        ([*FIELDS, {"id": 7, "name": "s", "type": {**IN_LIST, "element": STRUCT}, "required": False}], "id"),
        (named("_Größe2"), None),
        (named("数量"), None),
    ],
)
def test_columns_whose_names_writers_replace_in_files_are_found_by_id(fields: Any, mode: str | None) -> None:
    assert told(table(fields), file()).metadata.configuration.get("delta.columnMapping.mode") == mode


def test_columns_are_found_by_id_if_a_schema_was_removed_that_may_have_named_them_otherwise() -> None:
    document = table(RENAMED, FIELDS)
    del document["schemas"][0]
    assert told(document, file()).metadata.configuration == {"delta.columnMapping.mode": "id"}


@pytest.mark.parametrize(
    ("document", "files", "words"),
    [
        (without_ids(named("a-b")), [], "column 'a-b' may have another name in files, and the table may have files"),
        (without_ids(RENAMED, FIELDS), [], "'key' was renamed to 'id', and the table may have files without"),
        (without_ids(READDED, FIELDS), [], "'id' was dropped and added again, and the table may have files without"),
        (table(WIDENED, FIELDS), [], "the type of 'id' was changed from int to long"),
        (table(in_list("int"), in_list("long")), [], "the type of 'l.element' was changed from int to long"),
        (table(in_map("float"), in_map("double")), [], "the type of 'l.value' was changed from float to double"),
        (table([*FIELDS, {"id": 4, "name": "u", "type": "uuid", "required": False}]), [], "'u' has the type uuid"),
        (table(), [file(format="orc")], "orc"),
        (table(), [file("s3://b/tt/a.parquet")], "files outside of its location"),
        (table(), [file(key_metadata=b"k")], "encrypted"),
    ],
)
def test_what_readers_could_not_read_correctly_is_refused(document: Any, files: list[Any], words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        told(document, *files)


def test_the_newest_snapshot_of_the_main_branch() -> None:
    snapshots = [{"snapshot-id": 1}, {"snapshot-id": 2}]
    assert current_snapshot({"snapshots": snapshots, "current-snapshot-id": 2}) == {"snapshot-id": 2}
    assert current_snapshot({"snapshots": snapshots, "current-snapshot-id": -1}) is None
    assert current_snapshot({}) is None


BITMAP = b"\xd1\xd3\x39\x64" + bytes(9)


def vector(path: str = "s3://b/t/a.puffin", **given: Any) -> Any:
    own = {"content": 1, "format": "puffin", "records": 3, "offset": 4, "length": len(frame(BITMAP)), "sequence": 2}
    return file(**{"path": path, "referenced": "s3://b/t/a b.parquet", **own, **given})


def test_a_deletion_vector_is_in_the_line_of_its_file() -> None:
    document = table()
    specs = specs_of(document)
    named = vectors_of([file(), vector(), vector(referenced="s3://b/t/gone.parquet")], specs)
    assert list(named) == ["s3://b/t/a b.parquet"]
    vectors = {path: to_vector(each, frame(BITMAP)) for path, each in named.items()}
    found = describe(document, [file(), vector()], specs, vectors, root="s3://b/t/")
    (add,) = found.files
    assert add.deletion_vector is not None
    told = add.deletion_vector
    assert (told.storage_type, told.offset, told.size_in_bytes, told.cardinality) == ("i", None, len(BITMAP), 3)
    assert from_base85(told.path_or_inline_dv)[: len(BITMAP)] == BITMAP
    assert found.protocol.reader_features == ("deletionVectors",)
    assert json.loads(add.stats or "")["tightBounds"] is False


def test_a_deletion_vector_of_an_older_file_of_the_same_name_is_ignored() -> None:
    assert vectors_of([file(sequence=3), vector(sequence=2)], specs_of(table())) == {}


@pytest.mark.parametrize(
    "delete",
    [
        vector(format="parquet", offset=None, length=None),
        vector(format="parquet", offset=None, length=None, referenced=None),
        vector(content=2, format="parquet", referenced=None),
        vector(referenced=None),
        vector(key_metadata=b"k"),
    ],
    ids=["positions", "positions of a partition", "equality", "vector without a file", "encrypted"],
)
def test_other_deletes_are_refused_if_they_apply_to_a_file(delete: Any) -> None:
    specs = specs_of(table())
    with pytest.raises(Unsupported):
        vectors_of([file(), delete], specs)
    assert vectors_of([file(path="s3://b/t/b.parquet", partition=(9, 9)), delete], specs) == {}


@pytest.mark.parametrize("blob", [b"", frame(BITMAP)[:-1], frame(BITMAP)[:-1] + b"\0", frame(b"x"), frame(BITMAP) * 2])
def test_a_damaged_vector_is_refused(blob: bytes) -> None:
    with pytest.raises(Damaged):
        to_vector(vector(), blob)


def test_an_initial_default_is_refused() -> None:
    inner = {"id": 5, "name": "c", "type": "int", "required": False, "initial-default": 7}
    nested = {"id": 4, "name": "s", "required": False, "type": {"type": "struct", "fields": [inner]}}
    for fields in ([*FIELDS, inner], [*FIELDS, nested]):
        with pytest.raises(Unsupported, match="'c' has an initial default"):
            told(table(fields))
