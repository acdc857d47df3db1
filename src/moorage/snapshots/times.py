"""Commit times of versions: in-commit timestamps, or the modification times of commit files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.snapshots.log_files import LogFiles

if TYPE_CHECKING:
    from moorage.formats.delta.replay import LogState

_FEATURES = frozenset(("inCommitTimestamp", "inCommitTimestamp-preview"))
_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_SINCE_MS = "delta.inCommitTimestampEnablementTimestamp"


class InCommit(msgspec.Struct, frozen=True):
    """The version and time since which commits contain inCommitTimestamp. Older ones have the time of their file."""

    version: int
    at_ms: int


def in_commit_times(protocol: Protocol, metadata: Metadata) -> InCommit | None:
    """Return since when the table uses in-commit timestamps, or None if it does not."""
    configuration = metadata.configuration
    if configuration.get(_ENABLED) != "true" or not _FEATURES & set(protocol.writer_features):
        return None
    version, at_ms = configuration.get(_SINCE_VERSION, ""), configuration.get(_SINCE_MS, "")
    return InCommit(int(version) if version.isdecimal() else 0, int(at_ms) if at_ms.isdecimal() else 0)


def file_times(log: LogFiles, known: tuple[int, int] = (-1, -1)) -> dict[int, int]:
    """Return the times of the commit files after a known version and its time.

    The clocks of writers differ, so the modification times may not be in the order of the versions. Each time is at
    least a millisecond after the one before.
    """
    times: dict[int, int] = {}
    first, last = known[0] + 1, known[1]
    for version in sorted(version for version in log.commits if version >= first):
        last = max(log.commits[version].modified_ms, last + 1)
        times[version] = last
    return times


def timestamp_of(state: LogState, log: LogFiles, known: tuple[int, int] = (-1, -1)) -> int:
    """Return the commit time of the state's version. `known` is an older version and its time."""
    if state.protocol is not None and state.metadata is not None and in_commit_times(state.protocol, state.metadata):
        stated = (state.commit_info or {}).get("inCommitTimestamp")
        if isinstance(stated, int):
            return stated
    return (
        file_times(log, known).get(state.version)
        or writer_timestamp(state.commit_info)
        or checkpoint_time(log, state.version)
    )


def writer_timestamp(commit_info: dict[str, Any] | None) -> int | None:
    """Return the writer's own timestamp. It is the only one for a commit that is not published yet."""
    stated = (commit_info or {}).get("timestamp")
    return stated if isinstance(stated, int) else None


def checkpoint_time(log: LogFiles, version: int) -> int:
    checkpoint = log.checkpoints.get(version)
    return 0 if checkpoint is None else checkpoint.files[0].modified_ms


async def last_at(moment_ms: int, first: int, last: int, time_of: Callable[[int], Awaitable[int]]) -> int | None:
    """Return the last version between first and last that was committed by the moment, or None if there is none."""
    if first > last or await time_of(first) > moment_ms:
        return None
    while first < last:
        middle = (first + last + 1) // 2
        if await time_of(middle) <= moment_ms:
            first = middle
        else:
            last = middle - 1
    return first
