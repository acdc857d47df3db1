"""The Iceberg schema of a Delta table, with stable field ids, and the name mapping that finds columns without ids.

With column mapping, Delta assigns the ids. Without it, an id belongs to a name for ever, also after the column was
dropped and added again: the name mapping knows one id for a name, and data files contain names only. The ids are
stored in the name mapping, so the metadata is the only state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from moorage.formats.delta.actions import Metadata
from moorage.formats.delta.schema import Array, DataType, Decimal, Field, Map, Primitive, Schema
from moorage.formats.iceberg.documents import Document
from moorage.uniform.refusals import Refused

Path: TypeAlias = tuple[str, ...]
"""Names of a column in data files, outermost first."""
Ids: TypeAlias = dict[Path, int]

NAME_MAPPING: Final = "schema.name-mapping.default"
_ID: Final = "delta.columnMapping.id"
_NESTED_IDS: Final = "delta.columnMapping.nested.ids"
_ROW_ID: Final = ("delta.rowTracking.materializedRowIdColumnName", 2147483540)
_ROW_VERSION: Final = ("delta.rowTracking.materializedRowCommitVersionColumnName", 2147483539)
_RESERVED: Final = 2147483447
"""Ids from here on belong to Iceberg's own columns."""

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "variant": "variant",
}


class Leaf(msgspec.Struct, frozen=True):
    """A column with values of its own, outside of arrays and maps. Logs have statistics for those."""

    path: Path
    id: int
    type: DataType


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """A schema in Iceberg's form."""

    fields: list[Document]
    ids: Ids
    """The id of every column that data files may contain, current or dropped."""
    leaves: tuple[Leaf, ...]
    columns: dict[str, int]
    """The ids of the top-level columns by their names in Delta, in lower case."""
    last_id: int


def convert_schema(schema: Schema, metadata: Metadata, known: Ids, last_id: int) -> Converted:
    """The schema in Iceberg's form. `known` are the ids assigned earlier, and `last_id` is the highest of them."""
    ids = known | _row_tracking_columns(metadata)
    conversion = _Conversion(ids, last_id, mapped=metadata.is_mapped)
    fields = conversion.struct(schema, (), {})
    top = zip(schema.fields, fields, strict=True)
    columns = {field.name.lower(): document["id"] for field, document in top}
    return Converted(
        fields=fields,
        ids=conversion.ids,
        leaves=tuple(conversion.leaves),
        columns=columns,
        last_id=conversion.last_id,
    )


def with_former(converted: Converted, former: Iterable[Path]) -> Converted:
    """The schema with ids for columns that only older data files contain: PyIceberg must find a name for each."""
    ids, last_id = dict(converted.ids), converted.last_id
    for path in sorted(former, key=len):
        if path not in ids:
            last_id += 1
            ids[path] = last_id
    return replace(converted, ids=ids, last_id=last_id)


def _row_tracking_columns(metadata: Metadata) -> Ids:
    found = ((metadata.configuration.get(name), id) for name, id in (_ROW_ID, _ROW_VERSION))
    return {(column,): id for column, id in found if column is not None}


