"""The files of a snapshot whose statistics the log does not state."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.replay import to_files
from moorage.snapshots.file_facts import STATED_ROWS
from moorage.snapshots.snapshot import Snapshot


class Missing(NamedTuple):
    """Some files without statistics, in the order of their paths."""

    total: int
    """How many files of the snapshot have none."""
    files: list[AddFile]
    is_last: bool
    """Whether no file without statistics comes after these."""


def files_without_statistics(snapshot: Snapshot, *, after: str | None, limit: int) -> Missing:
    """The next files without statistics after a path."""
    found = _select(snapshot)
    ahead = found if after is None else found.filter(pc.greater(found["path"], after))
    return Missing(found.num_rows, to_files(ahead.sort_by("path").slice(0, limit)), ahead.num_rows <= limit)


def still_without_statistics(snapshot: Snapshot, paths: Collection[str]) -> list[AddFile]:
    """Those of these files that the snapshot has, and has no statistics of."""
    found = _select(snapshot)
    return to_files(found.filter(pc.is_in(found["path"], value_set=pa.array(paths, pa.string()))))


def _select(snapshot: Snapshot) -> pa.Table:
    files = snapshot.select()
    states_rows = pc.fill_null(pc.match_substring_regex(files["stats"], STATED_ROWS), False)  # noqa: FBT003
    return files.filter(pc.invert(states_rows))
