"""Field ids, types and the name mapping of converted schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.schema import parse_schema
from moorage.uniform.refusals import Refused, projectable
from moorage.uniform.schemas import convert_schema, from_name_mapping, primitive, to_name_mapping

MAPPED = {"delta.columnMapping.mode": "name"}
ARRAY = {"type": "array", "elementType": "long", "containsNull": True}


def column(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": False, "metadata": metadata}


def mapped(name: str, kind: Any, id: int, **more: Any) -> dict[str, Any]:
    ids = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": f"col-{id}"}
    return column(name, kind, **ids, **more)


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def table(*fields: dict[str, Any], by: tuple[str, ...] = (), configuration: Any = None) -> tuple[Any, Metadata]:
    text = json.dumps(struct(*fields))
    metadata = Metadata(id="x", schema_string=text, partition_columns=by, configuration=configuration or {})
    return parse_schema(text), metadata


def protocol(*features: str, reader: int = 3) -> Protocol:
    return Protocol(min_reader_version=reader, min_writer_version=7, reader_features=features)


def test_an_id_belongs_to_a_name_also_after_the_column_was_dropped_and_added_again() -> None:
    first = convert_schema(*table(column("a", "long"), column("b", struct(column("c", "string")))), {}, 0)
    assert first.ids == {("a",): 1, ("b",): 2, ("b", "c"): 3}
    second = convert_schema(*table(column("b", struct(column("d", "date")))), first.ids, first.last_id)
    assert second.fields[0]["id"] == 2
    assert second.ids["b", "d"] == 4
    third = convert_schema(*table(column("a", "double")), second.ids, second.last_id)
    assert third.fields == [{"id": 1, "name": "a", "required": False, "type": "double"}]


def test_the_name_mapping_keeps_the_ids_of_all_columns() -> None:
    nested = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}
    ids = convert_schema(*table(column("m", nested), column("s", struct(column("m", "long")))), {}, 0).ids
    assert ids["m", "value", "element"] == 5
    assert from_name_mapping(to_name_mapping(ids)) == ids


def test_mapped_columns_have_the_ids_of_delta_and_logical_names() -> None:
    nested = mapped("tags", ARRAY, 7, **{"delta.columnMapping.nested.ids": {"col-7.element": 9}})
    found = convert_schema(*table(mapped("n", "long", 4), nested, configuration=MAPPED), {}, 9)
    assert found.fields == [
        {"id": 4, "name": "n", "required": False, "type": "long"},
        {
            "id": 7,
            "name": "tags",
            "required": False,
            "type": {"type": "list", "element-id": 9, "element": "long", "element-required": False},
        },
    ]
    assert found.ids["col-7", "element"] == 9


def test_the_columns_of_row_tracking_are_in_the_name_mapping() -> None:
    stored = {"delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}
    found = convert_schema(*table(column("a", "long"), configuration=stored), {}, 0)
    assert found.ids["_row-id-col-1",] == 2147483540
    assert found.last_id == 1


@pytest.mark.parametrize(
    ("delta", "iceberg"),
    [("byte", "int"), ("timestamp", "timestamptz"), ("timestamp_ntz", "timestamp"), ("decimal(9,2)", "decimal(9, 2)")],
)
def test_types_are_those_of_iceberg(delta: str, iceberg: str) -> None:
    kind = parse_schema(json.dumps(struct(column("a", delta)))).fields[0].type
    assert primitive(kind, "a") == iceberg


def test_a_type_that_iceberg_lacks_is_refused() -> None:
    with pytest.raises(Refused, match="'a' has the type void"):
        convert_schema(*table(column("a", "void")), {}, 0)


def changed(before: str, after: str) -> dict[str, Any]:
    return {"delta.typeChanges": [{"fromType": before, "toType": after}]}


@pytest.mark.parametrize(
    ("fields", "given", "words"),
    [
        ([column("a", "void")], {}, "the type void"),
        ([column("a", ARRAY)], {}, None),
        ([mapped("a", ARRAY, 1)], MAPPED, "rewrite the files"),
        ([mapped("a", ARRAY, 1, **{"delta.columnMapping.nested.ids": {"col-1.element": 2}})], MAPPED, None),
        ([column("a", "long", **changed("integer", "long"))], {}, None),
        ([column("a", "double", **changed("float", "double"))], {}, None),
        ([column("a", "decimal(12,2)", **changed("decimal(5,2)", "decimal(12,2)"))], {}, None),
        ([column("a", "decimal(12,4)", **changed("decimal(5,2)", "decimal(12,4)"))], {}, "cannot read the older files"),
        ([column("a", "double", **changed("integer", "double"))], {}, "from integer to double"),
        ([column("a", "timestamp_ntz", **changed("date", "timestamp_ntz"))], {}, "from date to timestamp_ntz"),
        ([column("a", "string", __COLLATIONS={"a": "icu.de_DE"})], {}, "collation"),
    ],
)
def test_what_iceberg_cannot_express_is_named(fields: Any, given: dict[str, str], words: str | None) -> None:
    schema, metadata = table(*fields, configuration=given)
    reasons = projectable(protocol(), metadata, schema)
    assert (reasons == ()) if words is None else any(words in reason for reason in reasons)


def test_unknown_features_and_binary_partitions_are_refused() -> None:
    schema, metadata = table(column("a", "binary"), by=("a",))
    assert "binary column 'a'" in projectable(protocol(), metadata, schema)[0]
    schema, metadata = table(column("a", "long"))
    assert "geospatial" in projectable(protocol("geospatial"), metadata, schema)[0]
    assert "reader version 4" in projectable(protocol(reader=4), metadata, schema)[0]
