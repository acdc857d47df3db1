"""The state of a Delta table at a version: commits replayed over a checkpoint, with files stored as columns.

Files are stored in slabs. A slab is immutable and is shared by every version that has some of its files.
A further version therefore costs its own files and one bit for each older file. A file is removed and
replaced by its key: the path, and the deletion vector if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.file_actions import AddFile, RemoveFile
from moorage.formats.delta.log_commits import Commit

TEXTS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
FILES = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", TEXTS),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""The columns of a table's files, named as the protocol names the fields of `add`."""

# The columns of a large table are allocated and freed whole. The system's allocator returns their memory when
# they are freed. With Arrow's own allocator, reading a large checkpoint also took three times as long.
pa.set_memory_pool(pa.system_memory_pool())

REQUIRED = ("path", "partitionValues", "size", "modificationTime", "dataChange")
_SEPARATOR = "\0"
"""Separates path and vector in a key. No path may contain it, so no two files share a key."""


_numbers = count()
_SLICE = 50
_ROWS = 2_000


class Slab:
    """Files that were read together. A slab is immutable and compared by identity."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.number = next(_numbers)
        """Identifies the slab in this process, for caches that must not keep it alive."""

    @cached_property
    def keys(self) -> pa.ChunkedArray:
        vectors = self.table["deletionVector"]
        path = self.table["path"]
        if vectors.null_count == len(vectors):
            return path
        kind, target, offset = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
        at = pc.fill_null(pc.binary_join_element_wise("@", pc.cast(offset, pa.string()), ""), "")
        vector = pc.binary_join_element_wise(kind, target, at, "")
        return pc.coalesce(pc.binary_join_element_wise(path, vector, _SEPARATOR), path)

    @property
    def nbytes(self) -> int:
        """The memory that the slab uses. Buffers that it uses in part are counted whole."""
        return int(self.table.get_total_buffer_size())


class Part(msgspec.Struct, frozen=True):
    """The files of one slab that are still part of a version."""

    slab: Slab
    alive: Any
    """One bit per file of the slab, as an Arrow array; None means all files."""
    count: int

    @property
    def table(self) -> pa.Table:
        return self.slab.table if self.alive is None else self.slab.table.filter(self.alive)


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """The complete state of a table's log at one version."""

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, SetTransaction] = {}
    domains: dict[str, DomainMetadata] = {}
    parts: tuple[Part, ...] = ()
    commit_info: dict[str, Any] | None = None
    """The commitInfo of exactly this version. A checkpoint does not store it."""

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    def files(self) -> pa.Table:
        return pa.concat_tables([FILES.empty_table(), *(part.table for part in self.parts)])


def key_of(file: AddFile | RemoveFile) -> str:
    vector = file.deletion_vector
    return file.path if vector is None else file.path + _SEPARATOR + vector.unique_id


def advance(state: LogState, commits: Sequence[Commit]) -> LogState:
    """The state after these commits, which follow it without a gap, oldest first.

    All commits are applied together, because the pass over all older files is the main cost. The last action
    on a file decides. A commit may arrive in slices that have the same version.
    """
    if not commits:
        return state
    last: dict[str, AddFile | RemoveFile] = {key_of(file): file for commit in commits for file in commit.files}
    added = [file for file in last.values() if isinstance(file, AddFile)]
    parts = _without(state.parts, last)
    if added:
        parts = (*parts, part_of(to_table(added)))
    protocols = [commit.protocol for commit in commits if commit.protocol is not None]
    metadatas = [commit.metadata for commit in commits if commit.metadata is not None]
    version = commits[-1].version
    infos = [commit.commit_info for commit in commits if commit.version == version and commit.commit_info is not None]
    info_before = state.commit_info if state.version == version else None
    return replace(
        state,
        version=version,
        protocol=protocols[-1] if protocols else state.protocol,
        metadata=metadatas[-1] if metadatas else state.metadata,
        transactions=_transactions(state.transactions, [txn for commit in commits for txn in commit.transactions]),
        domains=_domains(state.domains, [domain for commit in commits for domain in commit.domains]),
        parts=_merged(parts),
        commit_info=infos[-1] if infos else info_before,
    )


