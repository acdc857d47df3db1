"""What a Delta version changes about the files of a table, as an Iceberg snapshot has to express it."""

from __future__ import annotations

import io
import re

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.file_actions import AddFile, DeletionVector, RemoveFile
from moorage.formats.delta.log_commits import Commit
from moorage.formats.delta.replay import to_files
from moorage.snapshots.file_facts import STATED_ROWS
from moorage.storage.confine import confine


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one version. Files are named by their full paths."""

    version: int
    timestamp_ms: int
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    row_id_mark: int | None = None
    added: dict[str, AddFile] = {}
    rewritten: frozenset[str] = frozenset()
    """Added files that the table may have already: the version repeats their actions without a change of data."""
    gone: frozenset[str] = frozenset()
    vectors: dict[str, AddFile] = {}
    """Files with a new vector, by the action that states it."""
    restored: frozenset[str] = frozenset()
    """Files that stay, and lose their vector."""
    changes_data: bool = True


def file_path(root: str, path: str) -> str:
    """The full path of a file that a log names. Logs encode names once; Iceberg's metadata does not."""
    return root + confine(root, path)


def file_paths(root: str, paths: pa.ChunkedArray) -> pa.Array:
    """The same for a column of paths."""
    plain = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
    if pc.any(pc.match_substring_regex(plain, r"[%:\\]|^/|\.\.|//")).as_py():
        return pa.array([file_path(root, path) for path in plain.to_pylist()], pa.string())
    return pc.binary_join_element_wise(pa.scalar(root), plain, "")


def change_of(root: str, commit: Commit, *, timestamp_ms: int, row_id_mark: int | None) -> Change:
    """The changes of a commit."""
    adds = {file_path(root, file.path): file for file in commit.files if isinstance(file, AddFile)}
    removes = {file_path(root, file.path): file for file in commit.files if isinstance(file, RemoveFile)}
    kept = adds.keys() & removes.keys()
    added = {path: file for path, file in adds.items() if path not in kept}
    changed = {path for path in kept if _id(adds[path].deletion_vector) != _id(removes[path].deletion_vector)}
    vectors = {path: file for path, file in adds.items() if file.deletion_vector and (path in added or path in changed)}
    return Change(
        version=commit.version,
        timestamp_ms=timestamp_ms,
        protocol=commit.protocol,
        metadata=commit.metadata,
        row_id_mark=row_id_mark,
        added=added,
        rewritten=frozenset(path for path, file in added.items() if not file.data_change),
        gone=frozenset(removes.keys() - kept),
        vectors=vectors,
        restored=frozenset(path for path in changed if adds[path].deletion_vector is None),
        changes_data=any(file.data_change for file in commit.files),
    )


def _id(vector: DeletionVector | None) -> str | None:
    return None if vector is None else vector.unique_id


def unread_files(files: pa.Table, root: str) -> tuple[dict[str, AddFile], dict[str, int]]:
    """The files with deletion vectors, and the sizes of files whose number of rows the log does not state."""
    states_rows = pc.fill_null(pc.match_substring_regex(files["stats"], STATED_ROWS), False)  # noqa: FBT003
    uncounted = files.filter(pc.invert(states_rows))
    with_vectors = to_files(files.filter(files["deletionVector"].is_valid()))
    sizes = zip(file_paths(root, uncounted["path"]).to_pylist(), uncounted["size"].to_pylist(), strict=True)
    return {file_path(root, file.path): file for file in with_vectors}, dict(sizes)


def uncounted_files(change: Change) -> dict[str, int]:
    """The sizes of added files whose number of rows the log does not state."""
    return {path: file.size for path, file in change.added.items() if not re.search(STATED_ROWS, file.stats or "")}


def rows_in(footer: bytes) -> int:
    """The number of rows of a data file, from the bytes at its end. ValueError if it is not a Parquet file."""
    # Only few tables need it. With pandas in the environment, Arrow loads that too, which takes most of a second.
    import pyarrow.parquet as pq

    return int(pq.read_metadata(io.BytesIO(footer)).num_rows)
