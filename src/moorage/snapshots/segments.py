"""Selection of the files that make up a version: a checkpoint to start from, and commits to replay. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moorage.core.errors import Damaged, VersionNotFound
from moorage.snapshots.log_files import Checkpoint, LogFiles
from moorage.snapshots.table_ref import Ratified
from moorage.storage.port import Listed

MOST_REPLAYED = 100
"""Replaying this many commits is faster than reading a checkpoint."""


class Step(msgspec.Struct, frozen=True):
    """A commit or a log compaction, and the version of the table after it."""

    version: int
    source: Listed | Ratified


class Segment(msgspec.Struct, frozen=True):
    start: Checkpoint | None
    """None: replay starts from the caller's state, or from an empty one."""
    steps: tuple[Step, ...]


def plan(log: LogFiles, version: int, *, ratified: Mapping[int, Ratified], known: int | None = None) -> Segment:
    """Plan how to reconstruct a version. `known` is a version at or below it for which the caller has the state."""
    start = _newest_checkpoint(log, version)
    lacks: int | None = None
    if known is not None and (start is None or start.version - known <= MOST_REPLAYED):
        steps, lacks = _walk(log, known + 1, version, ratified)
        if lacks is None:
            return Segment(None, steps)
    if known is None or start is not None:  # the commits after `known` may be cleaned up; a checkpoint contains them
        steps, lacks = _walk(log, 0 if start is None else start.version + 1, version, ratified)
        if lacks is None:
            return Segment(start, steps)
    raise missing_version(log, wanted=version, lacks=lacks or 0)


def _newest_checkpoint(log: LogFiles, version: int) -> Checkpoint | None:
    newest = max((held for held in log.checkpoints if held <= version), default=None)
    return None if newest is None else log.checkpoints[newest]


def _walk(
    log: LogFiles, first: int, last: int, ratified: Mapping[int, Ratified]
) -> tuple[tuple[Step, ...], int | None]:
    """Return the steps from first to last, and the first missing version, if any."""
    steps: list[Step] = []
    at = first
    while at <= last:
        compaction = next((found for found in log.compactions.get(at, ()) if found.last <= last), None)
        if at in ratified:
            steps.append(Step(at, ratified[at]))
        elif compaction is not None:
            steps.append(Step(compaction.last, compaction.file))
        elif at in log.commits:
            steps.append(Step(at, log.commits[at]))
        else:
            return tuple(steps), at
        at = steps[-1].version + 1
    return tuple(steps), None


def missing_version(log: LogFiles, *, wanted: int, lacks: int) -> VersionNotFound | Damaged:
    """Return why a version cannot be reconstructed: it is no longer available, or the log has a gap."""
    oldest = log.oldest
    if oldest is not None and wanted < oldest:
        return VersionNotFound(
            f"version {wanted} is no longer available; the oldest available version is {oldest}",
            version=wanted,
            oldest=oldest,
        )
    return Damaged(
        f"version {wanted} cannot be read: version {lacks} is missing from the log", version=wanted, lacks=lacks
    )
