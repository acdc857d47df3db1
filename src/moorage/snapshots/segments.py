"""Which files make up a version: a state to start from, and what is replayed on top. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moorage.core.errors import Damaged, VersionNotFound
from moorage.snapshots.log_files import Checkpoint, LogFiles
from moorage.snapshots.table_ref import Ratified
from moorage.storage.port import Listed

FEW = 100
"""So many commits are replayed sooner than a checkpoint is read."""


class Step(msgspec.Struct, frozen=True):
    """One commit, or a compacted run of them, which brings the table to a version."""

    version: int
    source: Listed | Ratified


class Segment(msgspec.Struct, frozen=True):
    start: Checkpoint | None
    """None: replay starts from the state that the caller has, or from nothing."""
    steps: tuple[Step, ...]


def plan(log: LogFiles, version: int, *, ratified: Mapping[int, Ratified], known: int | None = None) -> Segment:
    """The way to a version. `known` is one at or below it whose state the caller has."""
    start = _newest_checkpoint(log, version)
    lacks: int | None = None
    if known is not None and (start is None or start.version - known <= FEW):
        steps, lacks = _walk(log, known + 1, version, ratified)
        if lacks is None:
            return Segment(None, steps)
    if known is None or start is not None:  # what follows a known state may be cleaned away, and a checkpoint holds it
        steps, lacks = _walk(log, 0 if start is None else start.version + 1, version, ratified)
        if lacks is None:
            return Segment(start, steps)
    raise missing(log, wanted=version, lacks=lacks or 0)


def _newest_checkpoint(log: LogFiles, version: int) -> Checkpoint | None:
    newest = max((held for held in log.checkpoints if held <= version), default=None)
    return None if newest is None else log.checkpoints[newest]


def _walk(
    log: LogFiles, first: int, last: int, ratified: Mapping[int, Ratified]
) -> tuple[tuple[Step, ...], int | None]:
    """The steps from first to last, and the version at which they break off, if they do."""
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


def missing(log: LogFiles, *, wanted: int, lacks: int) -> VersionNotFound | Damaged:
    """Why a version cannot be put together: it is not kept any more, or the log has a hole."""
    oldest = log.oldest
    if oldest is not None and wanted < oldest:
        return VersionNotFound(
            f"version {wanted} is no longer kept; the oldest that can be read is {oldest}",
            version=wanted,
            oldest=oldest,
        )
    return Damaged(f"version {wanted} cannot be read: the log lacks version {lacks}", version=wanted, lacks=lacks)
