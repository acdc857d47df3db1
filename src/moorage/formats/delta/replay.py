"""The state of a Delta table at a version: commits replayed over a checkpoint, files kept as columns.

Files live in slabs. A slab never changes and is shared by every version that holds some of its files,
so a version on top of another costs its own files and one bit for each older one. What removes and
replaces a file is its key: the path, and the deletion vector where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.file_actions import AddFile, RemoveFile
from moorage.formats.delta.log_commits import Commit

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
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
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""The columns of a table's files, under the names that the protocol gives to the fields of `add`."""

# Columns of a large table come and go whole. The system's allocator hands their memory back when they
# go; with Arrow's own, reading a large checkpoint also took three times the time.
pa.set_memory_pool(pa.system_memory_pool())

REQUIRED = ("path", "partitionValues", "size", "modificationTime", "dataChange")
_BETWEEN = "\0"
"""Stands between path and vector in a key; no path may hold it, so no two files share a key."""


class Slab:
    """Files that were read together. It is compared by identity, and never changed."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @cached_property
    def keys(self) -> pa.ChunkedArray:
        vectors = self.table["deletionVector"]
        path = self.table["path"]
        if vectors.null_count == len(vectors):
            return path
        kind, place, offset = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
        at = pc.fill_null(pc.binary_join_element_wise("@", pc.cast(offset, pa.string()), ""), "")
        vector = pc.binary_join_element_wise(kind, place, at, "")
        return pc.coalesce(pc.binary_join_element_wise(path, vector, _BETWEEN), path)

    @property
    def nbytes(self) -> int:
        """What the slab holds in memory, buffers that it uses in part counted whole."""
        return int(self.table.get_total_buffer_size())


class Part(msgspec.Struct, frozen=True):
    """The files of one slab that a version still has."""

    slab: Slab
    alive: Any
    """A bit for each file of the slab, as an Arrow array; None: all of them."""
    count: int

    @property
    def table(self) -> pa.Table:
        return self.slab.table if self.alive is None else self.slab.table.filter(self.alive)


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a log says of a table at one version."""

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, SetTransaction] = {}
    domains: dict[str, DomainMetadata] = {}
    parts: tuple[Part, ...] = ()
    commit_info: dict[str, Any] | None = None
    """That of this very version. A checkpoint does not keep it."""

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    def files(self) -> pa.Table:
        return pa.concat_tables([FILES.empty_table(), *(part.table for part in self.parts)])


def key_of(file: AddFile | RemoveFile) -> str:
    vector = file.deletion_vector
    return file.path if vector is None else file.path + _BETWEEN + vector.unique_id


def advance(state: LogState, commits: Sequence[Commit]) -> LogState:
    """The state after these commits, which follow it without a gap, oldest first.

    Taken together, because going over all older files is what costs: the last word on a file counts.
    A commit may come in slices that have the same version.
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
    said = [commit.commit_info for commit in commits if commit.version == version and commit.commit_info is not None]
    said_before = state.commit_info if state.version == version else None
    return replace(
        state,
        version=version,
        protocol=protocols[-1] if protocols else state.protocol,
        metadata=metadatas[-1] if metadatas else state.metadata,
        transactions=_transactions(state.transactions, [txn for commit in commits for txn in commit.transactions]),
        domains=_domains(state.domains, [domain for commit in commits for domain in commit.domains]),
        parts=_settled(parts),
        commit_info=said[-1] if said else said_before,
    )


def to_table(files: Iterable[AddFile]) -> pa.Table:
    """The same files as columns."""
    rows = list(files)
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
        raise Damaged(f"a file action of the log holds a value out of range: {error}") from error


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    # Half of the columns are mostly unused, and going through their nulls would take as long as the rest.
    return pa.nulls(len(values), field.type) if values.count(None) == len(values) else pa.array(values, field.type)


def to_files(table: pa.Table) -> list[AddFile]:
    """The rows of a table of files, each as the action that it came from."""
    try:
        rows = table.select(FILES.names).to_pylist(maps_as_pydicts="strict")
        return msgspec.convert([_said(row) for row in rows], list[AddFile])
    except (KeyError, msgspec.ValidationError) as error:
        raise Damaged(f"a checkpoint holds a file action that is none: {error}") from error


def _said(row: dict[str, Any]) -> dict[str, Any]:
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


def _settled(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Fewer, larger slabs, so that a thousand small commits do not make a thousand of them.

    Each slab stays more than twice as large as the next: a file is copied a few times in its life,
    however many commits follow. A slab that is mostly dead is written anew, or its memory would stay.
    """
    settled: list[Part] = []
    for part in parts:
        settled.append(_compact([part]) if part.count * 2 < part.slab.table.num_rows else part)
        while len(settled) > 1 and settled[-2].count < 2 * settled[-1].count:
            settled[-2:] = [_compact(settled[-2:])]
    return tuple(settled)


def _compact(parts: list[Part]) -> Part:
    return part_of(pa.concat_tables([part.table for part in parts]).combine_chunks())


def _transactions(before: dict[str, SetTransaction], new: list[SetTransaction]) -> dict[str, SetTransaction]:
    return {**before, **{txn.app_id: txn for txn in new}} if new else before


def _domains(before: dict[str, DomainMetadata], new: list[DomainMetadata]) -> dict[str, DomainMetadata]:
    if not new:
        return before
    after = {**before, **{domain.domain: domain for domain in new}}
    return {name: domain for name, domain in after.items() if not domain.removed}
