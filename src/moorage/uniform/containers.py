"""Avro files of manifests and manifest lists: their schemas, and the container around encoded records."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import fastavro
import msgspec

from moorage.formats.iceberg.documents import Document
from moorage.uniform import encoding

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_FASTEST: Final = 1
"""The deflate level. Level 9 takes eight times as long and saves five percent."""

_encode = msgspec.json.Encoder().encode


def container(schema: Document, meta: Mapping[str, str], records: bytes, count: int) -> bytes:
    """An Avro file with these encoded records in one block."""
    deflate = zlib.compressobj(_FASTEST, zlib.DEFLATED, -15)
    block = deflate.compress(records) + deflate.flush()
    # Avro asks for a random marker between blocks. A digest is as good, and equal records make equal files.
    marker = hashlib.sha256(block).digest()[:_SYNC_BYTES]
    entries = {"avro.schema": _encode(schema).decode(), "avro.codec": "deflate", **meta}
    header = b"".join(_text(key) + _text(value) for key, value in entries.items())
    counted = encoding.long(len(entries)) + header + b"\x00"
    body = encoding.long(count) + encoding.long(len(block)) + block + marker if count else b""
    return _MAGIC + counted + marker + body


def _text(value: str) -> bytes:
    data = value.encode()
    return encoding.long(len(data)) + data


# --- manifest entries -----------------------------------------------------------------------------------


def _field(name: str, id: int, kind: Any) -> Document:
    return {"name": name, "type": kind, "field-id": id}


def _optional(name: str, id: int, kind: Any) -> Document:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": id}


def _map(name: str, id: int, key_id: int, value_id: int, value: str) -> Document:
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field("key", key_id, "int"), _field("value", value_id, value)],
    }
    return _optional(name, id, {"type": "array", "items": pair, "logicalType": "map"})


def _list(name: str, id: int, element_id: int, kind: str) -> Document:
    return _optional(name, id, {"type": "array", "items": kind, "element-id": element_id})


_STATISTICS: Final = [
    _map("column_sizes", 108, 117, 118, "long"),
    _map("value_counts", 109, 119, 120, "long"),
    _map("null_value_counts", 110, 121, 122, "long"),
    _map("nan_value_counts", 137, 138, 139, "long"),
    _map("lower_bounds", 125, 126, 127, "bytes"),
    _map("upper_bounds", 128, 129, 130, "bytes"),
    _optional("key_metadata", 131, "bytes"),
    _list("split_offsets", 132, 133, "long"),
    _list("equality_ids", 135, 136, "int"),
    _optional("sort_order_id", 140, "int"),
]
_SINCE_VERSION_3: Final = [
    _optional("first_row_id", 142, "long"),
    _optional("referenced_data_file", 143, "string"),
    _optional("content_offset", 144, "long"),
    _optional("content_size_in_bytes", 145, "long"),
]


def entry_schema(partition: Sequence[Document], *, format_version: int) -> Document:
    """The Avro schema of manifest entries. What version 3 adds is at the end, so older entries can be extended."""
    data_file = [
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, {"type": "record", "name": "r102", "fields": list(partition)}),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        *_STATISTICS,
        *(_SINCE_VERSION_3 if format_version >= 3 else ()),
    ]
    fields = [
        _field("status", 0, "int"),
        _optional("snapshot_id", 1, "long"),
        _optional("sequence_number", 3, "long"),
        _optional("file_sequence_number", 4, "long"),
        _field("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def avro_name(name: str) -> str:
    """A name that Avro allows, escaped as Iceberg's Java library does."""
    first, rest = name[:1], name[1:]
    start = first if first.isascii() and (first.isalpha() or first == "_") else _escaped(first, digit=True)
    return start + "".join(
        each if each.isascii() and (each.isalnum() or each == "_") else _escaped(each) for each in rest
    )


def _escaped(character: str, *, digit: bool = False) -> str:
    return f"_{character}" if digit and character.isdigit() else f"_x{ord(character):X}"


# --- manifest lists -------------------------------------------------------------------------------------


_SUMMARY: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field("contains_null", 509, "boolean"),
        _optional("contains_nan", 518, "boolean"),
        _optional("lower_bound", 510, "bytes"),
        _optional("upper_bound", 511, "bytes"),
    ],
}
_LIST_FIELDS: Final = [
    _field("manifest_path", 500, "string"),
    _field("manifest_length", 501, "long"),
    _field("partition_spec_id", 502, "int"),
    _field("content", 517, "int"),
    _field("sequence_number", 515, "long"),
    _field("min_sequence_number", 516, "long"),
    _field("added_snapshot_id", 503, "long"),
    _field("added_files_count", 504, "int"),
    _field("existing_files_count", 505, "int"),
    _field("deleted_files_count", 506, "int"),
    _field("added_rows_count", 512, "long"),
    _field("existing_rows_count", 513, "long"),
    _field("deleted_rows_count", 514, "long"),
    _optional("partitions", 507, {"type": "array", "items": _SUMMARY, "element-id": 508}),
    _optional("key_metadata", 519, "bytes"),
]


def _list_schema(format_version: int) -> Document:
    fields = [*_LIST_FIELDS, *([_optional("first_row_id", 520, "long")] if format_version >= 3 else ())]
    return {"type": "record", "name": "manifest_file", "fields": fields}


_LIST_SCHEMAS: Final = {version: _list_schema(version) for version in (2, 3)}
_PARSED: Final = {version: fastavro.parse_schema(schema) for version, schema in _LIST_SCHEMAS.items()}


def manifest_list(records: Iterable[Document], *, format_version: int, snapshot: Document) -> bytes:
    """A manifest list of these records, in the form of the specification."""
    buffer, count = io.BytesIO(), 0
    for record in records:
        fastavro.schemaless_writer(buffer, _PARSED[format_version], record)
        count += 1
    meta = {
        "snapshot-id": str(snapshot["snapshot-id"]),
        "parent-snapshot-id": str(snapshot.get("parent-snapshot-id", "null")),
        "sequence-number": str(snapshot["sequence-number"]),
        "format-version": str(format_version),
    }
    return container(_LIST_SCHEMAS[format_version], meta, buffer.getvalue(), count)
