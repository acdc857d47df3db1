"""Ranges of versions: as a request states them, and normalized."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.errors import InvalidInput

THROUGH_THE_LATEST = -1

Span = tuple[int, int]
"""The first version and the last, both included."""


def spans_of(ranges: Iterable[Span], latest: int | None) -> list[Span]:
    """Convert ranges with an exclusive end to sorted spans without overlaps.

    Spans end at the latest version, because later versions do not exist yet.
    """
    found: list[Span] = []
    for number, (start, end) in enumerate(ranges):
        field = f"ranges[{number}]"
        if start < 0 or end < THROUGH_THE_LATEST:
            raise InvalidInput(f"the range from {start} to {end} has a negative version", field=field)
        if end != THROUGH_THE_LATEST and start > end:
            raise InvalidInput(f"the range from {start} to {end} ends before it begins", field=field)
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


def without(spans: Iterable[Span], deleted: Iterable[Span]) -> list[Span]:
    """The spans without the versions that are already deleted."""
    left = list(spans)
    for first, last in deleted:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, first - 1)), (max(start, last + 1), end))
            if part[0] <= part[1]
        ]
    return left


def is_in(version: int, spans: Iterable[Span]) -> bool:
    return any(first <= version <= last for first, last in spans)
