"""Ranges of versions, as a request gives them and as they are carried out."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.errors import InvalidInput

THROUGH_THE_LATEST = -1

Span = tuple[int, int]
"""The first version and the last, both included."""


def spans_of(ranges: Iterable[Span], latest: int | None) -> list[Span]:
    """What is meant by ranges from a start to an end that is excluded, in order and without overlaps.

    Nothing lies above the latest version: what a later one would mean is not yet to be had.
    """
    found: list[Span] = []
    for number, (start, end) in enumerate(ranges):
        field = f"ranges[{number}]"
        if start < 0 or end < THROUGH_THE_LATEST:
            raise InvalidInput(f"a range from {start} to {end} is none: versions are not negative", field=field)
        if end != THROUGH_THE_LATEST and start > end:
            raise InvalidInput(f"a range from {start} to {end} ends before it begins", field=field)
        last = (latest or 0) if end == THROUGH_THE_LATEST else min(end - 1, latest or 0)
        if (first := max(start, 1)) <= last:
            found.append((first, last))
    return _joined(found)


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def without(spans: Iterable[Span], gone: Iterable[Span]) -> list[Span]:
    """The spans less what is gone already."""
    left = list(spans)
    for first, last in gone:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, first - 1)), (max(start, last + 1), end))
            if part[0] <= part[1]
        ]
    return left


def is_in(version: int, spans: Iterable[Span]) -> bool:
    return any(first <= version <= last for first, last in spans)
