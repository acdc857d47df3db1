"""Columns as Unity describes them, and whether the columns of a request agree with the file."""

import json
from typing import Any

import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.delta.columns import (
    ColumnInfo,
    first_difference,
    require_partition_columns,
    schema_difference,
    to_columns,
    to_field,
)
from moorage.formats.delta.schema import Array, Decimal, Field, Map, Primitive, Schema

STRINGS = Array(Primitive("string"), contains_null=False)
SCHEMA = Schema(
    (
        Field("id", Primitive("long"), nullable=False, metadata={"delta.columnMapping.id": 1}),
        Field("price", Decimal(10, 2), metadata={"comment": "net"}),
        Field("tags", STRINGS),
    )
)


def field_json(name: str, data_type: Any, *, nullable: bool = True) -> str:
    return json.dumps({"name": name, "type": data_type, "nullable": nullable, "metadata": {}})


def test_a_schema_is_converted_to_columns() -> None:
    columns = to_columns(SCHEMA, ["PRICE"])
    assert [(column.name, column.type_text, column.nullable) for column in columns] == [
        ("id", "bigint", False),
        ("price", "decimal(10,2)", True),
        ("tags", "array<string>", True),
    ]
    assert [column.comment for column in columns] == [None, "net", None]
    assert [column.partition_index for column in columns] == [None, 0, None]
    assert json.loads(columns[0].type_json or "") == {
        "name": "id",
        "type": "long",
        "nullable": False,
        "metadata": {"delta.columnMapping.id": 1},
    }


DESCRIPTIONS: dict[str, tuple[ColumnInfo, ...]] = {
    "unity, whole field as json": (
        ColumnInfo(name="id", type_json=field_json("id", "long", nullable=False), nullable=False),
        ColumnInfo(name="price", type_json=field_json("price", "decimal(10,2)")),
        ColumnInfo(
            name="tags", type_json=field_json("tags", {"type": "array", "elementType": "string", "containsNull": True})
        ),
    ),
    "unity, bare type as json": (
        ColumnInfo(name="id", type_json='"long"', nullable=False),
        ColumnInfo(name="price", type_json="decimal(10,2)"),
        ColumnInfo(name="tags", type_json='{"type":"array","elementType":"string","containsNull":true}'),
    ),
    "unity, type as text": (
        ColumnInfo(name="id", type_text="bigint", nullable=False),
        ColumnInfo(name="price", type_text="DECIMAL(10, 2)"),
        ColumnInfo(name="tags", type_text="array<string>"),
    ),
    "the specification's short form": (
        ColumnInfo(name="id", type="long", nullable=False),
        ColumnInfo(name="price", type="decimal(10,2)", nullable=True),
        ColumnInfo(name="tags", type={"type": "array", "elementType": "string", "containsNull": False}, nullable=True),
    ),
    "by type name, in any order": (
        ColumnInfo(name="tags", type_text="array<string>", position=2),
        ColumnInfo(name="price", type_name="DECIMAL", type_precision=10, type_scale=2, position=1),
        ColumnInfo(name="id", type_name="LONG", position=0),
    ),
}


