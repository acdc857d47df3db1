"""Projections of filters to partitions, bounds and residuals, compared with the rows themselves."""

from __future__ import annotations

import os
import struct
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.formats.iceberg.expressions import Predicate, Term
from moorage.formats.iceberg.fields import Field
from moorage.formats.iceberg.manifests import Stats, Summary
from moorage.formats.iceberg.metrics import file_test, manifest_may_match
from moorage.formats.iceberg.projections import assured, included
from moorage.formats.iceberg.ranges import holds
from moorage.formats.iceberg.residuals import evaluated, residuals
from moorage.formats.iceberg.specs import PartitionField, Spec
from moorage.formats.iceberg.transforms import applied, parse_transform
from moorage.formats.iceberg.values import Primitive, parse_primitive

EXAMPLES = 1_000 if os.environ.get("MOORAGE_SOAK") else 25
WHOLE = st.integers(-400, 400)
SECONDS = st.integers(-3 * 366 * 86_400, 3 * 366 * 86_400)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "long": WHOLE,
    "decimal(9,2)": WHOLE,
    "date": WHOLE,
    "timestamp": SECONDS.map(lambda seconds: seconds * 1_000_000 + seconds % 7),
    "timestamptz_ns": SECONDS.map(lambda seconds: seconds * 1_000_000_000 - seconds % 7),
    "string": st.text("abé", max_size=4),
    "binary": st.binary(max_size=4),
}
TRANSFORMS = {
    "long": ["identity", "bucket[3]", "truncate[10]", "void"],
    "decimal(9,2)": ["identity", "bucket[3]", "truncate[50]"],
    "date": ["identity", "bucket[3]", "year", "month", "day"],
    "timestamp": ["identity", "year", "month", "day", "hour"],
    "timestamptz_ns": ["bucket[3]", "year", "month", "day", "hour"],
    "string": ["identity", "bucket[3]", "truncate[2]"],
    "binary": ["identity", "bucket[3]", "truncate[2]"],
}
ONE = ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq")
CASES = [(kind, transform) for kind, transforms in TRANSFORMS.items() for transform in transforms]


def spec_of(kind: str, *transforms: str) -> Spec:
    return tuple(
        PartitionField(at, 1000 + at, f"p{at}", 1, parse_primitive(kind), parse_transform(transform))
        for at, transform in enumerate(transforms)
    )


def partition_of(spec: Spec, value: Any) -> tuple[Any, ...]:
    nulls = [value is None or field.transform.name == "void" for field in spec]
    return tuple(
        None if is_null else applied(field.transform, field.source_kind, value)
        for is_null, field in zip(nulls, spec, strict=True)
    )


def predicate(op: str, kind: Primitive, *values: Any) -> Predicate:
    return Predicate(op, Term(Field(1, "column", kind, is_required=False)), values)


def predicates(kind: str) -> st.SearchStrategy[Predicate]:
    primitive, values = parse_primitive(kind), VALUES[kind]
    if kind.startswith("decimal"):
        values = st.one_of(values, WHOLE.map(lambda whole: Fraction(2 * whole + 1, 2)))
    found = [st.builds(predicate, st.sampled_from(ONE), st.just(primitive), values)]
    found.append(st.lists(values, min_size=2, max_size=4).map(lambda some: predicate("in", primitive, *some)))
    found.append(st.lists(values, min_size=2, max_size=4).map(lambda some: predicate("not-in", primitive, *some)))
    found.append(st.sampled_from(["is-null", "not-null"]).map(lambda op: predicate(op, primitive)))
    if kind == "string":
        found.append(
            st.builds(predicate, st.sampled_from(["starts-with", "not-starts-with"]), st.just(primitive), values)
        )
    return st.one_of(found)


