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
from moorage.snapshots.column_values import ColumnType, as_floats, column_type, from_partition_text, widened
from moorage.snapshots.statistics import Statistics, read_statistics

TYPE_CHANGES = "delta.typeChanges"


class Column(NamedTuple):
    """Where the log stores the bounds of a column."""

    path: tuple[str, ...]
    """Physical names."""
    type: ColumnType
    is_partition: bool
    was_float: bool = False
    """Whether older files have floats, and newer ones doubles."""
    is_collated: bool = False
    """Whether readers compare its texts by other rules than the bytes, for example without regard to case."""


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
    changes: object = None
    is_collated = False
    for name in names:
        field = inner.field(name) if isinstance(inner, Schema) else None
        if field is None:
            return None
        path.append(field.physical_name if metadata.is_mapped else field.name)
        inner, changes = field.type, field.metadata.get(TYPE_CHANGES)
        is_collated = field.is_collated
    if not isinstance(inner, Primitive | Decimal):
        return None
    kind = column_type(inner)
    partitions = {name.lower() for name in metadata.partition_columns}
    is_partition = len(names) == 1 and names[0].lower() in partitions
    if kind is None:
        return None
    was_float = kind.name == "double" and _names_float(changes)
    return Column(tuple(path), kind, is_partition, was_float, is_collated)


def _names_float(changes: object) -> bool:
    """Whether the type changes of a column begin with a float, or cannot be read."""
    if not isinstance(changes, list):
        return changes is not None
    return any(not isinstance(each, dict) or each.get("fromType") == "float" for each in changes)


def bounds_of(slab: Slab, columns: Sequence[Column]) -> dict[Column, Bounds]:
    """Return the bounds of these columns in each file of the slab."""
    known = _cached.setdefault(slab, {})
    unread = [column for column in columns if column not in known and not column.is_partition]
    if unread:
        statistics = read_statistics(slab.table["stats"], [(column.path, column.type) for column in unread])
        for column in unread:
            known[column] = _from_statistics(statistics[column.path], column)
    for column in columns:
        if column not in known:
            known[column] = _from_partition_values(slab, column)
    return {column: known[column] for column in columns}


def _from_statistics(found: Statistics, column: Column) -> Bounds:
    # With a deletion vector, a null count is reliable only if it is zero or the row count. Only these are used here.
    has_values = pc.fill_null(pc.not_equal(found.nulls, found.rows), True)  # noqa: FBT003
    has_nulls = pc.fill_null(pc.not_equal(found.nulls, 0), True)  # noqa: FBT003
    lower, upper = widened(found.lower, found.upper, column.type)
    if column.was_float:
        # The statistics do not tell whether the file has floats or doubles, so both readings of a bound are admitted.
        lower = pc.min_element_wise(lower, as_floats(lower), skip_nulls=False)
        upper = pc.max_element_wise(upper, as_floats(upper), skip_nulls=False)
    return Bounds(lower, upper, has_values, has_nulls)


def _from_partition_values(slab: Slab, column: Column) -> Bounds:
    texts = pc.map_lookup(slab.table["partitionValues"], pa.scalar(column.path[0]), "first")
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)  # Delta writes null as an empty text
    distinct = pc.unique(texts).drop_null()
    parsed = [from_partition_text(text, column.type) for text in distinct.to_pylist()]
    at = pc.index_in(texts, value_set=distinct)
    lower, upper = (pa.array([pair[side] for pair in parsed], column.type.arrow) for side in (0, 1))
    return Bounds(pc.take(lower, at), pc.take(upper, at), pc.is_valid(texts), pc.is_null(texts))