@pytest.mark.parametrize("columns", DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_columns_agree_however_their_types_are_described(columns: tuple[ColumnInfo, ...]) -> None:
    assert first_difference(columns, SCHEMA) is None


@pytest.mark.parametrize(
    ("unity", "delta"), [("LONG", "long"), ("INT", "integer"), ("NULL", "void"), ("TIMESTAMP_NTZ", "timestamp_ntz")]
)
def test_a_simple_type_name_of_unity_is_a_type(unity: str, delta: str) -> None:
    assert to_field(ColumnInfo(name="c", type_name=unity), path="columns[0]").type == Primitive(delta)


@pytest.mark.parametrize("word", ["INTEGER", "VOID", "ARRAY", "USER_DEFINED_TYPE"])
def test_a_type_name_that_is_not_simple_is_refused(word: str) -> None:
    with pytest.raises(InvalidInput, match="simple type_name"):
        to_field(ColumnInfo(name="c", type_name=word), path="columns[0]")


@pytest.mark.parametrize(
    ("at", "column", "words"),
    [
        (0, ColumnInfo(name="ID", type="long"), "columns[0] is 'ID', but in the file it is 'id'"),
        (0, ColumnInfo(name="id", type="int"), "columns[0] (id) is int, but in the file it is bigint"),
        (
            0,
            ColumnInfo(name="id", type="long", nullable=True),
            "columns[0] (id) is nullable, but in the file it is not",
        ),
        (1, ColumnInfo(name="price", type="decimal(10,3)"), "columns[1] (price) is decimal(10,3)"),
        (2, ColumnInfo(name="tags", type="array<int>"), "columns[2] (tags) is array<int>"),
        (3, ColumnInfo(name="more", type="long"), "columns[3] (more) is not a column of the file"),
    ],
)
def test_the_first_difference_is_reported(at: int, column: ColumnInfo, words: str) -> None:
    columns = list(DESCRIPTIONS["unity, type as text"])
    columns[at : at + 1] = [column]
    assert (first_difference(columns, SCHEMA) or "").startswith(words)


def test_a_column_that_only_the_file_has_is_reported() -> None:
    assert (
        first_difference(DESCRIPTIONS["unity, type as text"][:2], SCHEMA) == "columns lacks 'tags', which the file has"
    )


def test_a_varchar_agrees_with_a_string_in_the_file() -> None:
    columns = [ColumnInfo(name="a", type_text="varchar(9)")]
    assert first_difference(columns, Schema((Field("a", Primitive("string")),))) is None
    assert first_difference(columns, Schema((Field("a", Primitive("binary")),))) is not None


def test_nested_names_and_types_are_compared_at_every_level() -> None:
    inner = Schema((Field("x", Primitive("long")),))
    file = Schema((Field("m", Map(Primitive("string"), inner, value_contains_null=True)),))
    assert first_difference([ColumnInfo(name="m", type="map<string,struct<x:bigint>>")], file) is None
    for other in ("map<string,struct<y:bigint>>", "map<string,struct<x:int>>", "map<int,struct<x:bigint>>"):
        assert first_difference([ColumnInfo(name="m", type=other)], file) is not None


@pytest.mark.parametrize(
    ("column", "field"),
    [
        (ColumnInfo(type="long"), "columns[0].name"),
        (ColumnInfo(name="id"), "columns[0].type_text"),
        (ColumnInfo(name="id", type_text="array<"), "columns[0].type_text"),
        (ColumnInfo(name="id", type_json=field_json("other", "long")), "columns[0].type_json"),
        (ColumnInfo(name="id", type_json="{"), "columns[0].type_json"),
        (ColumnInfo(name="id", type_json=field_json("id", "long"), nullable=False), "columns[0].nullable"),
    ],
)
def test_the_error_for_an_invalid_column_names_its_field(column: ColumnInfo, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        first_difference([column], SCHEMA)
    assert caught.value.field == field


def test_whole_schemas_are_compared_without_their_metadata() -> None:
    bare = Schema(tuple(Field(field.name, field.type, field.nullable) for field in SCHEMA.fields))
    assert schema_difference(bare, SCHEMA) is None
    assert schema_difference(Schema(bare.fields[:2]), SCHEMA) == "columns has 2 fields, the file has 3"
    nullable = Schema((Field("id", Primitive("long")), *bare.fields[1:]))
    assert (
        schema_difference(nullable, SCHEMA) == "columns.fields[0] (id) is nullable, but in the file it is not nullable"
    )


@pytest.mark.parametrize("names", [["gone"], ["id", "ID"]], ids=["38-unknown-column", "38-twice"])
def test_partition_columns_must_be_columns_and_unique(names: list[str]) -> None:
    require_partition_columns(SCHEMA, ["Price", "id"])
    with pytest.raises(InvalidInput) as caught:
        require_partition_columns(SCHEMA, names)
    assert caught.value.field == "partition-columns"
