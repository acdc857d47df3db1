"""The catalog's functions as Iceberg function metadata."""

from __future__ import annotations

from typing import Any

from moorage.core.errors import InvalidInput
from moorage.formats.delta.ddl import parse_type_text
from moorage.formats.delta.schema import Array, DataType, Decimal, Map, Primitive, Schema
from moorage.formats.iceberg.documents import Document

_TYPE_NAMES = {
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
_DIALECT = "spark"
_TABLE = "TABLE_TYPE"
_FIRST_VERSION = 1


def function_metadata(uuid: str, routine: Document, *, comment: str | None, at_ms: int) -> Document | None:
    """A function as portable metadata; None if it is not in SQL or uses a type that Iceberg lacks."""
    if routine["routine_body"] != "SQL":
        return None
    try:
        definition = _definition(routine, at_ms)
    except (InvalidInput, KeyError):
        return None
    chosen = {"definition-id": definition["definition-id"], "version-id": _FIRST_VERSION}
    found = {
        "function-uuid": uuid,
        "format-version": 1,
        "definitions": [definition],
        "definition-log": [{"timestamp-ms": at_ms, "definition-versions": [chosen]}],
    }
    return found if comment is None else {**found, "doc": comment}


def _definition(routine: Document, at_ms: int) -> Document:
    parameters = [_parameter(raw) for raw in _parameters(routine, "input_params")]
    is_table = routine["data_type"] == _TABLE
    version = {
        "version-id": _FIRST_VERSION,
        "representations": [{"type": "sql", "dialect": _DIALECT, "sql": routine["routine_definition"]}],
        "deterministic": routine["is_deterministic"],
        "on-null-input": "call" if routine["is_null_call"] else "return-null",
        "timestamp-ms": at_ms,
    }
    return {
        "definition-id": ",".join(_signature(parameter["type"]) for parameter in parameters),
        "specific-name": routine["specific_name"],
        "parameters": parameters,
        "return-type": _columns(routine) if is_table else _type(parse_type_text(routine["full_data_type"])),
        "versions": [version],
        "current-version-id": _FIRST_VERSION,
        "function-type": "udtf" if is_table else "udf",
    }


def _parameters(routine: Document, part: str) -> list[Document]:
    return (routine.get(part) or {}).get("parameters") or []


def _parameter(raw: Document) -> Document:
    found = {"name": raw["name"], "type": _type(parse_type_text(raw["type_text"]))}
    return found if raw.get("comment") is None else {**found, "doc": raw["comment"]}


def _columns(routine: Document) -> Document:
    columns = [_parameter(raw) for raw in _parameters(routine, "return_params")]
    return {"type": "struct", "fields": [{"name": each["name"], "type": each["type"]} for each in columns]}


def _type(kind: DataType) -> Any:
    """The Iceberg type. Raises KeyError if Iceberg has no such type."""
    match kind:
        case Primitive(name=name):
            return _TYPE_NAMES[name]
        case Decimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case Array(element=element):
            return {"type": "list", "element": _type(element)}
        case Map(key=key, value=value):
            return {"type": "map", "key": _type(key), "value": _type(value)}
        case Schema(fields=fields):
            return {"type": "struct", "fields": [{"name": field.name, "type": _type(field.type)} for field in fields]}


def _signature(kind: Any) -> str:
    """The canonical text of a type. Definition ids are made of these."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "list":
            return f"list<{_signature(kind['element'])}>"
        case "map":
            return f"map<{_signature(kind['key'])},{_signature(kind['value'])}>"
    inner = (f"{field['name']}:{_signature(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(inner)}>"
