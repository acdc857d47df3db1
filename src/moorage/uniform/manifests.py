"""Manifests of a converted table: written from the files of a log, and rewritten when some of their files are gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.values import decode, parse_primitive
from moorage.uniform import encoding
from moorage.uniform.bounds import metrics_of
from moorage.uniform.containers import avro_name, container, entry_schema
from moorage.uniform.encoding import NULL, Bytes, constant, join, long, longs, to_integers
from moorage.uniform.entries import DATA, DELETED, DELETES, EXISTING, VERSION_3_NULLS, Entry
from moorage.uniform.partitions import PartitionColumn, avro_field, encoded_values, partition_values, summary
from moorage.uniform.refusals import Refused
from moorage.uniform.schemas import Leaf, primitive
from moorage.uniform.vectors import Puffin

MOST_ENTRIES: Final = 1_000
"""Files per manifest. Removing one file rewrites its manifest, so small ones make changes cheap."""

_NO_SIZES: Final = b"\x02\x00"
"""An empty map of column sizes. PyIceberg cannot list entries without one."""
_NO_STATISTICS: Final = _NO_SIZES + b"\x00" * 9

_encode = msgspec.json.Encoder().encode


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What all entries of a new manifest have in common."""

    format_version: int
    schema: Document
    spec: Document
    columns: tuple[PartitionColumn, ...]
    leaves: tuple[Leaf, ...]

    def avro_schema(self) -> Document:
        fields = [avro_field(column, name=avro_name(column.shown)) for column in self.columns]
        return entry_schema(fields, format_version=self.format_version)

    def meta(self, content: int) -> dict[str, str]:
        return {
            "schema": _encode(self.schema).decode(),
            "schema-id": str(self.schema["schema-id"]),
            "partition-spec": _encode(self.spec["fields"]).decode(),
            "partition-spec-id": str(self.spec["spec-id"]),
            "format-version": str(self.format_version),
            "content": "deletes" if content == DELETES else "data",
        }


class Written(NamedTuple):
    """A new manifest: its bytes, its record in the manifest list without path and length, and its live files."""

    data: bytes
    record: Document
    paths: tuple[str, ...]
    """The data files of its entries; for a delete manifest the files to which its vectors belong."""


class Stamp(NamedTuple):
    """The snapshot that makes a manifest."""

    snapshot_id: int
    sequence: int


# --- new manifests --------------------------------------------------------------------------------------


def data_manifests(
    files: pa.Table, paths: pa.Array, rows: Mapping[str, int], shape: Shape, stamp: Stamp
) -> Iterator[Written]:
    """Manifests that add these files. `rows` are the row counts of files without statistics."""
    if not files.num_rows:
        return
    metrics = metrics_of(files, shape.leaves)
    records = _record_counts(metrics.rows, paths, rows)
    values = [partition_values(files, column) for column in shape.columns]
    entries = join(
        constant(b"\x02" + b"\x02" + long(stamp.snapshot_id)),
        _sequences(files, shape, stamp),
        constant(b"\x00" + b"\x00"),
        encoding.texts(paths),
        constant(long(7) + b"PARQUET"),
        *(encoded_values(value, column) for value, column in zip(values, shape.columns, strict=True)),
        longs(to_integers(records)),
        longs(to_integers(files["size"].combine_chunks())),
        constant(_NO_SIZES),
        metrics.value_counts,
        metrics.null_counts,
        NULL,
        metrics.lower,
        metrics.upper,
        constant(b"\x00" * 4),
        *_row_ids(files, shape),
    )
    names, schema = paths.to_pylist(), shape.avro_schema()
    for start in range(0, len(entries), MOST_ENTRIES):
        part = slice(start, start + MOST_ENTRIES)
        some = records[part]
        record = _record(shape, stamp, DATA)
        record["added_files_count"], record["added_rows_count"] = len(some), pc.sum(some).as_py()
        record["partitions"] = _summaries([value[part] for value in values], shape)
        yield _written(shape, record, encoding.concatenated(entries[part]), len(some), names[part], schema)


def _record_counts(stated: pa.Array, paths: pa.Array, counted: Mapping[str, int]) -> pa.Array:
    if not stated.null_count:
        return stated
    other = pa.array([counted.get(path) for path in paths.to_pylist()], pa.int64())
    found = pc.coalesce(stated, other)
    if found.null_count:
        path = paths.filter(found.is_null())[0].as_py()
        raise Refused(f"the log does not state the number of rows of {path}; write the table with statistics")
    return found


def _sequences(files: pa.Table, shape: Shape, stamp: Stamp) -> Bytes:
    """The version that wrote the rows of each file, if an earlier one did; otherwise it is inherited."""
    since = files["defaultRowCommitVersion"].combine_chunks()
    if shape.format_version < 3 or since.null_count == len(since):
        return NULL
    is_older = pc.fill_null(pc.less(since, stamp.sequence), False)  # noqa: FBT003
    return encoding.optional(longs(to_integers(since.fill_null(0))), is_older)


def _row_ids(files: pa.Table, shape: Shape) -> tuple[Bytes, ...]:
    if shape.format_version < 3:
        return ()
    base = files["baseRowId"].combine_chunks()
    if base.null_count == len(base):
        return (constant(VERSION_3_NULLS),)
    return encoding.optional(longs(to_integers(base.fill_null(0))), base.is_valid()), constant(b"\x00" * 3)


