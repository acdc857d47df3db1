"""Bounds of a column's values in each file, from partition values or statistics.

In doubt a bound is unknown: one that cannot be parsed is ignored, and a file without bounds may contain any value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.actions import Metadata
from moorage.formats.delta.replay import Slab
from moorage.formats.delta.schema import DataType, Decimal, Primitive, Schema
from moorage.snapshots.column_values import ColumnType, column_type, from_partition_text, widened
from moorage.snapshots.statistics import Statistics, read_statistics

MAPPING_MODE = "delta.columnMapping.mode"


class Column(NamedTuple):
    """Where the log stores the bounds of a column."""

    path: tuple[str, ...]
    """Physical names."""
    type: ColumnType
    is_partition: bool


class Bounds(NamedTuple):
    """The bounds of a column for each file of a slab, in the slab's order."""

    lower: pa.ChunkedArray
    """Less than or equal to the smallest value. Null means unknown."""
    upper: pa.ChunkedArray
    has_values: pa.ChunkedArray
    """False where every row is known to be null."""
    has_nulls: pa.ChunkedArray
    """False where no row is null."""

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self)


_cached: WeakKeyDictionary[Slab, dict[Column, Bounds]] = WeakKeyDictionary()
"""Cached as long as the slab exists, so a new version parses only the statistics of its own files."""


def nbytes_of(slab: Slab) -> int:
    """Return the memory of a slab and of the bounds parsed from it."""
    return slab.nbytes + sum(bounds.nbytes for bounds in tuple(_cached.get(slab, {}).values()))


def find_column(names: Sequence[str], schema: Schema, metadata: Metadata) -> Column | None:
    """Return the column at this path of names, or None if the log has no bounds for it."""
    inner: DataType = schema
    path: list[str] = []
    is_mapped = metadata.configuration.get(MAPPING_MODE, "none") != "none"
    for name in names:
        field = inner.field(name) if isinstance(inner, Schema) else None
        if field is None:
            return None
        path.append(field.physical_name if is_mapped else field.name)
        inner = field.type
    if not isinstance(inner, Primitive | Decimal):
        return None
    kind = column_type(inner)
    partitions = {name.lower() for name in metadata.partition_columns}
    is_partition = len(names) == 1 and names[0].lower() in partitions
    return None if kind is None else Column(tuple(path), kind, is_partition)


def bounds_of(slab: Slab, columns: Sequence[Column]) -> dict[Column, Bounds]:
    """Return the bounds of these columns in each file of the slab."""
    known = _cached.setdefault(slab, {})
    unread = [column for column in columns if column not in known and not column.is_partition]
    if unread:
        statistics = read_statistics(slab.table["stats"], [(column.path, column.type) for column in unread])
        for column in unread:
            known[column] = _from_statistics(statistics[column.path], column.type)
    for column in columns:
        if column not in known:
            known[column] = _from_partition_values(slab, column)
    return {column: known[column] for column in columns}


def _from_statistics(found: Statistics, kind: ColumnType) -> Bounds:
    # With a deletion vector, a null count is reliable only if it is zero or the row count. Only these are used here.
    has_values = pc.fill_null(pc.not_equal(found.nulls, found.rows), True)  # noqa: FBT003
    has_nulls = pc.fill_null(pc.not_equal(found.nulls, 0), True)  # noqa: FBT003
    return Bounds(found.lower, widened(found.upper, kind), has_values, has_nulls)


def _from_partition_values(slab: Slab, column: Column) -> Bounds:
    texts = pc.map_lookup(slab.table["partitionValues"], pa.scalar(column.path[0]), "first")
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)  # Delta writes null as an empty text
    distinct = pc.unique(texts).drop_null()
    parsed = [from_partition_text(text, column.type) for text in distinct.to_pylist()]
    at = pc.index_in(texts, value_set=distinct)
    lower, upper = (pa.array([pair[side] for pair in parsed], column.type.arrow) for side in (0, 1))
    return Bounds(pc.take(lower, at), pc.take(upper, at), pc.is_valid(texts), pc.is_null(texts))
