"""Column types of Lance and Spark. A Lance type that Spark lacks becomes the narrowest Spark type that can hold it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructField, StructType

VECTOR: Final = "arrow.fixed-size-list.size"
"""Metadata key of a Spark column: the fixed length of its arrays. Lance vector search requires such columns."""

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
        to_arrow_type(kind)  # fails if a decimal has too many digits
    except (PySparkException, ValueError):
        raise ValueError(
            f"Spark has no type for column {field.name!r} ({field.type}); select other columns with option('columns')"
        ) from None
    return StructField(field.name, kind, field.nullable, metadata)


def _nearest(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark accepts a column."""
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
    """The Arrow schema in which Spark sends and receives rows of this schema."""
    return pa.schema([pa.field(field.name, to_arrow_type(field.dataType), field.nullable) for field in schema.fields])


def stored_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a new table for these columns. A column with the vector metadata becomes a vector.

    All columns are nullable, as in the other formats: one query without nulls, such as a range, does not imply that
    later rows have none.
    """
    fields = zip(arrow_schema(schema.toNullable()), schema.fields, strict=True)
    return pa.schema([_as_vector(field, given.metadata.get(VECTOR)) for field, given in fields])


def _as_vector(field: pa.Field, size: int | None) -> pa.Field:
    return field if size is None else field.with_type(pa.list_(field.type.value_field, int(size)))


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to this schema: its columns, order and types. A value that does not fit is an error."""
    return pa.RecordBatch.from_arrays([_cast(batch.column(field.name), field.type) for field in schema], schema=schema)


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy rows into newly allocated memory.

    In Spark's buffers, decimals are not aligned, and empty string columns have no offsets. pylance panics on the
    former and reads past the end of the latter.
    """
    return pa.RecordBatch.from_arrays([pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column. Nanoseconds are truncated to microseconds, because Spark does not support them."""
    return column.cast(kind, safe=not _has_nanoseconds(column.type))


def _has_nanoseconds(kind: pa.DataType) -> bool:
    parts = (kind.field(position).type for position in range(kind.num_fields))
    return getattr(kind, "unit", None) == "ns" or any(map(_has_nanoseconds, parts))
