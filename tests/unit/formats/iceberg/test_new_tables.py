"""New tables, and metadata that other writers created."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import parse_table
from tests.unit.formats.iceberg.tables import (
    BY_CITY,
    BY_ID,
    NOW_MS,
    PERSISTED,
    SCHEMA,
    UUID,
    snapshot,
    table,
    with_snapshots,
)


def column(id: int, kind: Any, name: str = "c") -> Document:
    return {"id": id, "name": name, "required": False, "type": kind}


def schema(*fields: Document, **given: Any) -> Document:
    return {"type": "struct", "fields": list(fields), **given}


def test_a_new_table_has_one_schema_one_spec_one_order_and_no_snapshot() -> None:
    made = table(spec=BY_CITY, order=BY_ID, properties={"owner": "ann"})
    assert made["table-uuid"] == UUID
    assert made["properties"] == {**PERSISTED, "owner": "ann"}
    assert (made["current-schema-id"], made["default-spec-id"], made["default-sort-order-id"]) == (0, 0, 1)
    assert (made["last-column-id"], made["last-partition-id"]) == (3, 1000)
    assert (made["last-sequence-number"], made["last-updated-ms"]) == (0, NOW_MS)
    assert "current-snapshot-id" not in made


def test_column_ids_are_assigned_from_1_level_by_level_and_references_follow() -> None:
    inner = {"type": "struct", "fields": [column(70, "int", "x"), column(71, "int", "y")]}
    pairs = {"type": "map", "key-id": 60, "key": "string", "value-id": 61, "value-required": True, "value": inner}
    names = {"type": "list", "element-id": 50, "element-required": False, "element": "string"}
    given = schema(
        column(10, pairs, "pairs"),
        column(20, names, "names"),
        {**column(30, "long", "id"), "required": True},
        **{"identifier-field-ids": [30]},
    )
    spec = {"fields": [{"source-id": 30, "name": "shard", "transform": "bucket[4]", "field-id": 4000}]}
    order = {"fields": [{**BY_ID["fields"][0], "source-id": 30}]}
    made = table(schema=given, spec=spec, order=order)
    current = made["schemas"][0]
    assert [field["id"] for field in current["fields"]] == [1, 2, 3]
    assert (current["fields"][0]["type"]["key-id"], current["fields"][0]["type"]["value-id"]) == (4, 5)
    assert [field["id"] for field in current["fields"][0]["type"]["value"]["fields"]] == [6, 7]
    assert current["fields"][1]["type"]["element-id"] == 8
    assert current["identifier-field-ids"] == [3]
    assert made["partition-specs"][0]["fields"] == [
        {"source-id": 3, "field-id": 1000, "name": "shard", "transform": "bucket[4]"}
    ]
    assert made["sort-orders"][0]["fields"][0]["source-id"] == 3


@pytest.mark.parametrize("kind", ["variant", "timestamp_ns", "timestamptz_ns", "unknown", "geometry(OGC:CRS84)"])
def test_types_of_version_3_require_version_3(kind: str) -> None:
    assert table(3, schema=schema(column(1, kind)))["last-column-id"] == 1
    with pytest.raises(InvalidInput, match="format version 3"):
        table(2, schema=schema(column(1, kind)))


def test_defaults_require_version_3() -> None:
    given = schema({**column(1, "int"), "initial-default": 7})
    assert table(3, schema=given)["schemas"][0]["fields"][0]["initial-default"] == 7
    with pytest.raises(InvalidInput, match="format version 3"):
        table(2, schema=given)


LIST = {"type": "list", "element-id": 2, "element-required": True, "element": "int"}
DEEP: Any = "int"
for level in range(150):
    DEEP = {"type": "list", "element-id": level + 2, "element-required": True, "element": DEEP}


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "struct"},
        {"type": "list", "fields": []},
        schema(column(1, "integer")),
        schema(column(1, None)),
        schema(column(1, {"type": "set"})),
        schema(column(1, {"type": "list", "element": "int"})),
        schema(column(1, "int"), column(1, "int", "d")),
        schema(column(1, "int"), column(2, "int")),
        schema({"id": 1, "name": "c", "type": "int"}),
        schema({"name": "c", "type": "int", "required": True}),
        schema(column(1, "int"), **{"identifier-field-ids": [4]}),
        schema(column(1, "int"), **{"identifier-field-ids": [1]}),
        schema({**column(1, "double"), "required": True}, **{"identifier-field-ids": [1]}),
        schema({**column(1, schema(column(2, "int"))), "required": True}, **{"identifier-field-ids": [1]}),
        schema({**column(1, schema(column(2, "int"))), "required": True}, **{"identifier-field-ids": [2]}),
        schema({**column(1, LIST), "required": True}, **{"identifier-field-ids": [2]}),
        schema(column(1, schema(column(2, "int", "b")), "a"), column(3, "int", "a.b")),
        schema(column(1, LIST, "a"), column(3, "int", "a.element")),
        schema(column(1, "decimal(39,2)")),
        schema(column(1, "decimal(0,0)")),
        schema(column(1, DEEP)),
    ],
)
def test_a_schema_that_readers_could_not_read_is_refused(wrong: Document) -> None:
    for version in (2, 3):
        with pytest.raises(InvalidInput):
            table(version, schema=wrong)


STAMPS = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
CUT = {"int", "long", "decimal(9,2)", "string", "binary"}
HASHED = CUT | STAMPS | {"date", "time", "uuid", "fixed[4]"}
PLAIN = HASHED | {"boolean", "float", "double", "unknown"}
PRIMITIVES = PLAIN | {"variant", "geometry(OGC:CRS84)", "geography"}


@pytest.mark.parametrize(
    ("transform", "kinds"),
    [
        ("identity", PLAIN),
        ("void", PRIMITIVES),
        ("bucket[4]", HASHED),
        ("truncate[4]", CUT),
        ("day", STAMPS | {"date"}),
        ("hour", STAMPS),
    ],
)
def test_a_transform_is_accepted_only_for_types_that_it_supports(transform: str, kinds: set[str]) -> None:
    spec = {"fields": [{"source-id": 1, "name": "p", "transform": transform}]}
    order = {"fields": [{**BY_ID["fields"][0], "source-id": 1, "transform": transform}]}
    for kind in kinds:
        assert table(3, schema=schema(column(1, kind)), spec=spec, order=order)
    for kind in PRIMITIVES - kinds:
        for given in ({"spec": spec}, {"order": order}):
            with pytest.raises(InvalidInput, match="does not support type"):
                table(3, schema=schema(column(1, kind)), **given)
    for given in ({"spec": spec}, {"order": order}):
        with pytest.raises(InvalidInput, match="which has a nested type"):
            table(3, schema=schema(column(1, LIST)), **given)


@pytest.mark.parametrize("version", ["0", "4", "two", ""])
def test_an_unknown_format_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidInput, match="format-version"):
        table(properties={"format-version": version})


def test_a_spec_over_a_column_that_is_not_in_the_request_is_refused() -> None:
    with pytest.raises(InvalidInput, match="source-id 9"):
        table(spec={"fields": [{"source-id": 9, "name": "x", "transform": "identity"}]})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_our_own_metadata_is_read_back_as_it_was_written(version: int) -> None:
    made = with_snapshots(2, version)
    assert parse_table(made) == made


def test_an_old_file_without_lists_is_read_as_one_with_them() -> None:
    old = {
        "format-version": 1,
        "table-uuid": UUID,
        "location": "file:///lake/t",
        "last-updated-ms": NOW_MS,
        "last-column-id": 3,
        "schema": SCHEMA,
        "partition-spec": BY_CITY["fields"],
        "properties": None,
        "current-snapshot-id": -1,
        "snapshots": None,
    }
    found = parse_table(old)
    assert (found["current-schema-id"], found["default-spec-id"], found["default-sort-order-id"]) == (0, 0, 0)
    assert found["partition-specs"][0]["fields"][0]["field-id"] == 1000
    assert "current-snapshot-id" not in found


def test_a_current_snapshot_without_a_branch_gets_main() -> None:
    assert parse_table({**with_snapshots(1), "refs": {}})["refs"] == {"main": {"snapshot-id": 1, "type": "branch"}}


ROWS = snapshot(1, **{"first-row-id": 4, "added-rows": 6})


@pytest.mark.parametrize(
    "changes",
    [
        {"format-version": 4},
        {"table-uuid": "x"},
        {"location": None},
        {"schemas": "none"},
        {"schemas": []},
        {"current-schema-id": 9},
        {"default-spec-id": 9},
        {"last-column-id": 1},
        {"refs": {"main": {"snapshot-id": 77, "type": "branch"}}},
        {"refs": {"main": {"snapshot-id": 1, "type": "branch"}, "v1": {"snapshot-id": 1}}},
        {"refs": "none"},
        {"current-snapshot-id": None},
        {"last-sequence-number": 0},
        {"last-partition-id": None},
        {"last-partition-id": 999},
        {"format-version": 3, "next-row-id": 9, "snapshots": [ROWS]},
        {"format-version": 3, "next-row-id": 9, "snapshots": [{**ROWS, "first-row-id": 0, "added-rows": 10}]},
        {"snapshot-log": [{"snapshot-id": 1, "timestamp-ms": NOW_MS + each} for each in (0, -60_001)]},
        {"snapshot-log": [{"snapshot-id": 1, "timestamp-ms": NOW_MS + 70_000}]},
        {"metadata-log": [{"metadata-file": "a", "timestamp-ms": NOW_MS + 70_000}]},
        {"statistics": [{"snapshot-id": 1}]},
        {"partition-statistics": [{"snapshot-id": 1}]},
        {"snapshots": [{}]},
        {"sort-orders": [{"order-id": 0}]},
        {"partition-specs": [{"spec-id": 0, "fields": [{}]}]},
    ],
)
def test_a_file_that_is_not_a_table_is_refused(changes: Document) -> None:
    whole = {**with_snapshots(1), "partition-specs": [BY_CITY | {"spec-id": 0}], "last-partition-id": 1000}
    assert parse_table({**whole, "format-version": 3, "next-row-id": 10, "snapshots": [ROWS]})
    with pytest.raises(InvalidInput):
        parse_table({**whole, **changes})


def test_a_schema_without_a_type_is_read_as_a_struct() -> None:
    bare = with_snapshots(1)
    bare["schemas"] = [{name: value for name, value in bare["schemas"][0].items() if name != "type"}]
    assert parse_table(bare) == with_snapshots(1)
