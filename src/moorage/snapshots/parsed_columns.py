"""Statistics and partition values of files as typed columns, for checkpoints of tables that ask for them.

A value that cannot be parsed exactly is left out: readers then use the texts, which a checkpoint has too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.actions import Metadata
from moorage.formats.delta.schema import DataType, Decimal, Primitive, Schema
from moorage.snapshots.bounds import Column, find_column
from moorage.snapshots.column_values import from_partition_text
from moorage.snapshots.statistics import Statistics, read_statistics

AS_STRUCT: Final = "delta.checkpoint.writeStatsAsStruct"
_INDEXED: Final = "delta.dataSkippingNumIndexedCols"
_INDEXED_NAMES: Final = "delta.dataSkippingStatsColumns"
_DEFAULT_INDEXED: Final = 32
_TYPES: Final = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_Nested = dict[str, Any]


def parsed_columns(files: pa.Table, schema: Schema, metadata: Metadata) -> dict[str, pa.Array]:
    """`stats_parsed` and `partitionValues_parsed`, one value per file; empty if the table does not ask for them."""
    if metadata.configuration.get(AS_STRUCT, "false").lower() != "true" or not files.num_rows:
        return {}
    found = {"stats_parsed": _statistics(files, schema, metadata)}
    partitions = _partition_values(files, schema, metadata)
    return found if partitions is None else {**found, "partitionValues_parsed": partitions}


def _statistics(files: pa.Table, schema: Schema, metadata: Metadata) -> pa.Array:
    columns = list(indexed_columns(schema, metadata))
    read = read_statistics(files["stats"], [(column.path, column.type) for column, _ in columns])
    lower, upper, nulls = _Nested(), _Nested(), _Nested()
    for column, kind in columns:
        statistics = read[column.path]
        _put(nulls, column.path, statistics.nulls.combine_chunks())
        for into, values in ((lower, statistics.lower), (upper, statistics.upper)):
            typed = None if pa.types.is_boolean(kind) else _typed(values, kind)
            if typed is not None:
                _put(into, column.path, typed)
    rows = _rows(read, files)
    parts = {"numRecords": rows, "minValues": lower, "maxValues": upper, "nullCount": nulls}
    nested = {name: part for name, part in parts.items() if len(part)}
    return _struct(nested, mask=files["stats"].is_null().combine_chunks())


def _rows(read: dict[tuple[str, ...], Statistics], files: pa.Table) -> pa.Array:
    if read:
        return next(iter(read.values())).rows.combine_chunks()
    return pa.nulls(files.num_rows, pa.int64())


def indexed_columns(schema: Schema, metadata: Metadata) -> Iterator[tuple[Column, pa.DataType]]:
    """The columns that have statistics, with the types of their values."""
    stated = metadata.configuration.get(_INDEXED, "")
    limit = int(stated) if stated.lstrip("-").isdecimal() else _DEFAULT_INDEXED
    is_limited = limit >= 0 and _INDEXED_NAMES not in metadata.configuration
    for number, (names, kind) in enumerate(_leaves(schema)):
        if is_limited and number >= limit:
            return
        column, arrow = find_column(names, schema, metadata), _arrow(kind)
        if column is not None and arrow is not None and not column.is_partition:
            yield column, arrow


def _leaves(schema: Schema, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], DataType]]:
    for field in schema.fields:
        path = (*above, field.name)
        if isinstance(field.type, Schema):
            yield from _leaves(field.type, path)
        else:
            yield path, field.type


def _arrow(kind: DataType) -> pa.DataType | None:
    match kind:
        case Primitive(name=name):
            return _TYPES.get(name)
        case Decimal(precision=precision, scale=scale) if precision:
            return pa.decimal128(precision, scale)
    return None


def _typed(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array | None:
    """The values in the type of their column; None if one is out of its range."""
    try:
        return values.cast(kind).combine_chunks()
    except pa.ArrowException:
        return None


def _partition_values(files: pa.Table, schema: Schema, metadata: Metadata) -> pa.Array | None:
    """All partition values, or None if one is not known exactly: a reader would skip files because of a wrong one."""
    found: dict[str, pa.Array] = {}
    for name in metadata.partition_columns:
        field = schema.field(name)
        column, kind = find_column((name,), schema, metadata), None if field is None else _arrow(field.type)
        if column is None or kind is None:
            return None
        texts = pc.map_lookup(files["partitionValues"], pa.scalar(column.path[0]), "first")
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        distinct = pc.unique(texts).drop_null()
        pairs = [from_partition_text(text, column.type) for text in distinct.to_pylist()]
        if any(lower is None or lower != upper for lower, upper in pairs):
            return None
        values = _typed(pa.chunked_array([pa.array([pair[0] for pair in pairs], column.type.arrow)]), kind)
        if values is None:
            return None
        found[column.path[0]] = pc.take(values, pc.index_in(texts, value_set=distinct)).combine_chunks()
    return _struct(found) if found else None


def _put(into: _Nested, path: tuple[str, ...], values: pa.Array) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = values


def _struct(fields: _Nested, mask: pa.Array | None = None) -> pa.StructArray:
    arrays = [_struct(value) if isinstance(value, dict) else value for value in fields.values()]
    return pa.StructArray.from_arrays(arrays, names=list(fields), mask=mask)
