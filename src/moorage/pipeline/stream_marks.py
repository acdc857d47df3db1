"""The marks of Spark streams and ingests in the snapshots of Iceberg tables, and in the versions of Lance tables.

A stream that repeats a batch after a crash looks for its last batch, from the newest snapshot back. If the snapshot
with the mark has expired, or one between, it commits the batch a second time. An ingest is a stream of batches, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    needed, count, seen, newest_ms = 0, 0, set[str](), 0
    while current is not None and current in snapshots:
        snapshot = snapshots[current]
        count += 1
        if snapshot.query is not None and snapshot.query not in seen:
            newest_ms = newest_ms or snapshot.at_ms
            seen.add(snapshot.query)
            if newest_ms - snapshot.at_ms <= _LIVE_MS:
                needed = count
        current = snapshot.parent
    return needed


def snapshots_since(snapshots: Mapping[int, Snapshot], current: int | None, cutoff_ms: float) -> int:
    """How many snapshots, counted from the current one, were current at some time since a moment."""
    count = 0
    while current is not None and current in snapshots:
        count += 1
        if snapshots[current].at_ms <= cutoff_ms:
            break
        current = snapshots[current].parent
    return count


def oldest_of(snapshots: Mapping[int, Snapshot], current: int | None, count: int, cutoff_ms: float) -> float:
    """The time of the oldest one of the last snapshots, or the cutoff if that is older."""
    oldest_ms = cutoff_ms
    for _ in range(count):
        if current is None or current not in snapshots:
            break
        oldest_ms = min(oldest_ms, snapshots[current].at_ms)
        current = snapshots[current].parent
    return oldest_ms


def marked_versions(newest_first: Iterable[tuple[int, int, Mapping[str, str]]], prefix: str) -> set[int]:
    """The versions of a Lance table that must stay: those with the newest mark of each application.

    Each version has its number, its time and its metadata, in which the name of a mark begins with a prefix.
    """
    needed, seen, newest_ms = set[int](), set[str](), 0
    for version, at_ms, metadata in newest_first:
        marks = {name for name in metadata if name.startswith(prefix)} - seen
        if marks:
            newest_ms = newest_ms or at_ms
            seen |= marks
            if newest_ms - at_ms <= _LIVE_MS:
                needed.add(version)
    return needed
