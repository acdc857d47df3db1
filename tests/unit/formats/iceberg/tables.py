"""Small Iceberg tables for tests."""

from __future__ import annotations

from typing import Any

from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import new_table, updated

UUID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10"
PERSISTED = {"write.parquet.compression-codec": "zstd"}
"""The properties of every new table."""
NOW_MS = 1_800_000_000_000
SCHEMA: Document = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "city", "required": False, "type": "string", "doc": "where"},
        {"id": 3, "name": "at", "required": False, "type": "timestamptz"},
    ],
}
BY_CITY: Document = {"fields": [{"source-id": 2, "name": "city", "transform": "identity"}]}
BY_ID: Document = {
    "fields": [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]
}


def table(version: int = 2, **given: Any) -> Document:
    """A table without rows."""
    properties = {"format-version": str(version), **given.pop("properties", {})}
    parts = {"schema": SCHEMA, "spec": None, "order": None, **given}
    return new_table(uuid=UUID, location="file:///lake/t", properties=properties, now_ms=NOW_MS, **parts)


def apply(base: Document, *updates: Document, now_ms: int = NOW_MS + 1) -> Document:
    return updated(base, updates, now_ms=now_ms)


def snapshot(id: int, *, sequence: int | None = None, parent: int | None = None, **given: Any) -> Document:
    found: Document = {
        "snapshot-id": id,
        "sequence-number": id if sequence is None else sequence,
        "timestamp-ms": NOW_MS + id,
        "manifest-list": f"file:///lake/t/metadata/snap-{id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **given,
    }
    return found if parent is None else {**found, "parent-snapshot-id": parent}


def add(id: int, **given: Any) -> Document:
    return {"action": "add-snapshot", "snapshot": snapshot(id, **given)}


def set_ref(id: int, name: str = "main", kind: str = "branch", **given: Any) -> Document:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": id, **given}


def with_snapshots(count: int, version: int = 2) -> Document:
    """A table with rows. The last snapshot is the current one."""
    found = table(version)
    for id in range(1, count + 1):
        rows = {"first-row-id": (id - 1) * 10, "added-rows": 10} if version == 3 else {}
        found = apply(found, add(id, parent=id - 1 or None, **rows), set_ref(id))
    return found
