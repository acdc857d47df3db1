"""Data files: rows as Parquet, one set of files per partition, each with the statistics that readers prune by."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from moorage.client.delta.locations import Storage, new_file

TARGET_BYTES: Final = 256 * 1024 * 1024
"""A file is closed when it has reached this size."""
MAX_STATISTICS: Final = 32
"""Delta's default: statistics of the first 32 columns."""
_MAX_TEXT: Final = 32
_HIGHEST: Final = "\U0010ffff"
_encode = msgspec.json.Encoder(decimal_format="number").encode


def write_files(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    partition_columns: Sequence[str],
    location: str,
    *,
    storage: Storage | None = None,
    compression: str = "zstd",
) -> list[dict[str, Any]]:
    """Write rows to new files of the table, and return the `add` actions for them. No reader sees them yet."""
    writers: dict[tuple[str | None, ...], _Writer] = {}
    stored = pa.schema([field for field in schema if field.name not in partition_columns])
    adds: list[dict[str, Any]] = []
    try:
        for batch in batches:
            for values, rows in split(batch, partition_columns):
                writer = writers.get(values)
                if writer is None:
                    partition = dict(zip(partition_columns, values, strict=True))
                    writer = writers[values] = _Writer(location, partition, stored, storage or {}, compression)
                writer.write(rows.select(stored.names))
                if writer.size >= TARGET_BYTES:
                    adds.append(writers.pop(values).close())
        return adds + [writer.close() for writer in writers.values()]
    except BaseException:
        for writer in writers.values():
            writer.abandon()
        raise


class _Writer:
    """One open file."""

    def __init__(
        self, location: str, partition: dict[str, str | None], schema: pa.Schema, storage: Storage, compression: str
    ) -> None:
        self._path = f"part-{uuid.uuid4()}.{compression}.parquet"
        self._partition, self._schema = partition, schema
        self._metadata: list[parquet.FileMetaData] = []
        self._stack = ExitStack()
        self._sink = self._stack.enter_context(new_file(location, self._path, storage))
        self._writer = parquet.ParquetWriter(
            self._sink, schema, compression=compression, metadata_collector=self._metadata
        )

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)

    def close(self) -> dict[str, Any]:
        self._writer.close()
        size = self.size
        self._stack.close()
        return {
            "path": self._path,
            "partitionValues": self._partition,
            "size": size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": _encode(statistics(self._metadata[0], self._schema)).decode(),
        }

    def abandon(self) -> None:
        """Close the file after a failure. Vacuum deletes it later, as it does the files of a killed task."""
        self._writer.close()
        self._stack.close()


# --- partitions ----------------------------------------------------------------------------------------------------


def split(
    batch: pa.RecordBatch, partition_columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Split rows by partition, with the text of each partition value as Delta's log spells it."""
    if not partition_columns:
        yield (), batch
        return
    texts = [to_text(batch.column(name)).dictionary_encode(null_encoding="encode") for name in partition_columns]
    numbers = [text.indices.cast(pa.string()) for text in texts]
    keys = pc.binary_join_element_wise(*numbers, " ").dictionary_encode()
    order = pc.sort_indices(keys.indices)
    rows, codes = batch.take(order), keys.indices.take(order)
    runs = pc.run_end_encode(codes)
    start = 0
    for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        places = map(int, keys.dictionary[code].as_py().split(" "))
        values = (text.dictionary[place].as_py() for text, place in zip(texts, places, strict=True))
        yield tuple(values), rows.slice(start, end - start)
        start = end


def to_text(column: pa.Array) -> pa.Array:
    """Partition values as text. An empty text is null, because the protocol cannot tell them apart."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ" if kind.tz else "%Y-%m-%d %H:%M:%S")
    elif pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise ValueError(f"a table cannot be partitioned by a column of type {kind}")
    else:
        text = column.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def from_text(value: str | None, kind: pa.DataType) -> pa.Scalar:
    """A partition value of the log as a value of its column's type."""
    if value is None or value == "":
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(value)
        return pa.scalar(moment if kind.tz else moment.replace(tzinfo=None), kind)
    return pa.scalar(value, pa.string()).cast(kind)


# --- statistics ----------------------------------------------------------------------------------------------------


def statistics(metadata: parquet.FileMetaData, schema: pa.Schema) -> dict[str, Any]:
    """The statistics of a file, from the footer that the Parquet writer has made."""
    found: dict[str, Any] = {"numRecords": metadata.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    leaves = [(index, path) for index, path in enumerate(_leaves(schema)) if path is not None]
    for index, path in leaves[:MAX_STATISTICS]:
        groups = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if not all(group is not None and group.has_null_count for group in groups):
            continue
        nulls = sum(group.null_count for group in groups)
        _put(found["nullCount"], path, nulls)
        if nulls < metadata.num_rows and all(group.has_min_max or not group.num_values for group in groups):
            bounded = [group for group in groups if group.has_min_max]
            _put(found["minValues"], path, _lower(min((group.min for group in bounded), default=None)))
            _put(found["maxValues"], path, _upper(max((group.max for group in bounded), default=None)))
    return found


def _leaves(fields: Iterable[pa.Field], within: tuple[str, ...] | None = ()) -> Iterator[tuple[str, ...] | None]:
    """The columns of a Parquet file in their order, each by its path; None in a list or map, which have no bounds.

    The paths of the footer join names by dots, so there a name with a dot would look like a nested column.
    """
    for field in fields:
        path = None if within is None else (*within, field.name)
        if pa.types.is_nested(field.type):
            is_struct = pa.types.is_struct(field.type)
            children = [field.type.field(at) for at in range(field.type.num_fields)]
            if pa.types.is_map(field.type):
                children = [field.type.key_field, field.type.item_field]
            yield from _leaves(children, path if is_struct else None)
        else:
            yield path


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _lower(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    return _as_json(value)


def _upper(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + _HIGHEST
    return _as_json(value)


def _as_json(value: Any) -> Any:
    """A bound as the log spells it; None for types without bounds, and for NaN and infinity."""
    if isinstance(value, bool | bytes):
        return None
    if isinstance(value, datetime):
        text = value.isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value if isinstance(value, int | float | Decimal) else None
