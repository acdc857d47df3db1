"""Which files of a log only versions need that are no longer available. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moorage.snapshots.log_files import LOG, SIDECARS, Checkpoint, LogFiles, file_version
from moorage.storage.port import Listed

_STAGED = re.compile(rf"{LOG}_staged_commits/(\d{{20}})\.[^/]+\.json")


def first_recent(log: LogFiles, cutoff_ms: int) -> int:
    """The oldest version whose commit file is within the retention of the log. All files before it are older."""
    recent = (version for version, file in log.commits.items() if file.modified_ms > cutoff_ms)
    return min(recent, default=max(log.commits, default=0))


def oldest_start(log: LogFiles, floor: int, cutoff_ms: int) -> int | None:
    """The newest checkpoint from which every kept version can still be read; None if there is none.

    The commits before it are behind the floor and past the retention of the log.
    """
    last = min(floor, first_recent(log, cutoff_ms))
    return max((version for version in log.checkpoints if 0 < version <= last), default=None)


def expired_files(listed: Iterable[Listed], start: int, cutoff_ms: int) -> list[Listed]:
    """The files before a checkpoint: commits, checksums, compactions, checkpoints and staged commits.

    The commit of the checkpoint's own version stays, because it has the time of the version.
    """
    return [file for file in listed if file.modified_ms <= cutoff_ms and _newest_version(file.path, start) < start]


def expired_sidecars(listed: Iterable[Listed], needed: set[str], cutoff_ms: int) -> list[Listed]:
    """The sidecars that no remaining checkpoint names. A younger one may belong to a checkpoint that is being made."""
    return [
        file
        for file in listed
        if file.path.startswith(SIDECARS) and file.path not in needed and file.modified_ms <= cutoff_ms
    ]


def remaining_checkpoints(listed: Iterable[Listed], start: int) -> list[Checkpoint]:
    """Every file of a checkpoint from a version on: a version may have several checkpoints, of several writers."""
    return [
        Checkpoint(version, (file,))
        for file in listed
        if ".checkpoint." in file.path and (version := file_version(file.path)) is not None and version >= start
    ]


def _newest_version(path: str, otherwise: int) -> int:
    found = _STAGED.fullmatch(path)
    version = file_version(path) if found is None else int(found[1])
    return otherwise if version is None else version
