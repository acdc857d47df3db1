"""Spark's filters in Lance's language, where both mean the same."""

from __future__ import annotations

from collections.abc import Container
from datetime import date, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

_COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TEXT_TESTS: Final[dict[type[Filter], str]] = {
    StringStartsWith: "starts_with",
    StringEndsWith: "ends_with",
    StringContains: "contains",
}


def to_lance(asked: Filter, columns: Container[str]) -> str | None:
    """The condition as SQL for a Lance scan; None where Spark has to check it itself.

    `columns` are those that both hold in the same type: Lance refuses a number that its column could not hold.
    """
    if isinstance(asked, Not):
        inside = to_lance(asked.child, columns)
        return None if inside is None else f"(NOT {inside})"
    name = asked.attribute[0]
    if len(asked.attribute) > 1 or name not in columns or "`" in name:
        return None
    column = f"`{name}`"
    if isinstance(asked, IsNull | IsNotNull):
        return f"({column} IS {'NOT ' if isinstance(asked, IsNotNull) else ''}NULL)"
    if isinstance(asked, In):
        values = [_literal(value) for value in asked.value]
        return None if None in values or not values else f"({column} IN ({', '.join(map(str, values))}))"
    value = _literal(asked.value)
    if value is None:
        return None
    if type(asked) in _TEXT_TESTS:
        return f"({_TEXT_TESTS[type(asked)]}({column}, {value}))"
    sign = _COMPARISONS.get(type(asked))
    return None if sign is None else f"({column} {sign} {value})"


def _literal(value: Any) -> str | None:
    """Not for floats: Spark takes -0.0 for 0.0 and NaN for the greatest of all, Lance does not.

    Nor for decimals and timestamps, which each of them reads with a scale and a zone of its own.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"date '{value.isoformat()}'"
    return None
