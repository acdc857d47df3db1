"""A Delta table at one version."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.replay import FILES, LogState, Part
from moorage.formats.delta.schema import Schema, parse_schema
from moorage.snapshots.bounds import bounds_of, find_column, nbytes_of
from moorage.snapshots.predicates import Predicate, columns_in
from moorage.snapshots.prune import may_match
from moorage.storage.port import Listed


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a table is at a version. It never changes, and may be used on any thread."""

    table: str
    """The id of the table."""
    location: str
    timestamp_ms: int
    """When the version was committed, as the table tells time."""
    protocol: Protocol
    metadata: Metadata
    state: LogState
    seen: Listed | None = None
    """The log file that vouched for the version when it was read; None for tables of our own."""

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
        """What the writer of this version said of it, as far as the log still has it."""
        return self.state.commit_info

    @property
    def count(self) -> int:
        """How many files the table has."""
        return self.state.count

    def holdings(self) -> list[tuple[object, int]]:
        """What the snapshot keeps in memory, in bytes; versions of one table share most of it."""
        own = 2_000 + len(self.metadata.schema_string) + 200 * len(self.transactions)
        return [(self, own), *((part.slab, nbytes_of(part.slab)) for part in self.state.parts)]

    def select(self, where: Predicate | None = None) -> pa.Table:
        """The files, in the columns of `replay.FILES`; with a predicate those that may hold rows for it.

        It works through every file: call it on a thread where a loop is running.
        """
        if where is None:
            return self.state.files()
        return pa.concat_tables([FILES.empty_table(), *(self._matching(part, where) for part in self.state.parts)])

    def _matching(self, part: Part, where: Predicate) -> pa.Table:
        named = {names: find_column(names, self.schema, self.metadata) for names in columns_in(where)}
        columns = [column for column in named.values() if column is not None]
        bounds = bounds_of(part.slab, columns)
        known = {names: (column, bounds[column]) for names, column in named.items() if column is not None}
        mask = may_match(where, known)
        if mask is None:
            return part.table
        return part.slab.table.filter(mask if part.alive is None else pc.and_(mask, part.alive))
