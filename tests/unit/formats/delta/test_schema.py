"""Schemas: those of a log are read, those of a request are checked, and errors name the path in the schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.formats.delta import schema as delta
from moorage.formats.delta.schema import Array, DataType, Decimal, Field, Map, Primitive, Schema

ID: dict[str, Any] = {"name": "id", "type": "long", "nullable": False, "metadata": {}}


def wire(**changes: Any) -> dict[str, Any]:
    field = {**ID, **changes}
    return {"type": "struct", "fields": [{key: value for key, value in field.items() if value is not ...}]}


NESTED = {
    "type": "map",
    "key-type": "string",
    "value-type": {
        "type": "array",
        "element-type": {"type": "struct", "fields": [{**ID, "type": "decimal(10, 2)"}]},
        "contains-null": False,
    },
    "value-contains-null": True,
}
PARSED = Map(
    Primitive("string"),
    Array(Schema((Field("id", Decimal(10, 2), nullable=False),)), contains_null=False),
    value_contains_null=True,
)


def test_the_schema_of_a_request_is_parsed_at_every_level() -> None:
    assert delta.parse_wire_schema(wire(type=NESTED)) == Schema((Field("id", PARSED, nullable=False),))


def test_log_and_wire_have_different_spellings_of_one_schema() -> None:
    schema = delta.parse_wire_schema(wire(type=NESTED, metadata={"delta.columnMapping.id": 1, "comment": "c"}))
    text = json.dumps(delta.to_document(schema, delta.LOG))
    assert '"elementType"' in text
    assert "element-type" not in text
    assert delta.parse_schema(text) == schema
    assert delta.parse_wire_schema(delta.to_document(schema, delta.WIRE)) == schema


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param(wire(name=...), "columns.fields[0].name", id="39-no-name"),
        pytest.param(wire(name="  "), "columns.fields[0].name", id="39-blank-name"),
        pytest.param(wire(type=...), "columns.fields[0].type", id="39-no-type"),
        pytest.param(wire(nullable=...), "columns.fields[0].nullable", id="39-no-nullable"),
        pytest.param(wire(nullable="yes"), "columns.fields[0].nullable", id="39-nullable-is-no-flag"),
        pytest.param(wire(metadata=...), "columns.fields[0].metadata", id="39-no-metadata"),
        pytest.param(wire(metadata=[]), "columns.fields[0].metadata", id="39-metadata-is-no-object"),
        pytest.param({"fields": ["id"]}, "columns.fields[0]", id="39-field-is-no-object"),
        pytest.param({"fields": [ID, {**ID, "name": "ID"}]}, "columns.fields[1]", id="40-names-equal-but-for-case"),
        pytest.param(
            wire(type={"type": "struct", "fields": [ID, ID]}), "columns.fields[0].type.fields[1]", id="40-nested"
        ),
        pytest.param(wire(type="void"), "columns.fields[0].type", id="41-void"),
        pytest.param(wire(type="varchar(3)"), "columns.fields[0].type", id="41-varchar"),
        pytest.param(wire(type="decimal(39,1)"), "columns.fields[0].type.precision", id="41-precision-above-38"),
        pytest.param(wire(type="decimal(-1,0)"), "columns.fields[0].type.precision", id="41-precision-below-0"),
        pytest.param(wire(type="decimal(5,6)"), "columns.fields[0].type.scale", id="41-scale-above-precision"),
        pytest.param(wire(type=7), "columns.fields[0].type", id="41-type-is-a-number"),
        pytest.param(wire(type={"type": "set"}), "columns.fields[0].type.type", id="41-unknown-nesting"),
        pytest.param(
            wire(type={"type": "array", "element-type": "long"}),
            "columns.fields[0].type.contains-null",
            id="42-array-without-contains-null",
        ),
        pytest.param(
            wire(type={"type": "array", "elementType": "long", "contains-null": True}),
            "columns.fields[0].type.containsNull",
            id="42-array-in-two-spellings",
        ),
        pytest.param(
            wire(type={**NESTED, "key-type": None}), "columns.fields[0].type.key-type", id="42-map-without-key-type"
        ),
        pytest.param(
            wire(type={**NESTED, "value-type": None}),
            "columns.fields[0].type.value-type",
            id="42-map-without-value-type",
        ),
        pytest.param(
            wire(type={**NESTED, "value-contains-null": None}),
            "columns.fields[0].type.value-contains-null",
            id="42-map-without-value-contains-null",
        ),
        pytest.param(None, "columns", id="43-no-columns"),
        pytest.param([ID], "columns", id="43-columns-are-a-list"),
        pytest.param({"type": "array"}, "columns.type", id="43-columns-are-no-struct"),
        pytest.param({"type": "struct"}, "columns.fields", id="43-no-fields"),
        pytest.param({"type": "struct", "fields": []}, "columns.fields", id="43-empty-list"),
        pytest.param({"type": "struct", "fields": {}}, "columns.fields", id="43-fields-are-no-list"),
    ],
)
def test_the_error_for_a_wrong_schema_in_a_request_names_its_path(document: Any, path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        delta.parse_wire_schema(document)
    assert caught.value.field == path
    assert caught.value.message.startswith(path)


@pytest.mark.parametrize("name", ["void", "varchar(9)", "char(3)", "interval day to second", "geometry(OGC:CRS84)"])
def test_a_log_may_contain_types_that_a_request_may_not(name: str) -> None:
    text = json.dumps({"type": "struct", "fields": [{**ID, "type": name}]})
    assert delta.parse_schema(text).fields[0].type == Primitive(name)


def test_a_log_may_omit_fields_with_a_default_in_spark() -> None:
    array = {"type": "array", "elementType": "decimal"}
    field = delta.parse_schema(json.dumps({"type": "struct", "fields": [{"name": "a", "type": array}]})).fields[0]
    assert field == Field("a", Array(Decimal(10, 0), contains_null=True))
    assert delta.parse_schema('{"type":"struct","fields":[]}') == Schema()


@pytest.mark.parametrize("text", ["", "{", "[]", '"long"', '{"type":"map"}', "[" * 100_000])
def test_a_schema_string_that_is_not_a_struct_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        delta.parse_schema(text)
    assert caught.value.field == "schemaString"


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    data_type: Any = "long"
    for _ in range(delta.DEEPEST + 2):
        data_type = {"type": "array", "element-type": data_type, "contains-null": True}
    with pytest.raises(InvalidInput, match="nested more than"):
        delta.parse_wire_schema(wire(type=data_type))


def test_a_comment_that_is_not_text_is_ignored() -> None:
    assert Field("a", Primitive("long"), metadata={"comment": 7}).comment is None
    assert Field("a", Primitive("long"), metadata={"comment": "x"}).comment == "x"


def types() -> st.SearchStrategy[DataType]:
    leaves: st.SearchStrategy[DataType] = st.sampled_from(sorted(delta.PRIMITIVES)).map(Primitive) | st.builds(
        Decimal, st.integers(10, 38), st.integers(0, 10)
    )
    names = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3, unique_by=str.lower)

    def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
        structs = names.flatmap(
            lambda chosen: st.tuples(*(st.builds(Field, st.just(name), inner, st.booleans()) for name in chosen))
        ).map(Schema)
        return st.builds(Array, inner, st.booleans()) | st.builds(Map, inner, inner, st.booleans()) | structs

    return st.recursive(leaves, nested, max_leaves=8)


@given(types())
def test_every_type_survives_both_spellings(data_type: DataType) -> None:
    schema = Schema((Field("c", data_type),))
    assert delta.parse_schema(json.dumps(delta.to_document(schema, delta.LOG))) == schema
    for spelling in (delta.WIRE, delta.LOG):  # requests may use either
        assert delta.parse_wire_schema(delta.to_document(schema, spelling)) == schema
    assert delta.parse_field(delta.field_text(schema.fields[0])) == schema.fields[0]
