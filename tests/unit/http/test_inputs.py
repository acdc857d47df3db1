from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.http.inputs import Int64, parse_body, parse_query


class Column(msgspec.Struct):
    name: str
    position: Int64 = 0


class Table(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    columns: list[Column] = []
    properties: dict[str, str] = {}


class Search(msgspec.Struct, frozen=True):
    max_results: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    exact: bool = False
    text: str | None = None
    tag: list[str] = []


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    force: bool = False


TABLE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Table)
REPEATABLE = {"max_results": False, "exact": False, "text": False, "tag": True}


def query(raw: bytes) -> Search:
    parsed: Search = parse_query(Search, REPEATABLE, raw)
    return parsed


def refused_field(raw: bytes) -> str | None:
    with pytest.raises(InvalidInput) as refused:
        parse_body(TABLE, raw)
    assert refused.value.field is not None
    assert refused.value.field in refused.value.message
    return refused.value.field


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b'{"name": 3}', "name"),
        (b'{"name": ""}', "name"),
        (b"{}", "name"),
        (b'{"name": "t", "columns": [{"name": "c"}, {"name": 1}]}', "columns[1].name"),
        (b'{"name": "t", "columns": [{}]}', "columns[0].name"),
        (b'{"name": "t", "columns": [{"name": "c", "position": 9223372036854775808}]}', "columns[0].position"),
        (b'{"name": "t", "columns": [{"name": "c", "position": 1e400}]}', "columns[0].position"),
        (b'{"name": "t", "properties": {"a": 1}}', "properties[...]"),
        (b'{"name": "a\\u0000"}', "name"),
        (b'{"name": "t", "properties": {"k": "\\u0000"}}', "properties.k"),
        (b'{"name": "t", "ignored": [{"deep": "\\u0000"}]}', "ignored[0].deep"),
        (b"[]", "body"),
        (b"null", "body"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_field(raw: bytes, field: str) -> None:
    assert refused_field(raw) == field


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"  ",
        b"{",
        b'{"name": "t"}x',
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"name": "a\x00b"}',
        b'{"name": NaN}',
        b"\xef\xbb\xbf{}",
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"name": ' + b"9" * 10_000 + b"}",
        b'{"name": "t", "x": ' + b"9" * 10_000 + b"e}",
    ],
)
def test_invalid_json_is_refused_and_never_a_server_error(raw: bytes) -> None:
    refused_field(raw)


def test_unknown_fields_are_ignored() -> None:
    assert parse_body(TABLE, b'{"name": "t", "from_the_future": {"x": [1]}}') == Table("t")


def test_an_escaped_backslash_before_u0000_is_not_a_nul() -> None:
    assert parse_body(TABLE, b'{"name": "\\\\u0000"}') == Table("\\u0000")


@given(st.binary(max_size=200))
def test_a_random_body_is_parsed_or_refused_with_a_field(raw: bytes) -> None:
    field = "none was refused"
    try:
        parse_body(TABLE, raw)
    except InvalidInput as refused:
        field = refused.field or ""
    assert field


def test_query_text_is_converted_to_the_declared_types() -> None:
    raw = b"max_results=5&exact=true&text=a+b%2Bc%C3%BC&tag=x&tag=y"
    assert query(raw) == Search(max_results=5, exact=True, text="a b+cü", tag=["x", "y"])


def test_an_empty_query_has_all_defaults() -> None:
    assert query(b"") == query(b"&&") == Search()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"max_results=0", "max_results"),
        (b"max_results=", "max_results"),
        (b"max_results", "max_results"),
        (b"max_results=ten", "max_results"),
        (b"max_results=" + b"9" * 5000, "max_results"),
        (b"exact=perhaps", "exact"),
        (b"text=%ff", "text"),
        (b"text=%zz", "text"),
        (b"text=%00", "text"),
        (b"text=a&text=b", "text"),
        (b"%ff=1", "query"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        query(raw)
    assert refused.value.field == field


def test_unknown_parameters_are_ignored_even_if_repeated() -> None:
    assert query(b"later=1&later=2") == Search()


def test_a_strict_query_refuses_unknown_parameters() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_query(Strict, {"force": False}, b"froce=true")
    assert refused.value.field == "froce"


@given(st.binary(max_size=60))
def test_a_random_query_is_parsed_or_refused_with_a_field(raw: bytes) -> None:
    field = "none was refused"
    try:
        query(raw)
    except InvalidInput as refused:
        field = refused.field or ""
    assert field
