"""Valid updates, and values in them that some reader could not load."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from moorage.formats.iceberg.documents import Document
from tests.unit.formats.iceberg.tables import SCHEMA, add, set_ref

Path = tuple[Any, ...]


def paths_of(part: Any, above: Path = ()) -> Iterator[Path]:
    """The path of each part of a document."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from paths_of(value, (*above, key))


def changed(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at one path."""
    found = deepcopy(document)
    part = found
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return found


def add_key(**given: Any) -> Document:
    return {
        "action": "add-encryption-key",
        "encryption-key": {"key-id": "k", "encrypted-key-metadata": "YQ==", **given},
    }


def _column(id: int, name: str, kind: Any, **given: Any) -> Document:
    return {"id": id, "name": name, "required": False, "type": kind, **given}


_LIST: Document = {"type": "list", "element-id": 6, "element": "string", "element-required": True}
_MAP: Document = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "long", "value-required": False}
_PRICE = _column(4, "price", "decimal(9, 2)", **{"initial-default": "1.20", "write-default": "3.40"})
WIDER: Document = {
    **SCHEMA,
    "fields": [*SCHEMA["fields"], _PRICE, _column(5, "tags", _LIST), _column(7, "counts", _MAP)],
    "identifier-field-ids": [1],
}
_BLOB: Document = {
    "type": "deletion-vector-v1",
    "snapshot-id": 1,
    "sequence-number": 1,
    "fields": [1],
    "properties": {"a": "b"},
}
_STATISTICS: Document = {
    "snapshot-id": 1,
    "statistics-path": "file:///a",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [_BLOB],
}
_AGES: Document = {"max-ref-age-ms": 5, "max-snapshot-age-ms": 6, "min-snapshots-to-keep": 7}
_ROWS: Document = {"first-row-id": 20, "added-rows": 5}
_SPEC: Document = {
    "spec-id": 7,
    "fields": [
        {"source-id": 1, "field-id": 1000, "name": "shard", "transform": "bucket[4]"},
        {"source-id": 3, "field-id": 1001, "name": "day", "transform": "day"},
    ],
}
_ORDER: Document = {"transform": "bucket[4]", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}

ADD_SCHEMA: list[Document] = [
    {"action": "add-schema", "schema": WIDER},
    {"action": "set-current-schema", "schema-id": -1},
]
ADD_SPEC: list[Document] = [{"action": "add-spec", "spec": _SPEC}, {"action": "set-default-spec", "spec-id": -1}]
ADD_ORDER: list[Document] = [
    {"action": "add-sort-order", "sort-order": {"order-id": 3, "fields": [_ORDER]}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
]
APPEND: list[Document] = [
    add(3, parent=2, **_ROWS),
    set_ref(3),
    set_ref(3, "side", **_AGES),
    set_ref(2, "first", "tag"),
]
SET_STATISTICS: list[Document] = [
    {"action": "set-statistics", "statistics": _STATISTICS},
    {
        "action": "set-partition-statistics",
        "partition-statistics": {"snapshot-id": 1, "statistics-path": "file:///b", "file-size-in-bytes": 1},
    },
]
ADD_KEY: list[Document] = [add_key(**{"encrypted-by-id": "m", "properties": {"a": "b"}})]
ALL: list[list[Document]] = [ADD_SCHEMA, ADD_SPEC, ADD_ORDER, APPEND, SET_STATISTICS, ADD_KEY]
"""For a table of format version 3 with two snapshots."""

_FIELDS = (0, "schema", "fields")
POISONED: list[tuple[list[Document], Path, Any]] = [
    (ADD_SCHEMA, (*_FIELDS, 4, "type", "type"), []),
    (ADD_SCHEMA, (*_FIELDS, 3, "type"), "decimal(9,-2)"),
    (ADD_SCHEMA, (*_FIELDS, 3, "initial-default"), "1"),
    (ADD_SCHEMA, (*_FIELDS, 1, "doc"), 7),
    (ADD_SCHEMA, (*_FIELDS, 1, "id"), 2**31),
    (ADD_SCHEMA, (*_FIELDS, 0, "type"), "unknown"),
    (ADD_SCHEMA, (*_FIELDS, 0, "type"), "variant"),
    (ADD_SCHEMA, (*_FIELDS, 4, "type", "element-id"), 2**31),
    (ADD_SCHEMA, (*_FIELDS, 4, "type", "element-required"), 1),
    (ADD_SCHEMA, (*_FIELDS, 4, "type", "element"), "unknown"),
    (ADD_SCHEMA, (*_FIELDS, 5, "type", "key"), "unknown"),
    (ADD_SCHEMA, (*_FIELDS, 5, "type", "value-required"), None),
    (ADD_SPEC, (0, "spec", "fields", 0, "field-id"), 2**31),
    (ADD_ORDER, (0, "sort-order", "fields", 0, "transform"), f"bucket[{2**31}]"),
    (APPEND, (0, "snapshot", "schema-id"), 2**31),
    (APPEND, (0, "snapshot", "summary"), {"operation": "append", "n": 1}),
    (APPEND, (0, "snapshot", "added-rows"), 2**63 - 1),
    (APPEND, (2, "min-snapshots-to-keep"), 2**31),
    (SET_STATISTICS, (0, "statistics", "blob-metadata", 0, "fields"), [2**31]),
    (SET_STATISTICS, (0, "statistics", "blob-metadata", 0, "properties"), 1),
    (SET_STATISTICS, (0, "statistics", "blob-metadata", 0, "properties"), {"a": 1}),
    (ADD_KEY, (0, "encryption-key", "encrypted-key-metadata"), "no base64"),
    (ADD_KEY, (0, "encryption-key", "encrypted-by-id"), 1),
    (ADD_KEY, (0, "encryption-key", "properties"), {"a": 1}),
]
"""The server once accepted each of these, and Java could not load the table."""
