"""A Delta table at one version."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.replay import FILES, LogState, Part
from moorage.formats.delta.schema import Schema, parse_schema
from moorage.snapshots.bounds import bounds_of, find_column, nbytes_of
from moorage.snapshots.partition_filter import PartitionFilter
from moorage.snapshots.predicates import Predicate, columns_in
from moorage.snapshots.prune import may_match
from moorage.storage.port import Listed


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The content of a table at a version. It is immutable and thread-safe."""

    table: str
    """The id of the table."""
    location: str
    timestamp_ms: int
    """The commit time of the version: its inCommitTimestamp if the table has those, else the time of its file."""
    protocol: Protocol
    metadata: Metadata
    state: LogState
    seen: Listed | None = None
    """The log file that identified the version when it was read. None for tables that this catalog manages."""

    @property
    def version(self) -> int:
        return self.state.version

    @cached_property
    def schema(self) -> Schema:
        return parse_schema(self.metadata.schema_string)

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        return self.state.domains

    @property
    def transactions(self) -> dict[str, SetTransaction]:
        return self.state.transactions

    @property
    def commit_info(self) -> dict[str, Any] | None:
        """The commitInfo of this version, if the log still contains it."""
        return self.state.commit_info

    @property
    def count(self) -> int:
        """The number of files in the table."""
        return self.state.count

    def memory_usage(self) -> list[tuple[object, int]]:
        """Return the objects that the snapshot keeps in memory, with their bytes. Versions of a table share most."""
        own = 2_000 + len(self.metadata.schema_string) + 200 * len(self.transactions)
        return [(self, own), *((part.slab, nbytes_of(part.slab)) for part in self.state.parts)]

    def select(self, where: Predicate | None = None) -> pa.Table:
        """Return the files in the columns of `replay.FILES`. A predicate skips files without matching rows.

        The runtime grows with the number of files, so do not call it on the event loop.
        """
        return pa.concat_tables([FILES.empty_table(), *(selection.table for selection in self.selections(where))])

    def selections(self, where: Predicate | None = None, partitions: PartitionFilter | None = None) -> list[Part]:
        """Return the same files by slab, without copying them. A filter leaves out the files that it does not admit."""
        found = [self._selection(part, where, partitions) for part in self.state.parts]
        return [selection for selection in found if selection.count]

    def _selection(self, part: Part, where: Predicate | None, partitions: PartitionFilter | None) -> Part:
        masks = [
            part.alive,
            None if where is None else self._matching(part, where),
            None if partitions is None else partitions.mask(part.slab.table),
        ]
        selective = [mask for mask in masks if mask is not None]
        if not selective:
            return Part(part.slab, None, part.count)
        rows = reduce(pc.and_, selective)
        return Part(part.slab, rows, pc.sum(rows).as_py() or 0)

    def _matching(self, part: Part, where: Predicate) -> pa.ChunkedArray | None:
        named = {names: find_column(names, self.schema, self.metadata) for names in columns_in(where)}
        columns = [column for column in named.values() if column is not None]
        bounds = bounds_of(part.slab, columns)
        known = {names: (column, bounds[column]) for names, column in named.items() if column is not None}
        return may_match(where, known)
