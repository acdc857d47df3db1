"""Iceberg tables in the words of Delta, for readers of shares: a schema, partition values, and files.

Readers find columns by name, so all files must have the names and types of the current schema. What they could not
read correctly is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final
from urllib.parse import quote

import msgspec

from moorage.core.errors import Unsupported
from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.file_actions import AddFile, Texts
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import ContentFile
from moorage.formats.iceberg.schemas import current_schema
from moorage.formats.iceberg.specs import Spec, specs_of
from moorage.formats.iceberg.values import decode, parse_primitive, to_wire

_SAME_TYPES: Final = frozenset({"boolean", "long", "float", "double", "date", "string", "binary"})
_DELTA_TYPES: Final = {
    **{name: name for name in _SAME_TYPES},
    "int": "integer",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
_PARTITION_TYPES: Final = frozenset({"boolean", "int", "long", "date", "string"})
"""Types with one text form. A column of another type is in the files anyway, and is no partition column here."""
_BOUND_TYPES: Final = frozenset({"int", "long", "date", "string", "double", "float"})
_NTZ: Final = "timestampNtz"


class SharedIceberg(msgspec.Struct, frozen=True):
    """One snapshot of an Iceberg table, as a Delta log would describe it."""

    protocol: Protocol
    metadata: Metadata
    files: tuple[AddFile, ...]


def current_snapshot(table: Document) -> Document | None:
    """The newest snapshot of the main branch; None if the table has none."""
    id = table.get("current-snapshot-id")
    return next((each for each in table.get("snapshots", ()) if each["snapshot-id"] == id), None)


def describe(table: Document, files: Sequence[ContentFile], specs: Mapping[int, Spec]) -> SharedIceberg:
    """Describe the data files of a snapshot. Raises Unsupported for what readers could not read correctly."""
    schema = current_schema(table)
    _require_stable_columns(table["schemas"])
    columns = {field["id"]: field for field in schema["fields"]}
    partitions = _partition_columns(columns, {file.spec_id for file in files}, specs)
    fields = [_field(field) for field in schema["fields"]]
    metadata = Metadata(
        id=table["table-uuid"],
        schema_string=msgspec.json.encode({"type": "struct", "fields": fields}).decode(),
        partition_columns=tuple(columns[id]["name"] for id in partitions),
    )
    added = tuple(_add(file, columns, partitions, specs[file.spec_id]) for file in _parquet_only(files))
    return SharedIceberg(_protocol(metadata.schema_string), metadata, added)


def _require_stable_columns(schemas: Iterable[Document]) -> None:
    """Refuse a table with files that may have another name or type for a column."""
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    types: dict[int, str] = {}
    for schema in schemas:
        for path, id, kind in _paths(schema["fields"], ""):
            if names.setdefault(id, path) != path:
                raise Unsupported(_CHANGED.format(f"'{names[id]}' was renamed to '{path}'"))
            if ids.setdefault(path, id) != id:
                raise Unsupported(_CHANGED.format(f"'{path}' was dropped and added again"))
            if isinstance(kind, str) and types.setdefault(id, kind) != kind:
                raise Unsupported(_CHANGED.format(f"the type of '{path}' was changed from {types[id]} to {kind}"))


_CHANGED: Final = "the column {}, so older files cannot be read by name; rewrite the table to share it"


def _paths(fields: Iterable[Document], above: str) -> Iterator[tuple[str, int, Any]]:
    for field in fields:
        path = f"{above}{field['name']}"
        yield path, field["id"], field["type"]
        yield from _inner_paths(field["type"], path)


def _inner_paths(kind: Any, path: str) -> Iterator[tuple[str, int, Any]]:
    if isinstance(kind, str):
        return
    match kind["type"]:
        case "struct":
            yield from _paths(kind["fields"], f"{path}.")
        case "list":
            yield from _inner_paths(kind["element"], f"{path}.element")
        case "map":
            yield from _inner_paths(kind["key"], f"{path}.key")
            yield from _inner_paths(kind["value"], f"{path}.value")


def _field(field: Document) -> dict[str, Any]:
    metadata = {} if field.get("doc") is None else {"comment": field["doc"]}
    return {
        "name": field["name"],
        "type": _type(field["type"], field["name"]),
        "nullable": not field["required"],
        "metadata": metadata,
    }


def _type(kind: Any, name: str) -> Any:
    if isinstance(kind, str):
        primitive = parse_primitive(kind)
        if primitive.name == "decimal":
            return f"decimal({primitive.size},{primitive.scale})"
        if primitive.name not in _DELTA_TYPES:
            raise Unsupported(f"column '{name}' has the type {kind}, which Delta Sharing cannot express")
        return _DELTA_TYPES[primitive.name]
    match kind["type"]:
        case "list":
            inner = _type(kind["element"], name)
            return {"type": "array", "elementType": inner, "containsNull": not kind["element-required"]}
        case "map":
            return {
                "type": "map",
                "keyType": _type(kind["key"], name),
                "valueType": _type(kind["value"], name),
                "valueContainsNull": not kind["value-required"],
            }
    return {"type": "struct", "fields": [_field(field) for field in kind["fields"]]}


def _protocol(schema_string: str) -> Protocol:
    if "timestamp_ntz" not in schema_string:
        return Protocol(min_reader_version=1, min_writer_version=2)
    return Protocol(min_reader_version=3, min_writer_version=7, reader_features=(_NTZ,), writer_features=(_NTZ,))


def _partition_columns(columns: Mapping[int, Document], used: set[int], specs: Mapping[int, Spec]) -> list[int]:
    """The columns by whose plain values all files are partitioned."""
    found = [
        [field.source_id for field in specs[id] if field.transform.name == "identity" and field.source_id in columns]
        for id in sorted(used)
    ]
    first = found[0] if found else []
    return [
        id
        for id in first
        if all(id in ids for ids in found) and parse_primitive(str(columns[id]["type"])).name in _PARTITION_TYPES
    ]


def _parquet_only(files: Iterable[ContentFile]) -> Iterator[ContentFile]:
    for file in files:
        if file.format != "parquet":
            raise Unsupported(f"the table has files in {file.format}; only Parquet files can be shared")
        if file.key_metadata:
            raise Unsupported("the table has encrypted files, which cannot be shared")
        yield file


def _add(file: ContentFile, columns: Mapping[int, Document], partitions: Sequence[int], spec: Spec) -> AddFile:
    positions = {field.source_id: field.position for field in spec if field.transform.name == "identity"}
    values: Texts = {
        columns[id]["name"]: _text(str(columns[id]["type"]), file.partition[positions[id]]) for id in partitions
    }
    return AddFile(
        path=quote(file.path, safe="/:"),
        partition_values=values,
        size=file.size,
        modification_time=0,
        data_change=True,
        stats=msgspec.json.encode(_stats(file, columns, partitions)).decode(),
    )


def _text(kind: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(to_wire(parse_primitive(kind), value))


def _stats(file: ContentFile, columns: Mapping[int, Document], partitions: Sequence[int]) -> dict[str, Any]:
    stats: dict[str, Any] = {"numRecords": file.records}
    counts = {
        columns[id]["name"]: count
        for id, count in (file.stats.nulls or {}).items()
        if id in columns and id not in partitions
    }
    if counts:
        stats["nullCount"] = counts
    for name, bounds in (("minValues", file.stats.lower), ("maxValues", file.stats.upper)):
        found = dict(_bounds(bounds or {}, columns, partitions))
        if found:
            stats[name] = found
    return stats


def _bounds(
    bounds: Mapping[int, bytes], columns: Mapping[int, Document], partitions: Sequence[int]
) -> Iterator[tuple[str, Any]]:
    for id, raw in bounds.items():
        column = columns.get(id)
        kind = parse_primitive(str(column["type"])) if column is not None else None
        if column is None or kind is None or kind.name not in _BOUND_TYPES or id in partitions:
            continue
        value = decode(kind, raw)
        if value is not None and (not isinstance(value, float) or isfinite(value)):
            yield column["name"], to_wire(kind, value)


__all__ = ["SharedIceberg", "current_snapshot", "describe", "specs_of"]