def delete_manifests(
    files: pa.Table, paths: Sequence[str], puffins: Mapping[str, Puffin], shape: Shape, stamp: Stamp
) -> Iterator[Written]:
    """Manifests that add the vectors of these files. `puffins` are in the order of the files, by their own paths."""
    vectors = list(puffins.values())
    values = [partition_values(files, column) for column in shape.columns]
    entries = join(
        constant(b"\x02" + b"\x02" + long(stamp.snapshot_id) + b"\x00\x00" + long(DELETES)),
        encoding.texts(pa.array(puffins, pa.string())),
        constant(long(6) + b"PUFFIN"),
        *(encoded_values(value, column) for value, column in zip(values, shape.columns, strict=True)),
        _numbers(vector.cardinality for vector in vectors),
        _numbers(len(vector.data) for vector in vectors),
        constant(_NO_STATISTICS + b"\x00\x02"),
        encoding.texts(pa.array(paths, pa.string())),
        constant(b"\x02"),
        _numbers(vector.offset for vector in vectors),
        constant(b"\x02"),
        _numbers(vector.length for vector in vectors),
    )
    schema = shape.avro_schema()
    for start in range(0, len(entries), MOST_ENTRIES):
        part = slice(start, start + MOST_ENTRIES)
        some = vectors[part]
        record = _record(shape, stamp, DELETES)
        record["added_files_count"], record["added_rows_count"] = len(some), sum(vector.cardinality for vector in some)
        record["partitions"] = _summaries([value[part] for value in values], shape)
        yield _written(shape, record, encoding.concatenated(entries[part]), len(some), paths[part], schema)


def _numbers(values: Iterable[int]) -> pa.BinaryArray:
    return longs(np.fromiter(values, np.int64))


def _record(shape: Shape, stamp: Stamp, content: int) -> Document:
    counts = {f"{kind}_{what}_count": 0 for what in ("files", "rows") for kind in ("added", "existing", "deleted")}
    return {
        "partition_spec_id": shape.spec["spec-id"],
        "content": content,
        "sequence_number": stamp.sequence,
        "min_sequence_number": stamp.sequence,
        "added_snapshot_id": stamp.snapshot_id,
        **counts,
        "partitions": [],
        "key_metadata": None,
        "first_row_id": None,
    }


def _summaries(values: Sequence[pa.Array], shape: Shape) -> list[Document]:
    return [summary(value, column) for value, column in zip(values, shape.columns, strict=True)]


def _written(
    shape: Shape, record: Document, entries: bytes, count: int, paths: Sequence[str], schema: Document
) -> Written:
    data = container(schema, shape.meta(record["content"]), entries, count)
    return Written(data, {**record, "manifest_length": len(data)}, tuple(paths))


# --- manifests of which files are gone -------------------------------------------------------------------


def rewrite(
    entries: Sequence[Entry],
    gone: Collection[str],
    listed: Sequence[Document],
    partition: Sequence[Document],
    shape: Shape,
    stamp: Stamp,
) -> Written:
    """A manifest with these live entries of listed manifests of one spec, of which some files are gone."""
    counts = {EXISTING: [0, 0], DELETED: [0, 0]}
    parts, paths, oldest = [], [], stamp.sequence
    for entry in entries:
        status = DELETED if entry.path in gone else EXISTING
        counts[status][0] += 1
        counts[status][1] += entry.rows
        if status == EXISTING:
            paths.append(entry.path)
            oldest = min(oldest, oldest if entry.sequence is None else entry.sequence)
        parts.append(_encoded(entry, status, shape, stamp))
    record = _record(shape, stamp, listed[0]["content"])
    for status, name in ((EXISTING, "existing"), (DELETED, "deleted")):
        record[f"{name}_files_count"], record[f"{name}_rows_count"] = counts[status]
    record["min_sequence_number"] = oldest
    record["partitions"] = _merged_summaries([each["partitions"] or [] for each in listed], shape)
    schema = entry_schema(partition, format_version=shape.format_version)
    return _written(shape, record, b"".join(parts), len(parts), paths, schema)


def _encoded(entry: Entry, status: int, shape: Shape, stamp: Stamp) -> bytes:
    snapshot_id = stamp.snapshot_id if status == DELETED else entry.snapshot_id
    head = long(status) + b"".join(map(_optional, (snapshot_id, entry.sequence, entry.file_sequence)))
    if shape.format_version < 3:
        return head + entry.body
    return head + entry.body + _optional(entry.first_row) + entry.reference


def _optional(value: int | None) -> bytes:
    return b"\x00" if value is None else b"\x02" + long(value)


def _merged_summaries(summaries: Sequence[Sequence[Document]], shape: Shape) -> list[Document]:
    """The partition summaries over several manifests."""
    if len(summaries) == 1:
        return list(summaries[0])
    return [_merged([each[at] for each in summaries], column) for at, column in enumerate(shape.columns)]


def _merged(fields: Sequence[Document], column: PartitionColumn) -> Document:
    kind = parse_primitive(primitive(column.leaf.type, column.shown))

    def best(name: str, choose: Callable[..., bytes]) -> bytes | None:
        known = [field[name] for field in fields if field[name] is not None]
        return choose(known, key=lambda bound: decode(kind, bound)) if known else None

    return {
        "contains_null": any(field["contains_null"] for field in fields),
        "contains_nan": any(field["contains_nan"] is not False for field in fields),
        "lower_bound": best("lower_bound", min),
        "upper_bound": best("upper_bound", max),
    }
