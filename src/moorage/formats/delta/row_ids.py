"""Row tracking: every row of a table has an id of its own, and no two commits may give out the same.

Writers count from a high-water mark that lies in the log. Two that counted from the same mark would both be
right until the second is ratified, so the catalog counts along.
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
NO_MARK: Final = -1
"""Below the first id: what a table without a mark counts from."""


class _Mark(msgspec.Struct, rename="camel"):
    row_id_high_water_mark: Annotated[int, msgspec.Meta(ge=NO_MARK, le=2**63 - 1)]


def next_mark(commit: CommitFile, mark: int | None, *, version: int, tracked: bool) -> int | None:
    """The high-water mark after a commit; InvalidInput if it gives out ids wrongly."""
    action = next((action for action in commit.domains if action.domain == DOMAIN), None)
    if action is not None and action.removed:
        if tracked:
            # Counting would start again at zero, over the ids of rows that are still there.
            raise InvalidInput(f"{DOMAIN} cannot be removed while the table tracks rows", field=DOMAIN)
        return None
    before = NO_MARK if mark is None else mark
    after = before if action is None else _mark_of(action)
    if after < before:
        raise InvalidInput(f"the row id mark would fall from {before} to {after}", field=DOMAIN)
    if tracked and (highest := _highest_fresh_id(commit.added, before, version)) > after:
        raise InvalidInput(f"the commit gives out row ids up to {highest}, but its mark is {after}", field=DOMAIN)
    return None if after == NO_MARK else after


def _mark_of(action: DomainMetadata) -> int:
    try:
        return msgspec.json.decode(action.configuration, type=_Mark).row_id_high_water_mark
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidInput(f"the domain {DOMAIN} has no rowIdHighWaterMark", field=DOMAIN) from None


def _highest_fresh_id(added: Iterable[RowRange], mark: int, version: int) -> int:
    """The last id that the new files take. Files that were in the table before keep the ids they have."""
    fresh: list[tuple[int, int, str]] = []
    for file in added:
        if file.base is None or file.since is None:
            raise InvalidInput(
                f"{file.path!r} needs baseRowId and defaultRowCommitVersion: the table tracks rows", field="baseRowId"
            )
        if file.since > version:
            raise InvalidInput(
                f"{file.path!r} is of version {file.since}, which is still to come", field="defaultRowCommitVersion"
            )
        if file.base > mark:
            fresh.append((file.base, _last_id(file, file.base), file.path))
        elif file.since == version:
            raise InvalidInput(
                f"{file.path!r} starts at row id {file.base}, which lies below the mark {mark}", field="baseRowId"
            )
    fresh.sort()
    last = mark
    for base, end, path in fresh:
        if base <= last:
            raise InvalidInput(f"the row ids of {path!r} start at {base}, within those of another", field="baseRowId")
        last = max(last, end)
    return last


def _last_id(file: RowRange, base: int) -> int:
    if file.rows is None:
        raise InvalidInput(f"{file.path!r} needs numRecords in its stats: the table tracks rows", field="stats")
    return base + file.rows - 1
