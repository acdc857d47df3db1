"""Tests whether a file, or any file of a manifest, can have rows that match a condition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moorage.formats.iceberg.expressions import Expression, Joined, Opaque, Predicate
from moorage.formats.iceberg.manifests import Stats, Summary
from moorage.formats.iceberg.ranges import COMPARED, Range, may_compare, may_hold
from moorage.formats.iceberg.values import Primitive, Value, decode, is_nan

_UNORDERED = frozenset(("uuid", "unknown", "variant"))
"""Types without reliable bounds. Java compared UUIDs as signed numbers and other writers do not."""


FileTest = Callable[[Stats], bool]


def file_test(condition: Expression) -> FileTest:
    """A test that is false if the counts and bounds of a file exclude all its rows.

    It is built once and applied to many files.
    """
    match condition:
        case Joined(op="and", parts=parts):
            tests = [file_test(part) for part in parts]
            return lambda stats: all(test(stats) for test in tests)
        case Joined(parts=parts):
            tests = [file_test(part) for part in parts]
            return lambda stats: any(test(stats) for test in tests)
        case Predicate(term=term) if term.transform is None:
            return _column_test(condition)
        case bool():
            return lambda stats: condition
    # Files have bounds of columns, not of their transforms.
    return lambda stats: True


def _column_test(predicate: Predicate) -> FileTest:
    id, read, is_compared = predicate.term.field.id, _bound_reader(predicate.term.kind), predicate.op in COMPARED

    def may_match(stats: Stats) -> bool:
        raw = stats.lower.get(id) if stats.lower else None
        lower = None if raw is None else read(raw)
        raw = stats.upper.get(id) if stats.upper else None
        upper = None if raw is None else read(raw)
        if is_compared and lower is not None:
            # A column with bounds is not all null. Counts could not exclude more than that.
            return may_compare(predicate, lower, upper)
        return may_hold(predicate, _range(id, stats, lower, upper))

    return may_match


def _range(id: int, stats: Stats, lower: Value | None, upper: Value | None) -> Range:
    values, nulls, nans = ((each or {}).get(id) for each in (stats.values, stats.nulls, stats.nans))
    return Range(
        lower=lower,
        upper=upper,
        has_null=nulls is None or nulls > 0,
        has_nan=nans is None or nans > 0,
        only_null=values is not None and nulls is not None and values == nulls and values > 0,
        only_nan=values is not None and nans is not None and values == nans and values > 0,
    )


def manifest_may_match(projected: Expression, summaries: tuple[Summary, ...]) -> bool:
    """False if no partition of a manifest satisfies the condition projected to its spec."""
    match projected:
        case Joined(op="and", parts=parts):
            return all(manifest_may_match(part, summaries) for part in parts)
        case Joined(parts=parts):
            return any(manifest_may_match(part, summaries) for part in parts)
        case Predicate(term=term):
            if term.field.id >= len(summaries):
                return True
            found = summaries[term.field.id]
            return may_hold(projected, _partition_field(term.kind, found))
        case Opaque():
            return True
    return projected


def _partition_field(kind: Primitive, summary: Summary) -> Range:
    read, lower, upper = _bound_reader(kind), summary.lower, summary.upper
    return Range(
        lower=None if lower is None else read(lower),
        upper=None if upper is None else read(upper),
        has_null=summary.has_null,
        has_nan=summary.has_nan,
        # Nulls without bounds mean only nulls, unless there are NaN values, which have no bounds either.
        only_null=lower is None and upper is None and summary.has_null and not (kind.is_float and summary.has_nan),
    )


def _bound_reader(kind: Primitive) -> Callable[[bytes], Value | None]:
    if kind.name in _UNORDERED:
        return lambda raw: None
    if kind.is_float:
        return lambda raw: None if is_nan(found := decode(kind, raw)) else found
    return partial(decode, kind)
