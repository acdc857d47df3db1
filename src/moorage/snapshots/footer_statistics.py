"""Statistics of a data file, from the footer of the file itself, for files that were added without any.

In doubt a bound is left out: a reader then opens a file that it could have skipped, but never skips one that it needs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import parquet as pq
from pyarrow import types

from moorage.snapshots.bounds import Column

FIRST_READ: Final = 64 * 1024
"""The bytes at the end of a file that contain most footers."""
MAX_FOOTER: Final = 64 * 1024 * 1024
_MAGIC: Final = b"PAR1"
_END: Final = struct.Struct("<I4s")
_MAX_TEXT: Final = 32
_HIGHEST: Final = "\U0010ffff"
_LAST_MICROSECOND: Final = timedelta(microseconds=999)
_encode = msgspec.json.Encoder(decimal_format="number").encode


def _is_local_time(kind: pa.DataType) -> bool:
    return types.is_timestamp(kind) and kind.tz is None


def _is_instant(kind: pa.DataType) -> bool:
    return types.is_timestamp(kind) and kind.tz is not None


_MATCHES: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "integer": types.is_signed_integer,
    "float": lambda kind: types.is_float32(kind) or types.is_signed_integer(kind),
    "double": lambda kind: types.is_floating(kind) or types.is_signed_integer(kind),
    "decimal": lambda kind: types.is_decimal(kind) or types.is_signed_integer(kind),
    "string": types.is_string,
    "date": types.is_date32,
    "timestamp": _is_instant,
    "timestamp_ntz": _is_local_time,
}
"""By the name of a `ColumnType`: whether the bounds of a stored column are bounds of the table's column. A file that is
older than a change of the type has the narrower one. Delta has no bounds of other types."""


def footer_bytes(tail: bytes) -> int | None:
    """How many bytes at the end of a file its footer has; None if the file does not end as a Parquet file does."""
    if len(tail) < _END.size:
        return None
    length, magic = _END.unpack(tail[-_END.size :])
    return int(length) + _END.size if magic == _MAGIC else None


def statistics_of(footer: bytes, columns: Iterable[Column], *, is_tight: bool) -> str | None:
    """The statistics of a file as the log states them; None if the footer cannot be read.

    `is_tight`: no row of the file is deleted, so the bounds are values of the table.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer))
        leaves = {path: at for at, path in enumerate(_leaves(metadata.schema.to_arrow_schema())) if path is not None}
        found = _statistics(metadata, [(column, leaves[column.path]) for column in columns if column.path in leaves])
    except (pa.ArrowException, OSError, ValueError):
        return None
    return _encode({**found, "tightBounds": is_tight}).decode()


Path = tuple[str, ...]


def _leaves(fields: Iterable[pa.Field], within: Path | None = ()) -> Iterator[Path | None]:
    """The stored columns in their order, each by its path; None in a list or map, which have no statistics.

    The footer joins names by dots, so there a name with a dot would look like a nested column.
    """
    for field in fields:
        path = None if within is None else (*within, field.name)
        if not types.is_nested(field.type):
            yield path
            continue
        inner = [field.type.field(at) for at in range(field.type.num_fields)]
        if types.is_map(field.type):
            inner = [field.type.key_field, field.type.item_field]
        yield from _leaves(inner, path if types.is_struct(field.type) else None)


def _statistics(metadata: pq.FileMetaData, columns: Sequence[tuple[Column, int]]) -> dict[str, Any]:
    found: dict[str, Any] = {"numRecords": metadata.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    stored = list(_types(metadata.schema.to_arrow_schema()))
    for column, at in columns:
        chunks = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
        if not all(chunk is not None and chunk.has_null_count for chunk in chunks):
            continue
        _put(found["nullCount"], column.path, sum(chunk.null_count for chunk in chunks))
        matches = _MATCHES.get(column.type.name)
        # A group of nulls has no bounds. One of values without bounds, such as only NaN, leaves the column without.
        bounded = [chunk for chunk in chunks if chunk.num_values]
        if bounded and matches is not None and matches(stored[at]) and all(chunk.has_min_max for chunk in bounded):
            _put(found["minValues"], column.path, _lower(bounded))
            # Parquet's bounds leave out NaN, which is greater than every number.
            if not types.is_floating(stored[at]):
                _put(found["maxValues"], column.path, _upper(bounded))
    return found


def _types(fields: Iterable[pa.Field]) -> Iterator[pa.DataType]:
    for field in fields:
        if not types.is_nested(field.type):
            yield field.type
        elif types.is_map(field.type):
            yield from _types([field.type.key_field, field.type.item_field])
        else:
            yield from _types(field.type.field(at) for at in range(field.type.num_fields))


def _put(into: dict[str, Any], path: Path, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _lower(chunks: Iterable[pq.Statistics]) -> Any:
    try:
        value = min(chunk.min for chunk in chunks)
    except (OverflowError, ValueError):  # a date that Python cannot express
        return None
    return value[:_MAX_TEXT] if isinstance(value, str) else _as_json(value)


def _upper(chunks: Iterable[pq.Statistics]) -> Any:
    try:
        value = max(chunk.max for chunk in chunks)
        # The log has milliseconds. A bound that was cut off would be below the greatest value.
        value = value + _LAST_MICROSECOND if isinstance(value, datetime) else value
    except (OverflowError, ValueError):
        return None
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return value[:_MAX_TEXT] + _HIGHEST
    return value if isinstance(value, str) else _as_json(value)


def _as_json(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if value - value != 0.0:  # infinite
            return None
        case int() | float() | Decimal():
            return value
    return None
