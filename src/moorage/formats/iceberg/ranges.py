"""Tests whether rows can satisfy a predicate, given only their bounds and counts.

Manifest lists have these for a partition field of many files, manifests for a column of one file. A test is false
only if no row can match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from moorage.formats.iceberg.expressions import Predicate
from moorage.formats.iceberg.values import Value, is_nan


class Range(msgspec.Struct, frozen=True):
    """What is known about some values. The defaults mean that nothing is known."""

    lower: Value | None = None
    upper: Value | None = None
    has_null: bool = True
    has_nan: bool = True
    only_null: bool = False
    only_nan: bool = False


def may_hold(predicate: Predicate, known: Range) -> bool:
    """False if no value in this range satisfies the predicate."""
    match predicate.op:
        case "is-null":
            return known.has_null
        case "not-null":
            return not known.only_null
        case "is-nan":
            return known.has_nan and not known.only_null
        case "not-nan":
            return not known.only_nan
        case "not-eq" | "not-in":
            return True
        case "not-starts-with":
            return known.has_null or not _all_start_with(str(predicate.values[0]), known)
    return not (known.only_null or known.only_nan) and may_compare(predicate, known.lower, known.upper)


def may_compare(predicate: Predicate, lower: Value | None, upper: Value | None) -> bool:
    """Like may_hold, for comparisons with a literal, which neither null nor NaN satisfies."""
    test = _TESTS[predicate.op]
    if len(predicate.values) == 1:
        return test(lower, upper, predicate.values[0])
    return any(test(lower, upper, value) for value in predicate.values)


def _may_start_with(lower: str | None, upper: str | None, prefix: str) -> bool:
    size = len(prefix)
    return (lower is None or lower[:size] <= prefix) and (upper is None or upper[:size] >= prefix)


def _all_start_with(prefix: str, known: Range) -> bool:
    bounds = (known.lower, known.upper)
    return all(isinstance(bound, str) and bound.startswith(prefix) for bound in bounds)


_TESTS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "lt": lambda lower, upper, value: lower is None or lower < value,
    "lt-eq": lambda lower, upper, value: lower is None or lower <= value,
    "gt": lambda lower, upper, value: upper is None or upper > value,
    "gt-eq": lambda lower, upper, value: upper is None or upper >= value,
    "eq": lambda lower, upper, value: (lower is None or lower <= value) and (upper is None or upper >= value),
    "in": lambda lower, upper, value: (lower is None or lower <= value) and (upper is None or upper >= value),
    "starts-with": _may_start_with,
}
COMPARED = frozenset(_TESTS)


def holds(predicate: Predicate, value: Value | None, *, nan: bool) -> bool:
    """Whether one value satisfies the predicate. Null is unequal to everything, as in every Iceberg reader.

    Readers differ on whether NaN is above all numbers, so the caller passes the result for NaN as `nan`.
    """
    match predicate.op:
        case "is-null":
            return value is None
        case "not-null":
            return value is not None
        case "is-nan":
            return is_nan(value)
        case "not-nan":
            return not is_nan(value)
        case "not-eq" | "not-in":
            return value not in predicate.values
        case "not-starts-with":
            return value is None or not str(value).startswith(str(predicate.values[0]))
    if value is None:
        return False
    if is_nan(value):
        return nan
    return any(_TESTS[predicate.op](value, value, literal) for literal in predicate.values)
