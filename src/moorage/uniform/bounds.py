"""Counts and bounds of the columns of many files, from the statistics of the log, as manifests store them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.schema import Decimal, Primitive
from moorage.snapshots.column_values import ColumnType, column_type, widened
from moorage.snapshots.statistics import Statistics, read_statistics
from moorage.uniform import encoding
from moorage.uniform.encoding import Bytes
from moorage.uniform.schemas import Leaf

_ROWS: Final = (("",), ColumnType("integer", pa.int64(), pa.int64()))
"""A column that no file has. Reading its statistics returns the row counts."""
_WITHOUT_BOUNDS: Final = ("boolean",)


class Metrics(NamedTuple):
    """The statistics of files in the order of their manifest entries."""

    rows: pa.Array
    """Null where the log does not state the number of rows."""
    value_counts: Bytes
    null_counts: Bytes
    lower: Bytes
    upper: Bytes


def metrics_of(files: pa.Table, leaves: Sequence[Leaf]) -> Metrics:
    """The statistics of these files for the columns that have any."""
    wanted = [(leaf, kind) for leaf in leaves if (kind := _column_type(leaf)) is not None]
    texts = files["stats"]
    found = read_statistics(texts, [_ROWS, *((leaf.path, kind) for leaf, kind in wanted)])
    rows = found[_ROWS[0]].rows.combine_chunks()
    has_vector = files["deletionVector"].combine_chunks().is_valid()
    counts = encoding.longs(encoding.to_integers(rows.fill_null(0)))
    values, nulls, lower, upper = [], [], [], []
    for leaf, kind in wanted:
        column = found[leaf.path]
        null_count = _null_counts(column, rows, has_vector)
        if null_count.null_count < len(null_count):
            known = null_count.is_valid()
            values.append((leaf.id, counts, known))
            nulls.append((leaf.id, encoding.longs(encoding.to_integers(null_count.fill_null(0))), known))
        if kind.name not in _WITHOUT_BOUNDS:
            least, greatest = widened(column.lower, column.upper, kind)
            lower += _bounds(leaf, least.combine_chunks(), _LOWER)
            upper += _bounds(leaf, greatest.combine_chunks(), _UPPER)
    return Metrics(rows, *(encoding.maps(pairs) for pairs in (values, nulls, lower, upper)))


def row_counts(files: pa.Table) -> pa.Array:
    """The number of rows of each file; null where the log does not state it."""
    return read_statistics(files["stats"], [_ROWS])[_ROWS[0]].rows.combine_chunks()


def _column_type(leaf: Leaf) -> ColumnType | None:
    if isinstance(leaf.type, Primitive) and leaf.type.name.startswith(("varchar(", "char(")):
        return column_type(Primitive("string"))
    return column_type(leaf.type)


def _null_counts(column: Statistics, rows: pa.Array, has_vector: pa.Array) -> pa.Array:
    """The null counts that can be relied on: with a deletion vector only 'none' and 'all', because rows are deleted."""
    nulls = column.nulls.combine_chunks()
    is_certain = pc.or_(pc.invert(has_vector), pc.or_(pc.equal(nulls, 0), pc.equal(nulls, rows)))
    return pc.if_else(pc.and_(is_certain, rows.is_valid()), nulls, pa.scalar(None, nulls.type))


Zero = tuple[float, float]
_LOWER: Final[Zero] = (0.0, -0.0)
_UPPER: Final[Zero] = (-0.0, 0.0)


def _bounds(leaf: Leaf, values: pa.Array, zero: Zero) -> list[tuple[int, pa.BinaryArray, pa.Array]]:
    values = _in_range(values, leaf)
    if values.null_count == len(values):
        return []
    return [(leaf.id, encoding.texts(single_values(values, leaf, zero)), values.is_valid())]


def _in_range(values: pa.Array, leaf: Leaf) -> pa.Array:
    """Omit bounds that the column's type cannot have."""
    if not isinstance(leaf.type, Primitive) or leaf.type.name not in ("byte", "short", "integer"):
        return values
    fits = pc.and_(pc.greater_equal(values, -(2**31)), pc.less(values, 2**31))
    return pc.if_else(pc.fill_null(fits, False), values, pa.scalar(None, values.type))  # noqa: FBT003


def single_values(values: pa.Array, leaf: Leaf, zero: Zero = _UPPER) -> pa.BinaryArray:
    """Values as Iceberg serialises single values. The result for a null has no meaning."""
    if isinstance(leaf.type, Decimal):
        return encoding.big_endian_decimals(values)
    name = leaf.type.name if isinstance(leaf.type, Primitive) else ""
    if name in ("float", "double"):
        # -0.0 equals 0.0 in statistics, but is less in Iceberg's order.
        values = pc.if_else(pc.equal(values, 0.0), pa.scalar(zero[1], values.type), values)
    return _SERIALIZED.get(name, _text)(values)


def _fixed(dtype: str, arrow: pa.DataType | None = None) -> Callable[[pa.Array], pa.BinaryArray]:
    def serialize(values: pa.Array) -> pa.BinaryArray:
        return encoding.little_endian(values if arrow is None else values.cast(arrow), dtype)

    return serialize


def _text(values: pa.Array) -> pa.BinaryArray:
    return pc.fill_null(values.cast(pa.binary()), encoding.constant(b""))


_SERIALIZED: Final = {
    **dict.fromkeys(("byte", "short", "integer"), _fixed("<i4")),
    "long": _fixed("<i8"),
    "float": _fixed("<f4"),
    "double": _fixed("<f8"),
    "date": _fixed("<i4", pa.int32()),
    "timestamp": _fixed("<i8", pa.int64()),
    "timestamp_ntz": _fixed("<i8", pa.int64()),
    "boolean": _fixed("<i1"),
}
