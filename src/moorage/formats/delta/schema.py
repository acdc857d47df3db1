"""Delta schemas: read from a table's log or from a request, and written in either spelling.

The log spells `elementType`, `/delta/v1` spells `element-type`; otherwise the two are the same. A schema in a
request is checked strictly, and every error names its path (`columns.fields[1].type`). A schema in a log is
accepted as far as it can be parsed, because newer writers use types that this catalog does not know.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec

from moorage.core.errors import InvalidInput

DEEPEST: Final = 64
"""Levels of nesting. Real schemas have a few. Without a limit, a hostile schema would exhaust the stack."""

PRIMITIVES: Final = frozenset(
    (
        *("boolean", "byte", "short", "integer", "long", "float", "double"),
        *("string", "binary", "variant", "date", "timestamp", "timestamp_ntz"),
    )
)
_DECIMAL = re.compile(r"decimal\(\s*(-?\d{1,3})\s*,\s*(-?\d{1,3})\s*\)")
_NAMED_TYPE = re.compile(r"[a-z][a-z0-9_ ]*(\([^()]*\))?")


class Primitive(msgspec.Struct, frozen=True):
    """A type that is only a name, as Delta writes it: `long`, `string`, also `varchar(9)`."""

    name: str


class Decimal(msgspec.Struct, frozen=True):
    precision: int
    scale: int


class Array(msgspec.Struct, frozen=True):
    element: DataType
    contains_null: bool


class Map(msgspec.Struct, frozen=True):
    key: DataType
    value: DataType
    value_contains_null: bool


class Field(msgspec.Struct, frozen=True):
    """One column, or one field of a struct."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: dict[str, Any] = {}

    @property
    def comment(self) -> str | None:
        comment = self.metadata.get("comment")
        return comment if isinstance(comment, str) else None

    @property
    def physical_name(self) -> str:
        """The name in data files, statistics and clustering. It differs from `name` if columns are mapped."""
        name = self.metadata.get("delta.columnMapping.physicalName")
        return name if isinstance(name, str) else self.name

    @property
    def is_collated(self) -> bool:
        """Whether readers compare its texts by other rules than the bytes, for example without regard to case."""
        return any("collation" in key.lower() for key in self.metadata)


class Schema(msgspec.Struct, frozen=True):
    """A struct: the columns of a table, or the fields of one column."""

    fields: tuple[Field, ...] = ()

    def field(self, name: str) -> Field | None:
        """The field with this name. Delta compares names without regard to case."""
        return next((field for field in self.fields if field.name.lower() == name.lower()), None)


DataType: TypeAlias = Primitive | Decimal | Array | Map | Schema


class Spelling(msgspec.Struct, frozen=True):
    """How one document names the parts of arrays and maps, and whether it may omit parts."""

    element: str
    contains_null: str
    key: str
    value: str
    value_contains_null: str
    strict: bool


LOG: Final = Spelling("elementType", "containsNull", "keyType", "valueType", "valueContainsNull", strict=False)
WIRE: Final = Spelling("element-type", "contains-null", "key-type", "value-type", "value-contains-null", strict=True)


def parse_schema(text: str) -> Schema:
    """The schema of a metaData action, which is a JSON document inside a JSON string."""
    document = _decoded(text, "schemaString")
    if not isinstance(document, dict) or document.get("type") != "struct":
        raise InvalidInput("the schemaString of metaData must be a struct", field="schemaString")
    return _Reader(LOG).struct(document, "schemaString", 0)


def parse_wire_schema(document: object, *, path: str = "columns") -> Schema:
    """The schema of a `/delta/v1` request."""
    if document is None:
        raise _missing(path)
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} must be a struct", field=path)
    if document.get("type", "struct") != "struct":
        raise InvalidInput(f"{path}.type must be 'struct'", field=f"{path}.type")
    return _Reader(WIRE).struct(document, path, 0)


def parse_field(text: str, *, path: str = "type_json") -> Field:
    """One StructField as JSON, the form in which Unity stores a column."""
    return _Reader(LOG).field(_decoded(text, path), path, 0)


def parse_type(document: object, *, path: str) -> DataType:
    """A type in the log's spelling: a name, or an array, map or struct."""
    return _Reader(LOG).type(document, path, 0)


def field_text(field: Field) -> str:
    """The complete StructField as JSON: Unity's `type_json`."""
    return msgspec.json.encode(_field_document(field, LOG)).decode()


def to_document(data_type: DataType, spelling: Spelling) -> Any:
    """The type as plain JSON values in the given spelling."""
    match data_type:
        case Primitive(name=name):
            return name
        case Decimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case Array(element=element, contains_null=nulls):
            return {"type": "array", spelling.element: to_document(element, spelling), spelling.contains_null: nulls}
        case Map(key=key, value=value, value_contains_null=nulls):
            return {
                "type": "map",
                spelling.key: to_document(key, spelling),
                spelling.value: to_document(value, spelling),
                spelling.value_contains_null: nulls,
            }
        case Schema(fields=fields):
            return {"type": "struct", "fields": [_field_document(field, spelling) for field in fields]}


