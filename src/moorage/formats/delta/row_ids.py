"""Row tracking: every row of a table has a unique id, and no two commits may assign the same id.

Writers count from the high-water mark in the log. If two writers count from the same mark, both commits are
valid until one is ratified. The catalog therefore tracks the high-water mark too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import CommitFile, DomainMetadata, RowRange

DOMAIN: Final = "delta.rowTracking"
FEATURE: Final = "rowTracking"
SUSPENDED: Final = "delta.rowTrackingSuspended"
NO_HIGH_WATER_MARK: Final = -1
"""One below the first id: the starting point of a table without a high-water mark."""


class _Configuration(msgspec.Struct, rename="camel"):
    row_id_high_water_mark: Annotated[int, msgspec.Meta(ge=NO_HIGH_WATER_MARK, le=2**63 - 1)]


def next_high_water_mark(commit: CommitFile, mark: int | None, *, version: int, tracked: bool) -> int | None:
    """The high-water mark after a commit. Raises InvalidInput if the commit assigns invalid ids."""
    action = next((action for action in commit.domains if action.domain == DOMAIN), None)
    if action is not None and action.removed:
        if tracked:
            # Counting would restart at zero and reuse the ids of existing rows.
            raise InvalidInput(f"{DOMAIN} cannot be removed while the table tracks rows", field=DOMAIN)
        return None
    before = NO_HIGH_WATER_MARK if mark is None else mark
    after = before if action is None else high_water_mark_of(action)
    if after < before:
        raise InvalidInput(f"the row id high-water mark must not decrease from {before} to {after}", field=DOMAIN)
    if tracked and (highest := _highest_new_id(commit.added, before, version)) > after:
        raise InvalidInput(
            f"the commit assigns row ids up to {highest}, but its high-water mark is {after}", field=DOMAIN
        )
    return None if after == NO_HIGH_WATER_MARK else after


def high_water_mark_of(action: DomainMetadata) -> int:
    """The mark that a table's domain states."""
    try:
        return msgspec.json.decode(action.configuration, type=_Configuration).row_id_high_water_mark
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidInput(f"the domain {DOMAIN} has no rowIdHighWaterMark", field=DOMAIN) from None


def _highest_new_id(added: Iterable[RowRange], mark: int, version: int) -> int:
    """The last id that new files use. Files that the table already had keep their ids."""
    new_files: list[tuple[int, int, str]] = []
    for file in added:
        if file.base is None or file.since is None:
            raise InvalidInput(
                f"{file.path!r} needs baseRowId and defaultRowCommitVersion: the table tracks rows", field="baseRowId"
            )
        if file.since > version:
            raise InvalidInput(
                f"{file.path!r} has defaultRowCommitVersion {file.since}, above the version {version} of this commit",
                field="defaultRowCommitVersion",
            )
        if file.base > mark:
            new_files.append((file.base, _last_id(file, file.base), file.path))
        elif file.since == version:
            raise InvalidInput(
                f"{file.path!r} starts at row id {file.base}, which is not above the high-water mark {mark}",
                field="baseRowId",
            )
    new_files.sort()
    last = mark
    for base, end, path in new_files:
        if base <= last:
            raise InvalidInput(
                f"the row ids of {path!r} start at {base}, which overlaps those of another file", field="baseRowId"
            )
        last = max(last, end)
    return last


def _last_id(file: RowRange, base: int) -> int:
    if file.rows is None:
        raise InvalidInput(f"{file.path!r} needs numRecords in its stats: the table tracks rows", field="stats")
    return base + file.rows - 1
