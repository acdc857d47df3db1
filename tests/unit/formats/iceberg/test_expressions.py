"""Filters in the old and new forms that clients send."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.expressions import Expression, expression_to_wire, parse_filter
from moorage.formats.iceberg.fields import Fields

FIELDS = Fields(
    {
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "city", "required": False, "type": "string"},
            {"id": 3, "name": "day", "required": False, "type": "date"},
            {"id": 4, "name": "weight", "required": False, "type": "double"},
            {
                "id": 5,
                "name": "home",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 6, "name": "zip", "required": True, "type": "int"}]},
            },
            {
                "id": 7,
                "name": "tags",
                "required": False,
                "type": {"type": "list", "element-id": 8, "element": "string", "element-required": True},
            },
        ]
    }
)


def parse(given: Any) -> Expression:
    return parse_filter(given, FIELDS)


def rewritten(given: Any) -> Any:
    return expression_to_wire(parse(given))


EQ = {"type": "eq", "term": "id", "value": 5}
REFERENCE = {"type": "reference", "name": "city"}
BUCKET = {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "city"}, "value": 3}


def applied(function: Any, *arguments: Any) -> dict[str, Any]:
    return {"type": "apply", "function": function, "arguments": list(arguments)}


LT = {"type": "lt", "term": "city", "value": "m"}


@pytest.mark.parametrize(
    "given",
    [
        True,
        False,
        EQ,
        {"type": "not-eq", "term": "day", "value": "2024-02-29"},
        {"type": "in", "term": "id", "values": [1, 2, 3]},
        {"type": "not-in", "term": "city", "values": ["a", "b"]},
        {"type": "starts-with", "term": "city", "value": "Os"},
        {"type": "not-starts-with", "term": "city", "value": "Os"},
        {"type": "is-null", "term": "city"},
        {"type": "not-nan", "term": "weight"},
        {"type": "gt-eq", "term": "home.zip", "value": 100},
        {"type": "and", "left": EQ, "right": {"type": "or", "left": LT, "right": {"type": "is-null", "term": "city"}}},
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "city"}, "value": 3},
        {"type": "gt", "term": {"type": "transform", "transform": "day", "term": "day"}, "value": "2024-02-29"},
    ],
)
def test_every_form_that_clients_use_is_written_as_it_was_read(given: Any) -> None:
    assert rewritten(given) == given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "true"}, True),
        ({"type": "literal", "value": False}, False),
        ({"type": "eq", "left": {"type": "reference", "name": "id"}, "right": 5}, EQ),
        ({"type": "eq", "left": {"type": "reference", "id": 1}, "right": {"type": "literal", "value": 5}}, EQ),
        (
            {
                "type": "gt",
                "left": {"type": "literal", "value": "m", "data-type": "string"},
                "right": {"type": "reference", "name": "city"},
            },
            LT,
        ),
        ({"type": "is-null", "child": {"type": "reference", "name": "city"}}, {"type": "is-null", "term": "city"}),
        (
            {
                "type": "in",
                "child": {"type": "reference", "name": "id"},
                "values": {"type": "literals", "values": [1, 2], "data-type": "long"},
            },
            {"type": "in", "term": "id", "values": [1, 2]},
        ),
        ({"type": "eq", "term": {"type": "reference", "term": "id"}, "value": 5}, EQ),
        ({"type": "eq", "left": applied("bucket", 16, REFERENCE), "right": 3}, BUCKET),
        ({"type": "eq", "left": applied(["bucket"], {"type": "literal", "value": 16}, REFERENCE), "right": 3}, BUCKET),
        (
            {
                "type": "eq",
                "left": 3,
                "right": applied({"catalog": "iceberg_functions", "identifier": ["bucket"]}, 16, REFERENCE),
            },
            BUCKET,
        ),
        (
            {"type": "is-null", "child": applied("year", {"type": "reference", "id": 3})},
            {"type": "is-null", "term": {"type": "transform", "transform": "year", "term": "day"}},
        ),
        ({"type": "eq", "term": {"type": "transform", "transform": "identity", "term": "id"}, "value": 5}, EQ),
        ({"type": "eq", "term": "day", "value": 19782}, {"type": "eq", "term": "day", "value": "2024-02-29"}),
        ({"type": "in", "term": "id", "values": [5, 5]}, EQ),
        ({"type": "in", "term": "id", "values": []}, False),
        ({"type": "not-in", "term": "id", "values": []}, True),
        ({"type": "is-null", "term": "id"}, False),
        ({"type": "is-nan", "term": "id"}, False),
        ({"type": "not", "child": {"type": "not", "child": EQ}}, EQ),
        ({"type": "not", "child": EQ}, {"type": "not-eq", "term": "id", "value": 5}),
        ({"type": "not", "child": LT}, {"type": "gt-eq", "term": "city", "value": "m"}),
        (
            {"type": "not", "child": {"type": "and", "left": EQ, "right": LT}},
            {
                "type": "or",
                "left": {"type": "not-eq", "term": "id", "value": 5},
                "right": {"type": "gt-eq", "term": "city", "value": "m"},
            },
        ),
        ({"type": "and", "left": True, "right": EQ}, EQ),
        ({"type": "or", "left": EQ, "right": {"type": "not", "child": False}}, True),
    ],
)
def test_equivalent_filters_have_one_form(given: Any, expected: Any) -> None:
    assert rewritten(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"type": "lt", "left": {"type": "reference", "name": "id"}, "right": {"type": "reference", "name": "home.zip"}},
        {
            "type": "eq",
            "left": {"type": "apply", "function": "upper", "arguments": [{"type": "reference", "name": "city"}]},
            "right": "OSLO",
        },
        {"type": "eq", "term": "tags.element", "value": "new"},
        {"type": "eq", "left": applied({"catalog": "mine", "identifier": ["year"]}, REFERENCE), "right": 3},
        {"type": "eq", "left": applied("bucket", REFERENCE), "right": 3},
        {"type": "is-null", "child": applied("bucket")},
        {"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "city"}, "value": [1]},
    ],
)
def test_predicates_that_only_the_client_can_evaluate_are_returned_unchanged(given: Any) -> None:
    assert rewritten(given) == given
    assert rewritten({"type": "not", "child": given}) == {"type": "not", "child": given}


def test_a_very_long_list_of_conditions_is_accepted_and_balanced() -> None:
    long: Any = EQ
    for number in range(900):
        long = {"type": "or", "left": long, "right": {"type": "eq", "term": "id", "value": 10 + number}}
    given, depth = rewritten(long), 0
    while given["type"] == "or":
        given, depth = given["left"], depth + 1
    assert depth < 12


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (5, "an object or a boolean"),
        ("true", "an object or a boolean"),
        (None, "an object or a boolean"),
        ({}, "not a predicate"),
        ({"type": []}, "not a predicate"),
        ({"type": "near", "term": "id", "value": 5}, "'near' is not a predicate"),
        ({"type": "eq", "term": "nothing", "value": 5}, "no column 'nothing'"),
        ({"type": "eq", "term": "ID", "value": 5}, "no column 'ID'"),
        ({"type": "eq", "term": {"type": "reference", "id": 99}, "value": 5}, "no column with the id 99"),
        ({"type": "eq", "term": "id"}, "None is not a value"),
        ({"type": "eq", "term": "id", "value": "five"}, "'five' is not a value of type long"),
        ({"type": "eq", "term": "home", "value": 5}, "not a value of type nested"),
        ({"type": "eq", "value": 5}, "no term"),
        ({"type": "in", "term": "id"}, "no values"),
        ({"type": "starts-with", "term": "id", "value": "5"}, "requires a string column"),
        ({"type": "and", "left": EQ}, "an object or a boolean"),
        ({"type": "not"}, "an object or a boolean"),
        ({"type": "eq", "term": {"type": "transform", "transform": 5, "term": "id"}, "value": 5}, "not a transform"),
        (
            {
                "type": "eq",
                "left": {"type": "apply", "function": "f", "arguments": [{"type": "reference", "name": "no"}]},
                "right": 1,
            },
            "no column 'no'",
        ),
    ],
)
def test_an_invalid_filter_is_refused_with_a_reason(given: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refusal:
        parse(given)
    assert refusal.value.field == "filter"


def test_nesting_is_limited() -> None:
    deep: Any = EQ
    for _ in range(300):
        deep = {"type": "not", "child": {"type": "and", "left": LT, "right": deep}}
    with pytest.raises(InvalidInput, match="nested more than"):
        parse(deep)
    term: Any = "id"
    for _ in range(5_000):
        term = {"type": "transform", "transform": "year", "term": term}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        parse({"type": "eq", "term": term, "value": 5})


def test_names_can_be_matched_case_insensitively() -> None:
    fields = Fields({"fields": [{"id": 1, "name": "Id", "required": True, "type": "long"}]}, case_sensitive=False)
    assert expression_to_wire(parse_filter(EQ, fields)) == {"type": "eq", "term": "Id", "value": 5}


def test_filters_on_infinite_floats_are_dropped_because_clients_misread_them() -> None:
    columns = [
        {"id": id, "name": name, "required": True, "type": name} for id, name in enumerate(("float", "double"), 1)
    ]
    fields = Fields({"fields": columns}, case_sensitive=True)

    def wire(given: Any) -> Any:
        return json.loads(msgspec.json.encode(expression_to_wire(parse_filter(given, fields))))

    for value in (math.inf, -math.inf):
        text = "Infinity" if value > 0 else "-Infinity"
        found = {"type": "eq", "term": "double", "value": value}
        assert wire({"type": "eq", "term": "double", "value": text}) == found
        assert wire({"type": "eq", "term": "float", "value": text}) is True
        assert wire({"type": "in", "term": "float", "values": [0.5, text]}) is True


def test_zero_and_minus_zero_are_two_values_of_a_list() -> None:
    fields = Fields({"fields": [{"id": 1, "name": "f", "required": True, "type": "float"}]}, case_sensitive=True)
    given = {"type": "in", "term": "f", "values": [0.0, -0.0, 0.0]}
    assert str(expression_to_wire(parse_filter(given, fields))["values"]) == "[0.0, -0.0]"