class _Conversion:
    def __init__(self, ids: Ids, last_id: int, *, mapped: bool) -> None:
        self.ids, self.mapped = dict(ids), mapped
        self.last_id = last_id
        self.leaves: list[Leaf] = []

    def struct(self, schema: Schema, above: Path, nested: Mapping[str, Any], *, leaves: bool = True) -> list[Document]:
        paths = [(*above, field.physical_name if self.mapped else field.name) for field in schema.fields]
        # All fields of a level get their ids before the levels below, as other catalogs number them.
        numbers = [self._id(path, field) for path, field in zip(paths, schema.fields, strict=True)]
        return [
            self._field(field, path, id, leaves=leaves)
            for field, path, id in zip(schema.fields, paths, numbers, strict=True)
        ]

    def _field(self, field: Field, path: Path, id: int, *, leaves: bool) -> Document:
        nested = field.metadata.get(_NESTED_IDS)
        prefix = (path[-1], nested if isinstance(nested, dict) else {})
        kind = self._type(field.type, path, id, prefix, leaves=leaves)
        # Delta's writers check NOT NULL. A required column would make files without it unreadable.
        document = {"id": id, "name": field.name, "required": False, "type": kind}
        return document if field.comment is None else {**document, "doc": field.comment}

    def _type(
        self, kind: DataType, path: Path, id: int, nested: tuple[str, Mapping[str, Any]], *, leaves: bool
    ) -> str | Document:
        match kind:
            case Schema():
                return {"type": "struct", "fields": self.struct(kind, path, {}, leaves=leaves)}
            case Array(element=element):
                return {"type": "list", **self._part("element", element, path, nested), "element-required": False}
            case Map(key=key, value=value):
                parts = {**self._part("key", key, path, nested), **self._part("value", value, path, nested)}
                return {"type": "map", **parts, "value-required": False}
        if leaves:
            self.leaves.append(Leaf(path, id, kind))
        return primitive(kind, ".".join(path))

    def _part(self, part: str, kind: DataType, above: Path, nested: tuple[str, Mapping[str, Any]]) -> Document:
        path, key = (*above, part), f"{nested[0]}.{part}"
        id = self._numbered(path, nested[1].get(key))
        return {f"{part}-id": id, part: self._type(kind, path, id, (key, nested[1]), leaves=False)}

    def _id(self, path: Path, field: Field) -> int:
        return self._numbered(path, field.metadata.get(_ID) if self.mapped else None)

    def _numbered(self, path: Path, stated: object) -> int:
        if isinstance(stated, int) and 0 < stated < _RESERVED:
            self.ids[path] = stated
        elif path not in self.ids:
            self.ids[path] = self.last_id + 1
        self.last_id = max(self.last_id, self.ids[path] if self.ids[path] < _RESERVED else 0)
        return self.ids[path]


def primitive(kind: DataType, name: str) -> str:
    """The Iceberg type of a Delta type that is not nested."""
    match kind:
        case Primitive(name=text) if text in _PRIMITIVES:
            return _PRIMITIVES[text]
        case Primitive(name=text) if text.startswith(("varchar(", "char(")):
            return "string"
        case Decimal(precision=precision, scale=scale) if precision:
            return f"decimal({precision}, {scale})"
    shown = kind.name if isinstance(kind, Primitive) else str(kind)
    raise Refused(f"column '{name}' has the type {shown}, which Iceberg does not have")


def highest_delta_id(schema: Schema) -> int:
    """The highest id that Delta assigned with column mapping."""
    return max((id for id in _delta_ids(schema)), default=0)


def _delta_ids(kind: DataType) -> Iterator[int]:
    match kind:
        case Schema(fields=fields):
            for field in fields:
                nested = field.metadata.get(_NESTED_IDS)
                stated = [field.metadata.get(_ID), *(nested.values() if isinstance(nested, dict) else ())]
                yield from (id for id in stated if isinstance(id, int) and id < _RESERVED)
                yield from _delta_ids(field.type)
        case Array(element=element):
            yield from _delta_ids(element)
        case Map(key=key, value=value):
            yield from _delta_ids(key)
            yield from _delta_ids(value)


# --- the name mapping -----------------------------------------------------------------------------------


def to_name_mapping(ids: Ids) -> str:
    """The property from which readers learn the ids of columns in files that contain names only."""
    return msgspec.json.encode(_mapped_fields(ids)).decode()


def _mapped_fields(ids: Ids) -> list[Document]:
    below: dict[str, Ids] = {}
    for path, id in ids.items():
        below.setdefault(path[0], {})[path[1:]] = id
    return [
        {"field-id": inner.pop(()), "names": [name], **({"fields": _mapped_fields(inner)} if inner else {})}
        for name, inner in below.items()
    ]


def from_name_mapping(text: str | None) -> Ids:
    """The ids that an earlier conversion stored."""
    return {} if text is None else dict(_read_mapping(msgspec.json.decode(text), ()))


def _read_mapping(fields: list[Document], above: Path) -> Iterator[tuple[Path, int]]:
    for field in fields:
        for name in field["names"]:
            yield (*above, name), field["field-id"]
            yield from _read_mapping(field.get("fields", []), (*above, name))
