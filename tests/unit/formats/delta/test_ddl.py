"""Types as SQL writes them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.formats.delta.ddl import parse_type_text, type_text
from moorage.formats.delta.schema import Array, DataType, Decimal, Field, Map, Primitive, Schema

ADDRESS = Schema((Field("Street", Primitive("string")), Field("post code", Primitive("integer"))))
TYPES: list[tuple[str, DataType]] = [
    ("bigint", Primitive("long")),
    ("int", Primitive("integer")),
    ("smallint", Primitive("short")),
    ("tinyint", Primitive("byte")),
    ("string", Primitive("string")),
    ("timestamp_ntz", Primitive("timestamp_ntz")),
    ("variant", Primitive("variant")),
    ("varchar(9)", Primitive("varchar(9)")),
    ("interval day to second", Primitive("interval day to second")),
    ("decimal(10,2)", Decimal(10, 2)),
    ("array<string>", Array(Primitive("string"), contains_null=True)),
    (
        "map<string,array<int>>",
        Map(Primitive("string"), Array(Primitive("integer"), contains_null=True), value_contains_null=True),
    ),
    (
        "struct<a:int,b:array<string>>",
        Schema((Field("a", Primitive("integer")), Field("b", Array(Primitive("string"), contains_null=True)))),
    ),
    ("struct<Street:string,`post code`:int>", ADDRESS),
    ("struct<`a``b`:int>", Schema((Field("a`b", Primitive("integer")),))),
    ("struct<>", Schema()),
]


@pytest.mark.parametrize(("text", "data_type"), TYPES, ids=[text for text, _ in TYPES])
def test_a_type_is_written_as_spark_writes_it_and_parsed_back(text: str, data_type: DataType) -> None:
    assert type_text(data_type) == text
    assert parse_type_text(text) == data_type


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("BIGINT", Primitive("long")),
        ("long", Primitive("long")),
        ("integer", Primitive("integer")),
        ("REAL", Primitive("float")),
        ("timestamp_ltz", Primitive("timestamp")),
        ("decimal", Decimal(10, 0)),
        ("NUMERIC( 5 )", Decimal(5, 0)),
        ("dec(5, 2)", Decimal(5, 2)),
        ("STRUCT<a INT NOT NULL>", Schema((Field("a", Primitive("integer"), nullable=False),))),
        ("struct<a:int comment 'x'>", Schema((Field("a", Primitive("integer"), metadata={"comment": "x"}),))),
    ],
)
def test_other_spellings_of_a_type_are_parsed(text: str, data_type: DataType) -> None:
    assert parse_type_text(text) == data_type


@pytest.mark.parametrize(
    "text",
    [
        "",
        "array",
        "array<>",
        "array<int",
        "map<int>",
        "struct<a>",
        "struct<a:int b:int>",
        "decimal(39,1)",
        "decimal(2,3)",
        "decimal(x)",
        "int)",
        "int int",
        "<int>",
        "varchar(9",
        "array<" * 100_000,
    ],
)
def test_the_error_for_an_invalid_type_names_its_field(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_type_text(text, path="columns[2].type_text")
    assert caught.value.field == "columns[2].type_text"


@given(st.text())
def test_random_text_is_parsed_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        parse_type_text(text)
