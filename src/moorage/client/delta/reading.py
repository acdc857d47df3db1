"""Reads the files of a table: rows that a deletion vector does not remove, with their partition values."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from moorage.client.delta.data_files import from_text
from moorage.client.delta.locations import Storage, open_location, read_file

_VECTOR_MAGIC: Final = 1681511377
_BATCH_ROWS: Final = 16_384
# The alphabet of Z85, in which the log encodes the id of a vector's file.
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def read_rows(
    location: str, file: dict[str, Any], schema: pa.Schema, partition_columns: list[str], storage: Storage
) -> Iterator[pa.RecordBatch]:
    """The rows of one file in the columns of the schema. A column that the file lacks is null."""
    system, root = open_location(location, storage)
    deleted = _deleted_rows(location, file.get("deletionVector"), storage)
    values = {
        name: from_text(file["partitionValues"].get(name), schema.field(name).type)
        for name in partition_columns
        if name in schema.names
    }
    with (
        system.open_input_file(f"{root}/{unquote(file['path'])}") as source,
        # INT96, as Delta's own writer stores timestamps, would be read as nanoseconds, which end in the year 2262.
        parquet.ParquetFile(source, coerce_int96_timestamp_unit="us") as opened,
    ):
        present = [name for name in schema.names if name not in values and name in opened.schema_arrow.names]
        start = 0
        for batch in opened.iter_batches(_BATCH_ROWS, columns=present):
            kept = batch if deleted is None else batch.filter(_kept(deleted, start, batch.num_rows))
            start += batch.num_rows
            if kept.num_rows:
                yield _shaped(kept, schema, values)


def _shaped(batch: pa.RecordBatch, schema: pa.Schema, values: dict[str, pa.Scalar]) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name in values:
            columns.append(pa.repeat(values[field.name], batch.num_rows))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kept(deleted: Any, start: int, count: int) -> pa.Array:
    found = takewhile(lambda row: row < start + count, deleted.iter_equal_or_larger(start))
    here = [row - start for row in found]
    mask = pc.is_in(pa.array(range(count), pa.int32()), value_set=pa.array(here, pa.int32()))
    return pc.invert(mask)


def _deleted_rows(location: str, vector: dict[str, Any] | None, storage: Storage) -> Any:
    """The set of deleted rows, by position in the file."""
    if vector is None:
        return None
    from pyroaring import BitMap64

    kind, target = vector["storageType"], vector["pathOrInlineDv"]
    if kind == "i":
        data = _z85_decode(target)[: vector["sizeInBytes"]]
    elif kind == "u":
        prefix, id = target[:-20], uuid.UUID(bytes=_z85_decode(target[-20:]))
        path = f"{prefix}/deletion_vector_{id}.bin" if prefix else f"deletion_vector_{id}.bin"
        data = _vector_at(read_file(location, path, storage), vector)
    else:
        system, path = open_location(target, storage)
        with system.open_input_file(path) as source:
            data = _vector_at(bytes(source.read()), vector)
    if int.from_bytes(data[:4], "little") != _VECTOR_MAGIC:
        raise ValueError(f"the deletion vector {target!r} is damaged: it does not begin with its mark")
    return BitMap64.deserialize(data[4:])


def _vector_at(data: bytes, vector: dict[str, Any]) -> bytes:
    start = int(vector.get("offset") or 0)
    size = int.from_bytes(data[start : start + 4], "big")
    if size != vector["sizeInBytes"]:
        raise ValueError(f"a deletion vector has {size} bytes, but the log states {vector['sizeInBytes']}")
    return data[start + 4 : start + 4 + size]


def _z85_decode(text: str) -> bytes:
    numbers = [_Z85.index(letter) for letter in text]
    groups = (numbers[at : at + 5] for at in range(0, len(numbers), 5))
    return b"".join(_number(group).to_bytes(4, "big") for group in groups)


def _number(digits: list[int]) -> int:
    value = 0
    for digit in digits:
        value = value * 85 + digit
    return value
