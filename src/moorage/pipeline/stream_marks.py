"""The marks of Spark streams and ingests in the snapshots of Iceberg tables, and in the versions of Lance tables.

A stream that repeats a batch after a crash looks for its last batch, from the newest snapshot back. If the snapshot
with the mark has expired, or one between, it commits the batch a second time. An ingest is a stream of batches, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

STREAM_MARK: Final = "spark.sql.streaming.queryId"
"""In the summary of every snapshot that a stream has committed."""
INGEST_MARK: Final = "moorage.app-id"
"""The same for an ingest. In lower case, because Spark turns the names of write options into lower case."""
_LIVE_MS: Final = 30 * 24 * 3600 * 1000
"""A stream that has committed nothing for so long, while another one has, counts as ended."""


class Snapshot(NamedTuple):
    parent: int | None
    at_ms: int
    query: str | None
    """The id of the stream that has committed it."""


def snapshots_for_streams(snapshots: Mapping[int, Snapshot], current: int | None) -> int:
    """How many snapshots, counted from the current one, must stay. 0 if no stream has written the table."""
    line = enumerate(_line(snapshots, current), 1)
    marked = ((count, each.at_ms, () if each.query is None else (each.query,)) for count, each in line)
    return max(_needed(marked), default=0)


def snapshots_since(snapshots: Mapping[int, Snapshot], current: int | None, cutoff_ms: float) -> int:
    """How many snapshots, counted from the current one, were current at some time since a moment."""
    count = 0
    for snapshot in _line(snapshots, current):
        count += 1
        if snapshot.at_ms <= cutoff_ms:
            break
    return count


def oldest_of(snapshots: Mapping[int, Snapshot], current: int | None, count: int, cutoff_ms: float) -> float:
    """The time of the oldest one of the last snapshots, or the cutoff if that is older."""
    return min([cutoff_ms, *(each.at_ms for each in islice(_line(snapshots, current), count))])


def marked_versions(newest_first: Iterable[tuple[int, int, Mapping[str, str]]], prefix: str) -> set[int]:
    """The versions of a Lance table that must stay: those with the newest mark of each application.

    Each version has its number, its time and its metadata, in which the name of a mark begins with a prefix.
    """
    return _needed(
        (version, at_ms, [name for name in metadata if name.startswith(prefix)])
        for version, at_ms, metadata in newest_first
    )


def _line(snapshots: Mapping[int, Snapshot], current: int | None) -> Iterator[Snapshot]:
    """The current snapshot and those before it, as far as they are known."""
    while current is not None and current in snapshots:
        yield snapshots[current]
        current = snapshots[current].parent


def _needed(newest_first: Iterable[tuple[int, int, Iterable[str]]]) -> set[int]:
    """The numbers with the newest mark of each stream that has not ended, of numbers with their time and marks."""
    needed, seen, newest_ms = set[int](), set[str](), 0
    for number, at_ms, marks in newest_first:
        if new := set(marks) - seen:
            newest_ms = newest_ms or at_ms
            seen |= new
            if newest_ms - at_ms <= _LIVE_MS:
                needed.add(number)
    return needed