@pytest.mark.parametrize(("kind", "transform"), CASES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_the_residual_filter_of_a_partition_selects_the_same_rows(
    kind: str, transform: str, data: st.DataObject
) -> None:
    spec, wanted = spec_of(kind, transform), data.draw(predicates(kind))
    value = data.draw(st.one_of(st.none(), VALUES[kind]))
    partition = partition_of(spec, value)
    matches = holds(wanted, value, nan=False)
    assert evaluated(included(wanted, spec), partition, nan=True) or not matches
    assert matches or not evaluated(assured(wanted, spec), partition, nan=False)
    left = residuals(wanted, spec)(partition).expression
    assert isinstance(left, bool | Predicate)
    assert matches == (left if isinstance(left, bool) else holds(left, value, nan=False))


def encoded(kind: str, value: Any) -> bytes:
    if kind == "string":
        return bytes(value.encode())
    if kind == "binary":
        return bytes(value)
    if kind.startswith("decimal"):
        return int(value).to_bytes(8, "big", signed=True)
    return struct.pack("<i" if kind == "date" else "<q", value)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_a_file_with_a_matching_row_is_never_excluded(kind: str, data: st.DataObject) -> None:
    wanted = data.draw(predicates(kind))
    rows = data.draw(st.lists(st.one_of(st.none(), VALUES[kind]), min_size=1, max_size=3))
    values = [row for row in rows if row is not None]
    lower = {1: encoded(kind, min(values))} if values else {}
    upper = {1: encoded(kind, max(values))} if values else {}
    stats = Stats({}, {1: len(rows)}, {1: len(rows) - len(values)}, {}, lower, upper)
    matches = any(holds(wanted, row, nan=False) for row in rows)
    assert file_test(wanted)(stats) or not matches
    assert file_test(wanted)(Stats(None, None, None, None, None, None))

    summary = Summary(None in rows, has_nan=False, lower=lower.get(1), upper=upper.get(1))
    projected = included(wanted, spec_of(kind, "identity"))
    assert manifest_may_match(projected, (summary,)) or not matches


@pytest.mark.parametrize(
    ("op", "literal", "lower", "upper", "may_match"),
    [
        ("lt", 5, 5, 9, False),
        ("lt", 6, 5, 9, True),
        ("gt", 9, 5, 9, False),
        ("gt-eq", 9, 5, 9, True),
        ("eq", 4, 5, 9, False),
        ("eq", 7, 5, 9, True),
        ("in", 10, 5, 9, False),
        ("not-eq", 5, 5, 5, True),
    ],
)
def test_bounds_exclude_files_that_cannot_match(
    op: str, literal: int, lower: int, upper: int, *, may_match: bool
) -> None:
    bounds = [{1: struct.pack("<q", bound)} for bound in (lower, upper)]
    stats = Stats(None, {1: 3}, {1: 0}, None, *bounds)
    assert file_test(predicate(op, parse_primitive("long"), literal))(stats) is may_match


def test_files_with_only_nulls_or_nan_are_excluded() -> None:
    kind = parse_primitive("double")
    nulls, nans = Stats(None, {1: 3}, {1: 3}, {1: 0}, None, None), Stats(None, {1: 3}, {1: 0}, {1: 3}, None, None)
    assert not file_test(predicate("lt", kind, 1.0))(nulls)
    assert not file_test(predicate("lt", kind, 1.0))(nans)
    assert not file_test(predicate("not-null", kind))(nulls)
    assert not file_test(predicate("is-nan", kind))(nulls)
    assert not file_test(predicate("not-nan", kind))(nans)
    assert not file_test(predicate("is-null", kind))(nans)
    assert file_test(predicate("is-nan", kind))(nans)


def test_bounds_of_uuids_exclude_nothing() -> None:
    kind, low = parse_primitive("uuid"), bytes(16)
    stats = Stats(None, {1: 3}, {1: 0}, None, {1: low}, {1: low})
    assert file_test(predicate("eq", kind, b"\xff" * 16))(stats)


def test_a_nan_bound_is_ignored() -> None:
    nan = struct.pack("<d", float("nan"))
    stats = Stats(None, {1: 3}, {1: 0}, None, {1: nan}, {1: nan})
    assert file_test(predicate("lt", parse_primitive("double"), 1.0))(stats)


def test_times_that_old_writers_put_in_the_wrong_day_are_still_found() -> None:
    """Iceberg up to 0.10 put 1969-12-31 10:00 in day 0."""
    spec = spec_of("timestamp", "day")
    before = -14 * 3600 * 1_000_000
    wanted = predicate("eq", parse_primitive("timestamp"), before)
    assert [day for day in (-2, -1, 0, 1) if evaluated(included(wanted, spec), (day,), nan=True)] == [-1, 0]


def test_a_filter_can_name_the_transform_of_a_partition() -> None:
    kind, spec = parse_primitive("long"), spec_of("long", "bucket[3]")
    term = Term(Field(1, "column", kind, is_required=False), parse_transform("bucket[3]"))
    left = residuals(Predicate("eq", term, (2,)), spec)
    assert (left((2,)).expression, left((1,)).expression) == (True, False)
    other = Term(term.field, parse_transform("bucket[4]"))
    assert residuals(Predicate("eq", other, (2,)), spec)((1,)).expression == Predicate("eq", other, (2,))


def test_a_literal_that_no_value_equals_is_in_no_bucket() -> None:
    spec = spec_of("long", "bucket[3]")
    assert included(predicate("eq", parse_primitive("long"), 2**70), spec) is True


def test_an_unknown_transform_excludes_nothing() -> None:
    spec = spec_of("long", "zorder")
    for op, values in (("eq", (5,)), ("is-null", ())):
        wanted = predicate(op, parse_primitive("long"), *values)
        assert (included(wanted, spec), assured(wanted, spec)) == (True, False)
