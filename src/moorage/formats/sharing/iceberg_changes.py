"""The changes between two versions of an Iceberg table, as the commit of a Delta log would state them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from moorage.formats.delta.file_actions import AddFile, RemoveFile
from moorage.formats.delta.log_commits import Commit
from moorage.formats.delta.replay import LogState, to_files
from moorage.formats.iceberg.documents import Document

_REPLACE: Final = "replace"
"""The operation of a snapshot that has the same rows in other files."""


def commit_between(before: LogState, after: LogState, *, data_change: bool) -> Commit:
    """The files that a version removed and added, and its protocol and metadata where they changed.

    A file of which other rows are deleted is removed with its former deletion vector and added with the new one.
    """
    removed = [_to_remove(file, data_change=data_change) for file in _only_in(before, after)]
    added = [replace(file, data_change=data_change) for file in _only_in(after, before)]
    return Commit(
        version=after.version,
        files=(*removed, *added),
        protocol=after.protocol if after.protocol != before.protocol else None,
        metadata=after.metadata if after.metadata != before.metadata else None,
    )


def changes_rows(before: Document | None, after: Document) -> bool:
    """Whether any snapshot that a version added may have changed rows. One that is rolled back to may have."""
    known = {snapshot["snapshot-id"]: snapshot for snapshot in after.get("snapshots", ())}
    end = None if before is None else before.get("current-snapshot-id")
    id = after.get("current-snapshot-id")
    while id is not None and id != end:
        snapshot = known.get(id)
        if snapshot is None or snapshot.get("summary", {}).get("operation") != _REPLACE:
            return True
        id = snapshot.get("parent-snapshot-id")
    return id != end


def _only_in(state: LogState, other: LogState) -> list[AddFile]:
    keys = pa.chunked_array([chunk for part in other.parts for chunk in part.slab.keys.chunks], pa.string())
    return [
        file
        for part in state.parts
        for file in to_files(part.slab.table.filter(pc.invert(pc.is_in(part.slab.keys, value_set=keys))))
    ]


def _to_remove(file: AddFile, *, data_change: bool) -> RemoveFile:
    return RemoveFile(
        path=file.path,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=file.partition_values,
        size=file.size,
        stats=file.stats,
        deletion_vector=file.deletion_vector,
    )
