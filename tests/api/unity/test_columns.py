"""Unity's names of types, and columns that contradict themselves."""

from __future__ import annotations

import pytest

from moorage.api.unity.columns import ColumnInfo, ColumnTypeName, from_wire, to_wire
from moorage.core.errors import InvalidInput
from moorage.core.securables import Column


@pytest.mark.parametrize(
    ("text", "name", "precision", "scale", "interval"),
    [
        ("boolean", "BOOLEAN", 0, 0, None),
        ("tinyint", "BYTE", 0, 0, None),
        ("smallint", "SHORT", 0, 0, None),
        ("int", "INT", 0, 0, None),
        ("bigint", "LONG", 0, 0, None),
        ("float", "FLOAT", 0, 0, None),
        ("double", "DOUBLE", 0, 0, None),
        ("date", "DATE", 0, 0, None),
        ("timestamp", "TIMESTAMP", 0, 0, None),
        ("timestamp_ntz", "TIMESTAMP_NTZ", 0, 0, None),
        ("string", "STRING", 0, 0, None),
        ("varchar(20)", "STRING", 0, 0, None),
        ("char(3)", "CHAR", 0, 0, None),
        ("binary", "BINARY", 0, 0, None),
        ("decimal", "DECIMAL", 10, 0, None),
        ("decimal(38)", "DECIMAL", 38, 0, None),
        ("decimal(38,18)", "DECIMAL", 38, 18, None),
        ("numeric( 5 , 2 )", "DECIMAL", 5, 2, None),
        ("interval day to second", "INTERVAL", 0, 0, "day to second"),
        ("array<decimal(5,2)>", "ARRAY", 0, 0, None),
        ("struct<a:decimal(5,2)>", "STRUCT", 0, 0, None),
        ("map<string,int>", "MAP", 0, 0, None),
        ("variant", "VARIANT", 0, 0, None),
        ("void", "NULL", 0, 0, None),
        ("geometry(4326)", "USER_DEFINED_TYPE", 0, 0, None),
        ("", "USER_DEFINED_TYPE", 0, 0, None),
    ],
)
def test_a_type_has_unitys_name(text: str, name: str, precision: int, scale: int, interval: str | None) -> None:
    shown = to_wire((Column(name="c", type_text=text),))[0]
    assert (shown.type_name, shown.type_precision, shown.type_scale) == (name, precision, scale)
    assert shown.type_interval_type == interval


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("BIGINT", "bigint"),
        (" Decimal(10,2) ", "decimal(10,2)"),
        ("STRUCT<Name: STRING, Inner: STRUCT<X: INT>>", "struct<Name: string, Inner: struct<X: int>>"),
        ("struct<`Odd Name`:INT>", "struct<`Odd Name`:int>"),
        ("MAP<STRING,ARRAY<INT>>", "map<string,array<int>>"),
    ],
)
def test_types_are_lowercased_and_field_names_are_not(given: str, stored: str) -> None:
    assert from_wire([ColumnInfo(name="c", type_text=given)])[0].type_text == stored


@pytest.mark.parametrize(
    ("name", "precision", "text"),
    [("LONG", None, "bigint"), ("DECIMAL", 12, "decimal(12,3)"), ("DECIMAL", None, "decimal"), ("NULL", None, "void")],
)
def test_without_a_text_the_type_is_derived_from_its_name(
    name: ColumnTypeName, precision: int | None, text: str
) -> None:
    given = ColumnInfo(name="c", type_name=name, type_precision=precision, type_scale=3)
    assert from_wire([given])[0].type_text == text


def test_columns_are_ordered_by_position() -> None:
    given = [ColumnInfo(name=name, type_text="int", position=at) for name, at in (("b", 1), ("c", 2), ("a", 0))]
    assert [column.name for column in from_wire(given)] == ["a", "b", "c"]
    without_position = [*given, ColumnInfo(name="d", type_text="int")]
    assert [column.name for column in from_wire(without_position)] == ["b", "c", "a", "d"]


A = '{"name":"A","type":"long","nullable":false,"metadata":{"comment":"c"}}'
X = '{"name":"X","type":"integer","nullable":true,"metadata":{}}'
B = '{"name":"b","type":{"type":"struct","fields":[' + X + ']},"nullable":true,"metadata":{}}'


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (Column(name="A", type_text="bigint", nullable=False, comment="c"), A),
        (Column(name="b", type_text="struct<X:int>", type_json='{"type":"struct","fields":[{"id":3}]}'), B),
        (
            Column(name="v", type_text="fixed_size_list<float>[3]"),
            '{"name":"v","type":"fixed_size_list<float>[3]","nullable":true,"metadata":{}}',
        ),
        (Column(name="A", type_text="bigint", type_json=" " + A), " " + A),
    ],
)
def test_every_column_has_a_struct_field_as_its_type(column: Column, shown: str) -> None:
    """Polars cannot decode a page of tables in which one `type_json` is null."""
    assert to_wire((column,))[0].type_json == shown


def test_columns_survive_a_round_trip() -> None:
    columns = (
        Column(name="A", type_text="bigint", type_json=A, nullable=False, comment="c", partition_index=0),
        Column(name="b", type_text="struct<X:int>", type_json=B),
    )
    assert from_wire(to_wire(columns)) == columns


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("name", ColumnInfo(type_text="int")),
        ("name", ColumnInfo(name="", type_text="int")),
        ("name", ColumnInfo(name="a\x01", type_text="int")),
        ("type_text", ColumnInfo(name="a")),
        ("type_text", ColumnInfo(name="a", type_text="", type_name="STRUCT")),
        ("type_name", ColumnInfo(name="a", type_text="int", type_name="LONG")),
        ("type_name", ColumnInfo(name="a", type_text="int64", type_name="LONG")),
        ("partition_index", ColumnInfo(name="a", type_text="int", partition_index=-1)),
    ],
)
def test_the_error_for_an_invalid_column_names_the_field(field: str, column: ColumnInfo) -> None:
    with pytest.raises(InvalidInput) as refused:
        from_wire([ColumnInfo(name="fine", type_text="int"), column])
    assert refused.value.field == f"columns[1].{field}"


def test_char_and_string_do_not_contradict_each_other() -> None:
    for text, name in (("char(3)", "STRING"), ("varchar(3)", "CHAR"), ("string", "STRING")):
        assert from_wire([ColumnInfo(name="a", type_text=text, type_name=name)])  # type: ignore[arg-type]