def to_table(files: Iterable[AddFile]) -> pa.Table:
    """The files as columns."""
    rows = list(files)
    if len(rows) <= _ROWS:
        return _to_table(rows)
    # Arrow converts the values of a column in one call, during which no other thread runs: 60 ms for 50,000 files.
    parts = [_to_table(rows[start : start + _ROWS]) for start in range(0, len(rows), _ROWS)]
    return pa.concat_tables(parts).combine_chunks()


def _to_table(rows: list[AddFile]) -> pa.Table:
    columns: list[list[Any]] = [
        [row.path for row in rows],
        [row.partition_values for row in rows],
        [row.size for row in rows],
        [row.modification_time for row in rows],
        [row.data_change for row in rows],
        [row.stats for row in rows],
        [row.tags for row in rows],
        [row.deletion_vector and msgspec.to_builtins(row.deletion_vector) for row in rows],
        [row.base_row_id for row in rows],
        [row.default_row_commit_version for row in rows],
        [row.clustering_provider for row in rows],
    ]
    try:
        return pa.table([_column(values, field) for values, field in zip(columns, FILES, strict=True)], FILES)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise Damaged(f"a file action of the log has a value out of range: {error}") from error


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    # Half of the columns are mostly null. Converting their nulls one by one would take as long as the other half.
    return pa.nulls(len(values), field.type) if values.count(None) == len(values) else pa.array(values, field.type)


def to_files(table: pa.Table) -> list[AddFile]:
    """The rows of a table of files as add actions."""
    # Arrow converts all rows in one call, during which no other thread runs: 40 ms for 5,000 files.
    # Half of the columns are mostly null, and a missing field is null too.
    chosen = table.select([name for name in FILES.names if table[name].null_count < table.num_rows])
    return [file for start in range(0, table.num_rows, _SLICE) for file in _to_files(chosen.slice(start, _SLICE))]


def packed(table: pa.Table) -> bytes:
    """A table of files as an Arrow stream, for another process."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def _to_files(table: pa.Table) -> list[AddFile]:
    try:
        rows = table.to_pylist(maps_as_pydicts="strict")
        return msgspec.convert([_without_nulls(row) for row in rows], list[AddFile])
    except (KeyError, msgspec.ValidationError) as error:
        raise Damaged(f"a checkpoint has an invalid file action: {error}") from error


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def part_of(table: pa.Table) -> Part:
    return Part(Slab(table), None, table.num_rows)


def _without(parts: tuple[Part, ...], keys: Iterable[str]) -> tuple[Part, ...]:
    gone = pa.array(keys, pa.string())
    return tuple(left for part in parts if (left := _part_without(part, gone)).count) if len(gone) else parts


def _part_without(part: Part, gone: pa.Array) -> Part:
    found = pc.is_in(part.slab.keys, value_set=gone)
    if part.alive is not None:
        found = pc.and_(found, part.alive)
    dead = pc.sum(found).as_py() or 0
    if not dead:
        return part
    alive = pc.invert(found) if part.alive is None else pc.and_not(part.alive, found)
    return Part(part.slab, alive, part.count - dead)


def _merged(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Merge slabs, so that a thousand small commits do not leave a thousand slabs.

    Each slab stays at least twice as large as the next, so a file is copied only a few times, no matter how many
    commits follow. A slab of which most files are removed is rewritten; otherwise its memory would not be freed.
    """
    merged: list[Part] = []
    for part in parts:
        merged.append(_compact([part]) if part.count * 2 < part.slab.table.num_rows else part)
        while len(merged) > 1 and merged[-2].count < 2 * merged[-1].count:
            merged[-2:] = [_compact(merged[-2:])]
    return tuple(merged)


def _compact(parts: list[Part]) -> Part:
    return part_of(pa.concat_tables([part.table for part in parts]).combine_chunks())


def _transactions(before: dict[str, SetTransaction], new: list[SetTransaction]) -> dict[str, SetTransaction]:
    return {**before, **{txn.app_id: txn for txn in new}} if new else before


def _domains(before: dict[str, DomainMetadata], new: list[DomainMetadata]) -> dict[str, DomainMetadata]:
    if not new:
        return before
    after = {**before, **{domain.domain: domain for domain in new}}
    return {name: domain for name, domain in after.items() if not domain.removed}
