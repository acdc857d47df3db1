"""Columns between Lance and Spark. Lance has more types; Spark gets each in the nearest that holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructField, StructType

VECTOR: Final = "arrow.fixed-size-list.size"
"""In the metadata of a Spark column: how long its arrays are. Lance searches only in such columns for neighbours."""

_NEAREST: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}


def spark_schema(fields: Iterable[pa.Field]) -> StructType:
    return StructType([_spark_field(field) for field in fields])


def _spark_field(field: pa.Field) -> StructField:
    metadata = {VECTOR: field.type.list_size} if pa.types.is_fixed_size_list(field.type) else {}
    try:
        kind = from_arrow_type(_nearest(field.type), prefer_timestamp_ntz=True)
        to_arrow_type(kind)  # a decimal can be too long for that
    except (PySparkException, ValueError):
        raise ValueError(
            f"Spark has no type for the column {field.name!r}, a {field.type}: choose the others with option('columns')"
        ) from None
    return StructField(field.name, kind, field.nullable, metadata)


def _nearest(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark takes a column."""
    if pa.types.is_dictionary(kind):
        return _nearest(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_nearest(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_nearest(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_nearest(kind.key_type), kind.item_field.with_type(_nearest(kind.item_type)))
    return _NEAREST.get(kind, kind)


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark's rows are in Arrow, as it hands them over and takes them."""
    return pa.schema([pa.field(field.name, to_arrow_type(field.dataType), field.nullable) for field in schema.fields])


def stored_schema(schema: StructType) -> pa.Schema:
    """What they become in a new table: a column that is marked as a vector is one.

    Any may be null later, as in every other format: that one query has no nulls, such as a range, promises nothing.
    """
    fields = zip(arrow_schema(schema.toNullable()), schema.fields, strict=True)
    return pa.schema([_as_vector(field, given.metadata.get(VECTOR)) for field, given in fields])


def _as_vector(field: pa.Field, size: int | None) -> pa.Field:
    return field if size is None else field.with_type(pa.list_(field.type.value_field, int(size)))


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with these columns, in this order and these types. A value that does not fit is an error."""
    return pa.RecordBatch.from_arrays([_cast(batch.column(field.name), field.type) for field in schema], schema=schema)


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of our own.

    In Spark's, decimals lie at odd addresses, and texts of which there are none lack their offsets: pylance panics
    at the one and reads past the end of the other.
    """
    return pa.RecordBatch.from_arrays([pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Of nanoseconds, which Spark does not have, the microseconds are kept."""
    return column.cast(kind, safe=not _has_nanoseconds(column.type))


def _has_nanoseconds(kind: pa.DataType) -> bool:
    parts = (kind.field(position).type for position in range(kind.num_fields))
    return getattr(kind, "unit", None) == "ns" or any(map(_has_nanoseconds, parts))
