"""Ranges of versions: half-open, joined, and limited to the latest version."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.formats.lance.ranges import Span, is_in, spans_of, without

RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 5)).map(lambda drawn: (drawn[0], sum(drawn))), max_size=5
)


@pytest.mark.parametrize(
    ("ranges", "latest", "spans"),
    [
        ([], 9, []),
        ([(0, 1)], 9, []),
        ([(0, -1)], 9, [(1, 9)]),
        ([(4, -1)], 9, [(4, 9)]),
        ([(10, -1)], 9, []),
        ([(0, -1)], None, []),
        ([(2, 4)], 9, [(2, 3)]),
        ([(3, 3)], 9, []),
        ([(8, 100)], 9, [(8, 9)]),
        ([(5, 7), (1, 3), (2, 5)], 9, [(1, 6)]),
        ([(1, 3), (4, 6)], 9, [(1, 2), (4, 5)]),
    ],
)
def test_ranges_are_read_as_the_specification_defines(
    ranges: list[Span], latest: int | None, spans: list[Span]
) -> None:
    assert spans_of(ranges, latest) == spans


@pytest.mark.parametrize("wrong", [(2, 1), (-1, 3), (-1, -1), (0, -2)])
def test_an_invalid_range_is_refused_by_its_position(wrong: Span) -> None:
    with pytest.raises(InvalidInput) as refused:
        spans_of([(0, 1), wrong], 9)
    assert refused.value.field == "ranges[1]"


@given(RANGES, RANGES, st.integers(1, 15))
def test_spans_contain_exactly_the_requested_versions(first: list[Span], second: list[Span], latest: int) -> None:
    expected = {version for start, end in first for version in range(max(start, 1), min(end, latest + 1))}
    spans = spans_of(first, latest)
    assert {version for version in range(30) if is_in(version, spans)} == expected
    deleted = spans_of(second, latest)
    left = without(spans, deleted)
    assert {version for version in range(30) if is_in(version, left)} == {v for v in expected if not is_in(v, deleted)}
    assert all(one[1] < other[0] for one, other in itertools.pairwise(left))
