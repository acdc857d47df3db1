"""File pruning: skips files that certainly contain no row for which a predicate is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from moorage.snapshots import predicates
from moorage.snapshots.bounds import Bounds
from moorage.snapshots.bounds import Column as KnownColumn
from moorage.snapshots.column_values import scalar_of
from moorage.snapshots.predicates import And, Compare, In, IsNull, Not, Op, Or, Predicate, Value, negation

Known: TypeAlias = Mapping[predicates.Column, tuple[KnownColumn, Bounds]]
Mask: TypeAlias = pa.ChunkedArray | None
"""One bit per file. None means that no file can be skipped."""

_MOST_VALUES = 64
"""A longer list is replaced by the range from its smallest to its largest value."""


def may_match(predicate: Predicate, known: Known) -> Mask:
    """Return the files that may contain a row for which the predicate is true."""
    match predicate:
        case And(parts=parts):
            return _all([may_match(part, known) for part in parts])
        case Or(parts=parts):
            return _any([may_match(part, known) for part in parts])
        case Not(part=part):
            return may_match(negation(part), known)
    if predicate.column not in known:
        return None
    column, bounds = known[predicate.column]
    try:
        return _leaf(predicate, column, bounds)
    except pa.ArrowException:  # the values cannot be compared after all
        return None


def _leaf(predicate: Compare | In | IsNull, column: KnownColumn, bounds: Bounds) -> Mask:
    match predicate:
        case IsNull(negated=negated):
            return bounds.has_values if negated else bounds.has_nulls
        case Compare(op=op, value=value):
            scalars = _scalars([value], column)
            if _may_hide_nan(column) and op in (">", ">=", "!="):
                return bounds.has_values
            return None if scalars is None else pc.and_(bounds.has_values, _COMPARE[op](bounds, scalars[0]))
        case In(values=values, negated=negated):
            scalars = _scalars(values, column)
            if scalars is None:
                return None
            if negated and _may_hide_nan(column):
                return bounds.has_values
            found = _other_than(scalars, bounds) if negated else _within(scalars, bounds)
            return pc.and_(bounds.has_values, found)


def _may_hide_nan(column: KnownColumn) -> bool:
    """Whether a file may contain NaN, which is greater than every number, although its maximum is a number.

    Spark then writes no number as the maximum. Writers that copy the statistics of Parquet leave NaN out.
    """
    return column.type.name in ("float", "double") and not column.is_partition


def _scalars(values: Sequence[Value], column: KnownColumn) -> list[pa.Scalar] | None:
    scalars = [scalar_of(value, column.type) for value in values]
    return None if any(scalar is None for scalar in scalars) else scalars


def _true_if_unknown(mask: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(mask, True)  # noqa: FBT003


def _may_equal(bounds: Bounds, value: pa.Scalar) -> pa.ChunkedArray:
    return pc.and_(
        _true_if_unknown(pc.less_equal(bounds.lower, value)), _true_if_unknown(pc.greater_equal(bounds.upper, value))
    )


def _may_differ(bounds: Bounds, value: pa.Scalar) -> pa.ChunkedArray:
    only_this = pc.and_(pc.equal(bounds.lower, value), pc.equal(bounds.upper, value))
    return _true_if_unknown(pc.invert(only_this))


_COMPARE: dict[Op, Callable[[Bounds, pa.Scalar], pa.ChunkedArray]] = {
    "=": _may_equal,
    "!=": _may_differ,
    "<": lambda bounds, value: _true_if_unknown(pc.less(bounds.lower, value)),
    "<=": lambda bounds, value: _true_if_unknown(pc.less_equal(bounds.lower, value)),
    ">": lambda bounds, value: _true_if_unknown(pc.greater(bounds.upper, value)),
    ">=": lambda bounds, value: _true_if_unknown(pc.greater_equal(bounds.upper, value)),
}


def _within(values: list[pa.Scalar], bounds: Bounds) -> pa.ChunkedArray:
    if not values:
        return pc.and_not(bounds.has_values, bounds.has_values)
    if len(values) > _MOST_VALUES:
        ordered = sorted(values, key=lambda scalar: scalar.as_py())
        return pc.and_(
            _true_if_unknown(pc.less_equal(bounds.lower, ordered[-1])),
            _true_if_unknown(pc.greater_equal(bounds.upper, ordered[0])),
        )
    return reduce(pc.or_, (_may_equal(bounds, value) for value in values))


def _other_than(values: list[pa.Scalar], bounds: Bounds) -> pa.ChunkedArray:
    """Return the files that may contain other values: not those in which all rows have one of the listed values."""
    masks = [_may_differ(bounds, value) for value in values[:_MOST_VALUES]]
    return reduce(pc.and_, masks, bounds.has_values)


def _all(masks: list[Mask]) -> Mask:
    selective = [mask for mask in masks if mask is not None]
    return reduce(pc.and_, selective) if selective else None


def _any(masks: list[Mask]) -> Mask:
    if not masks or any(mask is None for mask in masks):
        return None
    return reduce(pc.or_, masks)
