"""Iceberg tables in the words of Delta, for readers of shares: a schema, partition values, and files.

Readers find columns by name, so all files must have the names and types of the current schema. What they could not
read correctly is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final
from unicodedata import category
from urllib.parse import quote

import msgspec

from moorage.core.errors import Damaged, InvalidInput, Unsupported
from moorage.core.locations import locate_in
from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.deletion_vectors import is_bitmap, to_inline, unframe
from moorage.formats.delta.file_actions import AddFile, DeletionVector, Texts
from moorage.formats.iceberg.deletes import DeleteIndex
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import DATA, ContentFile
from moorage.formats.iceberg.schemas import current_schema
from moorage.formats.iceberg.specs import Spec, specs_of
from moorage.formats.iceberg.values import decode, parse_primitive, to_wire
from moorage.formats.sharing.protocols import COLUMN_MAPPING, DELETION_VECTORS, MAPPING_MODE

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


def vectors_of(files: Sequence[ContentFile], specs: Mapping[int, Spec]) -> dict[str, ContentFile]:
    """The deletion vectors of a snapshot, by data file. Refuses all other delete files that apply to a data file."""
    deletes = [file for file in files if file.content != DATA]
    index = DeleteIndex(deletes, specs)
    found: dict[str, ContentFile] = {}
    for file in _data_files(files) if deletes else ():
        for each in index.of(file):
            is_vector = each.format == "puffin" and each.referenced == file.path
            if not is_vector or each.offset is None or each.length is None:
                raise Unsupported(
                    "rows of the table were deleted by delete files, which Delta Sharing cannot express; only deletion "
                    "vectors can be shared. Compact the table"
                )
            if each.key_metadata:
                raise Unsupported("the table has encrypted files, which cannot be shared")
            if each.offset < 0 or each.length < 0:
                raise Damaged(f"the manifest names a deletion vector at offset {each.offset} of {each.path}")
            found[file.path] = each
    return found


def to_vector(file: ContentFile, blob: bytes) -> DeletionVector:
    """A deletion vector of Iceberg, as it is in its file, for readers of Delta.

    Both formats store the same bytes, but readers of Delta require another beginning of the file. So they get the
    vector with the line of the data file.
    """
    data = unframe(blob)
    if data is None or len(blob) != file.length or not is_bitmap(data):
        raise Damaged(f"the deletion vector at offset {file.offset} of {file.path} is missing or damaged")
    return to_inline(data, file.records)


_NO_VECTORS: Final[Mapping[str, DeletionVector]] = {}


def describe(
    table: Document,
    files: Sequence[ContentFile],
    specs: Mapping[int, Spec],
    vectors: Mapping[str, DeletionVector] = _NO_VECTORS,
    *,
    root: str,
    is_filtered: bool = False,
) -> SharedIceberg:
    """Describe the data files among the files of a snapshot.

    Raises Unsupported for what readers could not read correctly. `vectors` are those of the files with deleted rows, by
    the path of the file. `root` is the location of the table, in which the files must be. `is_filtered`: whether its
    share has a partition filter, which needs all partition columns.
    """
    files = list(_data_files(files))
    schema = current_schema(table)
    _require_no_defaults(schema["fields"])
    is_mapped = _needs_ids(table, schema)
    columns = {field["id"]: field for field in schema["fields"]}
    stored = {id: _physical_name(field) if is_mapped else field["name"] for id, field in columns.items()}
    # Clients that find columns by id cannot fill in partition values. The values are also in the files.
    used = {file.spec_id for file in files} or {table["default-spec-id"]}
    partitions = [] if is_mapped else _partition_columns(columns, used, specs)
    if not is_filtered:
        blank = _columns_with_blanks(files, specs)
        partitions = [id for id in partitions if id not in blank]
    fields = [_field(field, is_mapped=is_mapped) for field in schema["fields"]]
    metadata = Metadata(
        id=table["table-uuid"],
        schema_string=msgspec.json.encode({"type": "struct", "fields": fields}).decode(),
        partition_columns=tuple(columns[id]["name"] for id in partitions),
        configuration={MAPPING_MODE: "id"} if is_mapped else {},
    )
    added = tuple(
        _add(file, _inside(root, file.path), columns, stored, partitions, specs[file.spec_id], vectors.get(file.path))
        for file in _parquet_only(files)
    )
    return SharedIceberg(_protocol(metadata, has_vectors=bool(vectors)), metadata, added)


def _data_files(files: Iterable[ContentFile]) -> Iterator[ContentFile]:
    return (file for file in files if file.content == DATA)


def _require_no_defaults(fields: Iterable[Document]) -> None:
    """Refuse columns with a value for the rows of older files, which readers of Delta would read as null."""
    for field in fields:
        if field.get("initial-default") is not None:
            raise Unsupported(
                f"column '{field['name']}' has an initial default, which Delta Sharing cannot express; "
                "copy the rows into a new table to share it"
            )
        for inner in _structs_in(field["type"]):
            _require_no_defaults(inner["fields"])


def _structs_in(kind: Any) -> Iterator[Document]:
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield kind
    for part in ("element", "key", "value"):
        if part in kind:
            yield from _structs_in(kind[part])


def _needs_ids(table: Document, schema: Document) -> bool:
    """Whether files may have another name for a column of the schema, so that readers must find columns by id.

    Refuses a table with files that may have another type for a column, or no ids.
    """
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    types: dict[int, str] = {}
    change = next((f"column '{name}' may have another name in files" for name in _replaced_names(schema)), None)
    if len(table["schemas"]) <= max(each["schema-id"] for each in table["schemas"]):
        change = "a schema was removed, in which columns may have had other names"
    for each in table["schemas"]:
        for path, id, kind in _paths(each["fields"], ""):
            if names.setdefault(id, path) != path:
                change = f"column '{names[id]}' was renamed to '{path}'"
            if ids.setdefault(path, id) != id:
                change = f"column '{path}' was dropped and added again"
            if isinstance(kind, str) and types.setdefault(id, kind) != kind:
                raise Unsupported(_CHANGED.format(f"the type of '{path}' was changed from {types[id]} to {kind}"))
    if change is not None and _NAME_MAPPING in table.get("properties", {}):
        raise Unsupported(_CHANGED.format(f"{change}, and the table may have files without column ids"))
    return change is not None


_NAME_MAPPING: Final = "schema.name-mapping.default"
_CHANGED: Final = "{}, so that files could be read wrongly; copy the rows into a new table to share it"
_LETTERS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo"})


def _replaced_names(struct: Document) -> Iterator[str]:
    """The names of columns that writers of Parquet files replace: `order id` becomes `order_x20id`.

    Iceberg's writers keep the names that Avro allows. They differ in which letters beyond ASCII these are.
    """
    for field in struct["fields"]:
        if not all(map(_is_kept, field["name"])) or field["name"][:1].isdigit():
            yield field["name"]
        for inner in _structs_in(field["type"]):
            yield from _replaced_names(inner)


def _is_kept(character: str) -> bool:
    """Whether all writers keep this character. Java knows no letters beyond 16 bits."""
    kind = category(character)
    return character == "_" or (character <= "\uffff" and (kind in _LETTERS or kind == "Nd"))


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
        case "list" | "map":
            for part in ("element", "key", "value"):
                if part in kind:
                    yield f"{path}.{part}", kind[f"{part}-id"], kind[part]
                    yield from _inner_paths(kind[part], f"{path}.{part}")


def _field(field: Document, *, is_mapped: bool) -> dict[str, Any]:
    metadata = {} if field.get("doc") is None else {"comment": field["doc"]}
    if is_mapped:
        metadata |= {"delta.columnMapping.id": field["id"], "delta.columnMapping.physicalName": _physical_name(field)}
    return {
        "name": field["name"],
        "type": _type(field["type"], field["name"], is_mapped=is_mapped),
        "nullable": not field["required"],
        "metadata": metadata,
    }


def _physical_name(field: Document) -> str:
    """A name that no file has: clients look for a column by name if a file does not have its id."""
    return f"iceberg-field-{field['id']}"


def _type(kind: Any, name: str, *, is_mapped: bool) -> Any:
    if isinstance(kind, str):
        primitive = parse_primitive(kind)
        if primitive.name == "decimal":
            return f"decimal({primitive.size},{primitive.scale})"
        if primitive.name not in _DELTA_TYPES:
            raise Unsupported(f"column '{name}' has the type {kind}, which Delta Sharing cannot express")
        return _DELTA_TYPES[primitive.name]
    match kind["type"]:
        case "list":
            inner = _type(kind["element"], name, is_mapped=is_mapped)
            return {"type": "array", "elementType": inner, "containsNull": not kind["element-required"]}
        case "map":
            return {
                "type": "map",
                "keyType": _type(kind["key"], name, is_mapped=is_mapped),
                "valueType": _type(kind["value"], name, is_mapped=is_mapped),
                "valueContainsNull": not kind["value-required"],
            }
    return {"type": "struct", "fields": [_field(field, is_mapped=is_mapped) for field in kind["fields"]]}


def _protocol(metadata: Metadata, *, has_vectors: bool) -> Protocol:
    features = (
        *((DELETION_VECTORS,) if has_vectors else ()),
        *((COLUMN_MAPPING,) if MAPPING_MODE in metadata.configuration else ()),
        *((_NTZ,) if "timestamp_ntz" in metadata.schema_string else ()),
    )
    if not features:
        return Protocol(min_reader_version=1, min_writer_version=2)
    return Protocol(min_reader_version=3, min_writer_version=7, reader_features=features, writer_features=features)


def _partition_columns(columns: Mapping[int, Document], used: set[int], specs: Mapping[int, Spec]) -> list[int]:
    """The columns by whose plain values all files with these partition specs are partitioned."""
    found = [
        [field.source_id for field in specs[id] if field.transform.name == "identity" and field.source_id in columns]
        for id in sorted(used)
    ]
    return [
        id
        for id in found[0]
        if all(id in ids for ids in found) and parse_primitive(str(columns[id]["type"])).name in _PARTITION_TYPES
    ]


def _columns_with_blanks(files: Iterable[ContentFile], specs: Mapping[int, Spec]) -> set[int]:
    """The columns with an empty text as a partition value. Delta reads it as null, but the rows have the text."""
    found: set[int] = set()
    for file in files:
        if "" in file.partition:
            found |= {field.source_id for field in specs[file.spec_id] if file.partition[field.position] == ""}
    return found


def _parquet_only(files: Iterable[ContentFile]) -> Iterator[ContentFile]:
    for file in files:
        if file.format != "parquet":
            raise Unsupported(f"the table has files in {file.format}; only Parquet files can be shared")
        if file.key_metadata:
            raise Unsupported("the table has encrypted files, which cannot be shared")
        yield file


def _inside(root: str, path: str) -> str:
    """The path of a file, with the root in the spelling of the catalog. URLs are for files of the table only."""
    if path.startswith(root):
        return path
    try:
        location, key = locate_in((root,), path)
    except InvalidInput:
        raise Unsupported(
            "the table has files outside of its location, which cannot be shared; copy the rows into a new table to "
            "share it"
        ) from None
    return location + key


def _add(
    file: ContentFile,
    path: str,
    columns: Mapping[int, Document],
    stored: Mapping[int, str],
    partitions: Sequence[int],
    spec: Spec,
    vector: DeletionVector | None,
) -> AddFile:
    positions = {field.source_id: field.position for field in spec if field.transform.name == "identity"}
    values: Texts = {stored[id]: _text(str(columns[id]["type"]), file.partition[positions[id]]) for id in partitions}
    with_stats = {id: field for id, field in columns.items() if id not in partitions}
    stats = _stats(file, with_stats, stored)
    if vector is not None:  # the bounds are those of all rows, including the deleted ones
        stats["tightBounds"] = False
    return AddFile(
        path=quote(path, safe="/:"),
        partition_values=values,
        size=file.size,
        modification_time=0,
        data_change=True,
        stats=msgspec.json.encode(stats).decode(),
        deletion_vector=vector,
    )


def _text(kind: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(to_wire(parse_primitive(kind), value))


def _stats(file: ContentFile, columns: Mapping[int, Document], stored: Mapping[int, str]) -> dict[str, Any]:
    stats: dict[str, Any] = {"numRecords": file.records}
    counts = {stored[id]: count for id, count in (file.stats.nulls or {}).items() if id in columns}
    if counts:
        stats["nullCount"] = counts
    for name, bounds in (("minValues", file.stats.lower), ("maxValues", file.stats.upper)):
        found = {stored[id]: value for id, value in _bounds(bounds or {}, columns)}
        if found:
            stats[name] = found
    return stats


def _bounds(bounds: Mapping[int, bytes], columns: Mapping[int, Document]) -> Iterator[tuple[int, Any]]:
    for id, raw in bounds.items():
        column = columns.get(id)
        kind = parse_primitive(str(column["type"])) if column is not None else None
        if kind is None or kind.name not in _BOUND_TYPES:
            continue
        value = decode(kind, raw)
        if value is not None and (not isinstance(value, float) or isfinite(value)):
            yield id, to_wire(kind, value)


__all__ = [
    "ContentFile",
    "Document",
    "SharedIceberg",
    "current_snapshot",
    "describe",
    "specs_of",
    "to_vector",
    "vectors_of",
]