def _field_document(field: Field, spelling: Spelling) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": to_document(field.type, spelling),
        "nullable": field.nullable,
        "metadata": field.metadata,
    }


def _decoded(text: str, path: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON: {error}", field=path) from None


def _missing(path: str) -> InvalidInput:
    return InvalidInput(f"{path} is required", field=path)


class _Reader:
    """Walks one document. Every error names the path at which it occurred."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.strict = spelling.strict

    def struct(self, document: dict[str, Any], path: str, depth: int) -> Schema:
        path = f"{path}.fields"
        items = document.get("fields")
        if items is None:
            raise _missing(path)
        if not isinstance(items, list):
            raise InvalidInput(f"{path} must be a list", field=path)
        if self.strict and not items:
            raise InvalidInput(f"{path} must contain at least one field", field=path)
        fields = tuple(self.field(item, f"{path}[{at}]", depth) for at, item in enumerate(items))
        self._require_distinct(fields, path)
        return Schema(fields)

    def field(self, document: object, path: str, depth: int) -> Field:
        if not isinstance(document, dict):
            raise InvalidInput(f"{path} must be an object", field=path)
        name = document.get("name")
        if not isinstance(name, str) or not name.strip():
            raise _missing(f"{path}.name")
        data_type = self.type(document.get("type"), f"{path}.type", depth)
        nullable = self._flag(document, "nullable", path)
        metadata = document.get("metadata")
        if metadata is None and not self.strict:
            metadata = {}
        if metadata is None:
            raise _missing(f"{path}.metadata")
        if not isinstance(metadata, dict):
            raise InvalidInput(f"{path}.metadata must be an object", field=f"{path}.metadata")
        return Field(name, data_type, nullable, metadata)

    def type(self, document: object, path: str, depth: int) -> DataType:
        if depth > DEEPEST:
            raise InvalidInput(f"{path} is nested more than {DEEPEST} levels deep", field=path)
        if document is None:
            raise _missing(path)
        if isinstance(document, str):
            return self._named(document, path)
        if isinstance(document, dict):
            return self._nested(document, path, depth + 1)
        raise InvalidInput(f"{path} must be the name of a type, or a struct, array or map", field=path)

    def _nested(self, document: dict[str, Any], path: str, depth: int) -> DataType:
        # Delta's Rust kernel sends the spelling of the log to `/delta/v1`.
        spelling = LOG if LOG.element in document or LOG.key in document else self.spelling
        match document.get("type"):
            case "struct":
                return self.struct(document, path, depth)
            case "array":
                element = self.type(document.get(spelling.element), f"{path}.{spelling.element}", depth)
                return Array(element, self._flag(document, spelling.contains_null, path))
            case "map":
                key = self.type(document.get(spelling.key), f"{path}.{spelling.key}", depth)
                value = self.type(document.get(spelling.value), f"{path}.{spelling.value}", depth)
                return Map(key, value, self._flag(document, spelling.value_contains_null, path))
        raise InvalidInput(f"{path}.type must be struct, array or map", field=f"{path}.type")

    def _named(self, name: str, path: str) -> DataType:
        if found := _DECIMAL.fullmatch(name):
            return self._decimal(int(found[1]), int(found[2]), path)
        if name == "decimal" and not self.strict:
            return Decimal(10, 0)
        known = name in PRIMITIVES if self.strict else _NAMED_TYPE.fullmatch(name)
        if not known:
            raise InvalidInput(f"{path}: Delta has no column type {name!r}", field=path)
        return Primitive(name)

    @staticmethod
    def _decimal(precision: int, scale: int, path: str) -> Decimal:
        if not 0 <= precision <= 38:
            raise InvalidInput(f"{path}.precision must be in [0, 38], got {precision}", field=f"{path}.precision")
        if not 0 <= scale <= precision:
            raise InvalidInput(f"{path}.scale must be in [0, {precision}], got {scale}", field=f"{path}.scale")
        return Decimal(precision, scale)

    def _flag(self, document: dict[str, Any], key: str, path: str) -> bool:
        value = document.get(key)
        if value is None and not self.strict:
            return True
        if value is None:
            raise _missing(f"{path}.{key}")
        if not isinstance(value, bool):
            raise InvalidInput(f"{path}.{key} must be true or false", field=f"{path}.{key}")
        return value

    @staticmethod
    def _require_distinct(fields: tuple[Field, ...], path: str) -> None:
        seen: set[str] = set()
        for at, field in enumerate(fields):
            if field.name.lower() in seen:
                where = f"{path}[{at}]"
                raise InvalidInput(f"{where}: the name {field.name!r} is a duplicate when case is ignored", field=where)
            seen.add(field.name.lower())
