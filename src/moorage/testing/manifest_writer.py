"""Iceberg manifests and manifest lists as other engines write them, for tests and benchmarks."""

from __future__ import annotations

import io
from typing import Any

import fastavro

_MAPS = {
    "column_sizes": "long",
    "value_counts": "long",
    "null_value_counts": "long",
    "nan_value_counts": "long",
    "lower_bounds": "bytes",
    "upper_bounds": "bytes",
}


def _map(name: str, kind: str) -> dict[str, Any]:
    pair = {"type": "record", "name": f"pair_{name}"}
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": kind}]
    return {"type": "array", "logicalType": "map", "items": {**pair, "fields": fields}}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def entry_schema(partition: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the Avro schema of manifest entries. `partition` contains Avro fields with the field ids of the spec."""
    data_file = [
        {"name": "content", "type": "int", "default": 0},
        {"name": "file_path", "type": "string"},
        {"name": "file_format", "type": "string"},
        {"name": "partition", "type": {"type": "record", "name": "r102", "fields": partition}},
        {"name": "record_count", "type": "long"},
        {"name": "file_size_in_bytes", "type": "long"},
        *(_optional(name, _map(name, kind)) for name, kind in _MAPS.items()),
        _optional("key_metadata", "bytes"),
        _optional("split_offsets", {"type": "array", "items": "long"}),
        _optional("equality_ids", {"type": "array", "items": "int"}),
        _optional("sort_order_id", "int"),
        _optional("first_row_id", "long"),
        _optional("referenced_data_file", "string"),
        _optional("content_offset", "long"),
        _optional("content_size_in_bytes", "long"),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            _optional("snapshot_id", "long"),
            _optional("sequence_number", "long"),
            {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": data_file}},
        ],
    }


def entry(path: str, *, status: int = 1, snapshot: int | None = None, sequence: int | None = None, **file: Any) -> Any:
    """Return one entry of a manifest."""
    for name in _MAPS.keys() & file.keys():
        file[name] = [{"key": key, "value": value} for key, value in file[name].items()]
    data_file = {"file_path": path, "file_format": "PARQUET", "partition": {}, "record_count": 10, **file}
    data_file.setdefault("file_size_in_bytes", 1_000)
    return {"status": status, "snapshot_id": snapshot, "sequence_number": sequence, "data_file": data_file}


def manifest(*entries: Any, partition: Any = (), codec: str = "deflate", spec_id: int = 0) -> bytes:
    return _avro(entry_schema(list(partition)), list(entries), codec, {"partition-spec-id": str(spec_id)})


LIST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string"},
        {"name": "manifest_length", "type": "long"},
        {"name": "partition_spec_id", "type": "int"},
        {"name": "content", "type": "int", "default": 0},
        {"name": "sequence_number", "type": "long", "default": 0},
        _optional("added_snapshot_id", "long"),
        _optional("added_files_count", "int"),
        _optional("existing_files_count", "int"),
        _optional(
            "partitions",
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "r508",
                    "fields": [
                        {"name": "contains_null", "type": "boolean"},
                        _optional("contains_nan", "boolean"),
                        _optional("lower_bound", "bytes"),
                        _optional("upper_bound", "bytes"),
                    ],
                },
            },
        ),
        _optional("first_row_id", "long"),
    ],
}


def manifest_list(*lines: Any, codec: str = "deflate") -> bytes:
    return _avro(LIST_SCHEMA, list(lines), codec, {})


def _avro(schema: dict[str, Any], records: list[Any], codec: str, meta: dict[str, str]) -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, schema, records, codec=codec, metadata=meta, sync_interval=200)
    return written.getvalue()
