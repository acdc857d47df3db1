"""Schemas: fields with ids, nested to any depth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import (
    Document,
    document_of,
    documents_of,
    id_of,
    numbers_of,
    text_of,
)
from moorage.formats.iceberg.fields import NESTED, Field, every_field
from moorage.formats.iceberg.values import parse_primitive, require_value

_PRIMITIVE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary"
    r"|fixed\[ *\d{1,9} *\]|decimal\( *([1-9]|[12]\d|3[0-8]) *, *\d{1,2} *\)"
)
_SINCE_VERSION_3 = re.compile(r"unknown|variant|timestamp_ns|timestamptz_ns|(geometry|geography)(\(.*\))?")
_DEFAULTS = ("initial-default", "write-default")
_MAX_DEPTH = 100
"""Levels of nesting. Clients recurse over types, so a deeper type would be unreadable for all of them."""


def require_schema(schema: Document, *, format_version: int) -> None:
    """Require a struct whose fields have unique ids and types that this format version supports."""
    if schema.get("type", "struct") != "struct":
        raise InvalidInput("a schema must be a struct", field="schema.type")
    seen: set[int] = set()
    for field in _require_struct(schema, format_version, 0):
        id = id_of(field, "id")
        if id in seen:
            raise InvalidInput(f"two fields of the schema have the id {id}", field="schema.fields")
        seen.add(id)
    fields: dict[str, Field] = {}
    for each in every_field(schema):
        if each.name in fields:  # `a.b` may be a column or a field of the column `a`, but not both
            raise InvalidInput(f"two fields of the schema have the name '{each.name}'", field="schema.fields")
        fields[each.name] = each
    if schema.get("identifier-field-ids") is not None:
        _require_identifiers(numbers_of(schema, "identifier-field-ids"), fields.values())


def _require_identifiers(ids: Iterable[int], fields: Iterable[Field]) -> None:
    """Require that identifier fields have a value in every row and that the value equals itself."""
    by_id = {field.id: field for field in fields}
    for id in ids:
        field = by_id.get(id)
        if field is None:
            raise InvalidInput(f"the identifier field {id} is not in the schema", field="schema.identifier-field-ids")
        is_nested = field.kind is NESTED or field.kind.name == "variant"
        if not field.is_required or field.is_repeated or is_nested or field.kind.is_float:
            raise InvalidInput(
                f"'{field.name}' cannot be an identifier field: it is optional, nested, repeated or a float",
                field="schema.identifier-field-ids",
            )


def _require_struct(struct: Document, version: int, depth: int) -> Iterator[Document]:
    for field in documents_of(struct, "fields"):
        name = text_of(field, "name")
        _require_optional_if_unknown(field, "required", field.get("type"), name)
        if not isinstance(field.get("doc", ""), str):
            raise InvalidInput(f"the doc of field '{name}' must be a string", field="schema.fields.doc")
        _require_defaults(field, version)
        yield field
        yield from _require_type(field.get("type"), version, depth + 1, name)


def _require_optional_if_unknown(declared: Document, key: str, kind: Any, name: str) -> None:
    """Require a boolean that states whether the field is required. A field of type unknown never has a value."""
    if not isinstance(declared.get(key), bool):
        raise InvalidInput(f"field '{name}' must set {key} to true or false", field=f"schema.fields.{key}")
    if declared[key] and kind == "unknown":
        raise InvalidInput(f"field '{name}' has type unknown and cannot be required", field="schema.fields.type")


def _require_defaults(field: Document, version: int) -> None:
    """Require readable defaults, because a reader of a file without the column uses the default instead."""
    for default in _DEFAULTS:
        if field.get(default) is None:
            continue
        if version < 3:
            raise InvalidInput(
                f"the default of field '{field['name']}' needs format version 3; this table has {version}",
                field="schema.fields",
            )
        if isinstance(field.get("type"), str):
            require_value(parse_primitive(field["type"]), field[default], f"schema.fields.{default}")


def _require_type(kind: Any, version: int, depth: int, name: str) -> Iterator[Document]:
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"the type of '{name}' is nested more than {_MAX_DEPTH} levels deep", field="schema.fields")
    if isinstance(kind, str):
        if _PRIMITIVE.fullmatch(kind):
            return
        if not _SINCE_VERSION_3.fullmatch(kind):
            raise InvalidInput(f"field '{name}' has the unknown type {kind!r}", field="schema.fields.type")
        if version < 3:
            raise InvalidInput(
                f"field '{name}' has type {kind}, which needs format version 3; this table has {version}",
                field="schema.fields.type",
            )
        return
    if not isinstance(kind, dict):
        raise InvalidInput(f"field '{name}' has no type", field="schema.fields.type")
    shape = kind.get("type")
    if shape == "struct":
        yield from _require_struct(kind, version, depth)
        return
    parts = _PARTS.get(shape) if isinstance(shape, str) else None
    if parts is None:
        raise InvalidInput(f"field '{name}' has the unknown type {shape!r}", field="schema.fields.type")
    for part in parts:
        required = kind if part != "key" else {"key-required": True}
        _require_optional_if_unknown(required, f"{part}-required", kind.get(part), f"{name}.{part}")
        yield {"id": id_of(kind, f"{part}-id"), "name": part}
        yield from _require_type(kind.get(part), version, depth + 1, name)


_PARTS = {"list": ("element",), "map": ("key", "value")}


def fields_by_id(schema: Document) -> dict[int, Document]:
    """Every field at every level, including the parts of lists and maps."""
    return {field["id"]: field for field in _walk_struct(schema)}


def _walk_struct(struct: Document) -> Iterator[Document]:
    for field in struct["fields"]:
        yield field
        yield from _walk_type(field["type"])


def _walk_type(kind: Any) -> Iterator[Document]:
    if not isinstance(kind, dict):
        return
    if kind.get("type") == "struct":
        yield from _walk_struct(kind)
    for part in _PARTS.get(kind.get("type", ""), ()):
        yield {"id": kind[f"{part}-id"], "name": part, "type": kind[part]}
        yield from _walk_type(kind[part])


def highest_id(schema: Document) -> int:
    return max(fields_by_id(schema), default=0)


def is_same_schema(one: Document, other: Document) -> bool:
    """Whether two schemas are equal except for their schema ids."""
    identifiers = (set(each.get("identifier-field-ids") or ()) for each in (one, other))
    return _comparable(one["fields"]) == _comparable(other["fields"]) and next(identifiers) == next(identifiers)


def _comparable(part: Any) -> Any:
    """A canonical form: `decimal(9,2)` and `decimal(9, 2)` are equal, and a null value is treated as absent."""
    if isinstance(part, dict):
        return {key: _comparable(value) for key, value in part.items() if value is not None}
    if isinstance(part, list):
        return [_comparable(each) for each in part]
    return part.replace(" ", "") if isinstance(part, str) and part.startswith(("decimal", "fixed")) else part


def with_new_ids(schema: Document) -> tuple[Document, dict[int, int]]:
    """The schema with ids from 1, as every catalog numbers a new table, and a map from old to new ids.

    The fields of a struct are numbered before their nested fields.
    """
    ids, new_ids = count(1), dict[int, int]()

    def fresh(old: int) -> int:
        new_ids[old] = next(ids)
        return new_ids[old]

    def struct(kind: Document) -> Document:
        numbered = [{**field, "id": fresh(field["id"])} for field in kind["fields"]]
        return {**kind, "fields": [{**field, "type": inner(field["type"])} for field in numbered]}

    def inner(kind: Any) -> Any:
        if not isinstance(kind, dict):
            return kind
        if kind.get("type") == "struct":
            return struct(kind)
        parts = _PARTS[kind["type"]]
        numbered = {**kind, **{f"{part}-id": fresh(kind[f"{part}-id"]) for part in parts}}
        return {**numbered, **{part: inner(kind[part]) for part in parts}}

    numbered = {**struct(schema), "type": "struct"}
    if schema.get("identifier-field-ids"):
        numbered["identifier-field-ids"] = [new_ids[id] for id in schema["identifier-field-ids"]]
    return numbered, new_ids


def current_schema(table: Document) -> Document:
    """The current schema of the table."""
    found = next((each for each in table["schemas"] if each["schema-id"] == table.get("current-schema-id")), None)
    if found is None:
        raise InvalidInput("the table has no current schema", field="current-schema-id")
    return document_of({"schema": found}, "schema")
