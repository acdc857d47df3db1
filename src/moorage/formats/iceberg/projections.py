"""Projections of a column predicate to partition values.

`included` is the inclusive projection: it holds for every partition with a matching row, so it selects the files
to read. `assured` is the strict projection: all rows of a partition for which it holds match.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from moorage.formats.iceberg.expressions import Expression, Predicate, join
from moorage.formats.iceberg.specs import PartitionField, Spec
from moorage.formats.iceberg.transforms import applied
from moorage.formats.iceberg.values import Value


def included(predicate: Predicate, spec: Spec) -> Expression:
    """The inclusive projection: a condition that every partition with a matching row satisfies."""
    parts = (_included(predicate, each) for each in spec if each.source_id == predicate.term.field.id)
    return join("and", parts)


def assured(predicate: Predicate, spec: Spec) -> Expression:
    """The strict projection: a condition that guarantees that all rows of a partition match."""
    parts = (_assured(predicate, each) for each in spec if each.source_id == predicate.term.field.id)
    return join("or", parts)


def _included(predicate: Predicate, field: PartitionField) -> Expression:
    found = _direct(predicate, field) or _projected(_INCLUDED, predicate, field)
    if found is None:
        return True
    return _or_misplaced(found, field) if field.transform.is_temporal else found


def _assured(predicate: Predicate, field: PartitionField) -> Expression:
    found = _direct(predicate, field) or _projected(_ASSURED, predicate, field)
    if found is None:
        return False
    return _and_not_misplaced(found, field) if field.transform.is_temporal else found


def _direct(predicate: Predicate, field: PartitionField) -> Predicate | None:
    tests_null = predicate.op in ("is-null", "not-null") and predicate.term.transform is None
    if field.is_exact(predicate.term) or (tests_null and field.transform.name in _KEEP_NULLS):
        return field.predicate(predicate.op, *predicate.values)
    return None


_KEEP_NULLS = frozenset(("bucket", "truncate", "year", "month", "day", "hour"))
"""Transforms that map null, and only null, to null. `void` maps every value to null."""

Rules = dict[str, dict[str, Callable[[PartitionField, Any], "Predicate | None"]]]


def _projected(rules: Rules, predicate: Predicate, field: PartitionField) -> Predicate | None:
    if predicate.term.transform is not None:
        return None
    name, kind = field.transform.name, field.source_kind
    shape = name if name == "bucket" else "whole" if kind.is_whole else "text" if kind.is_text else ""
    if not field.transform.is_temporal and name not in ("bucket", "truncate"):
        return None
    rule = rules.get(shape, {}).get(predicate.op)
    if rule is None:
        return None
    return rule(field, predicate.values if predicate.op in ("in", "not-in") else predicate.values[0])


def _at(field: PartitionField, value: Any) -> Value:
    return applied(field.transform, field.source_kind, value)


def _per_literal(op: str) -> Callable[[PartitionField, Any], Predicate | None]:
    """The same test on the transformed literals. A literal that no column value can equal has no projection."""

    def project(field: PartitionField, literals: Any) -> Predicate | None:
        values = literals if isinstance(literals, tuple) else (literals,)
        if field.source_kind.is_whole and not all(isinstance(value, int) for value in values):
            return None
        try:
            return field.predicate(op, *dict.fromkeys(_at(field, value) for value in values))
        except OverflowError:  # a literal of more than 64 bits has no bucket
            return None

    return project


_WHOLE_INCLUDED: dict[str, Callable[[PartitionField, Any], Predicate | None]] = {
    "lt": lambda to, value: to.predicate("lt-eq", _at(to, math.ceil(value) - 1)),
    "lt-eq": lambda to, value: to.predicate("lt-eq", _at(to, math.floor(value))),
    "gt": lambda to, value: to.predicate("gt-eq", _at(to, math.floor(value) + 1)),
    "gt-eq": lambda to, value: to.predicate("gt-eq", _at(to, math.ceil(value))),
    "eq": _per_literal("eq"),
    "in": _per_literal("in"),
}
_WHOLE_ASSURED: dict[str, Callable[[PartitionField, Any], Predicate | None]] = {
    "lt": lambda to, value: to.predicate("lt", _at(to, math.ceil(value))),
    "lt-eq": lambda to, value: to.predicate("lt", _at(to, math.floor(value) + 1)),
    "gt": lambda to, value: to.predicate("gt", _at(to, math.floor(value))),
    "gt-eq": lambda to, value: to.predicate("gt", _at(to, math.ceil(value) - 1)),
    "not-eq": _per_literal("not-eq"),
    "not-in": _per_literal("not-in"),
}
_TEXT_INCLUDED: dict[str, Callable[[PartitionField, Any], Predicate | None]] = {
    "lt": lambda to, value: to.predicate("lt-eq", _at(to, value)),
    "lt-eq": lambda to, value: to.predicate("lt-eq", _at(to, value)),
    "gt": lambda to, value: to.predicate("gt-eq", _at(to, value)),
    "gt-eq": lambda to, value: to.predicate("gt-eq", _at(to, value)),
    "eq": _per_literal("eq"),
    "in": _per_literal("in"),
    "starts-with": lambda to, prefix: to.predicate(
        "starts-with" if len(prefix) <= to.transform.width else "eq", _at(to, prefix)
    ),
    "not-starts-with": lambda to, prefix: (
        to.predicate("not-starts-with", prefix) if len(prefix) <= to.transform.width else None
    ),
}
_TEXT_ASSURED: dict[str, Callable[[PartitionField, Any], Predicate | None]] = {
    "lt": lambda to, value: to.predicate("lt", _at(to, value)),
    "lt-eq": lambda to, value: to.predicate("lt", _at(to, value)),
    "gt": lambda to, value: to.predicate("gt", _at(to, value)),
    "gt-eq": lambda to, value: to.predicate("gt", _at(to, value)),
    "not-eq": _per_literal("not-eq"),
    "not-in": _per_literal("not-in"),
    "starts-with": lambda to, prefix: (
        to.predicate("starts-with", prefix) if len(prefix) <= to.transform.width else None
    ),
    "not-starts-with": lambda to, prefix: to.predicate(
        "not-starts-with" if len(prefix) <= to.transform.width else "not-eq", _at(to, prefix)
    ),
}
_INCLUDED: Rules = {
    "bucket": {"eq": _per_literal("eq"), "in": _per_literal("in")},
    "whole": _WHOLE_INCLUDED,
    "text": _TEXT_INCLUDED,
}
_ASSURED: Rules = {
    "bucket": {"not-eq": _per_literal("not-eq"), "not-in": _per_literal("not-in")},
    "whole": _WHOLE_ASSURED,
    "text": _TEXT_ASSURED,
}


# Iceberg up to 0.10 placed times before 1970 one year, month, day or hour too late. Such files are still read,
# so before the epoch the next partition is included too.


def _or_misplaced(projected: Predicate, field: PartitionField) -> Predicate:
    values = tuple(value for value in projected.values if isinstance(value, int))
    match projected.op:
        case "lt" | "lt-eq" if values[0] < 0:
            return field.predicate(projected.op, values[0] + 1)
        case "eq" | "in" if min(values) < 0:
            both = dict.fromkeys((*values, *(value + 1 for value in values if value < 0)))
            return field.predicate("in", *both)
    return projected


def _and_not_misplaced(projected: Predicate, field: PartitionField) -> Predicate:
    values = tuple(value for value in projected.values if isinstance(value, int))
    match projected.op:
        case "gt" | "gt-eq" if values[0] <= 0:
            return field.predicate(projected.op, values[0] + 1)
        case "not-eq" | "not-in" if min(values) < 0:
            both = dict.fromkeys((*values, *(value + 1 for value in values if value < 0)))
            return field.predicate("not-in", *both)
    return projected
