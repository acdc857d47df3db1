"""Columns as Unity describes them: the type as SQL text, and again as a name for engines that do not parse SQL."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from moorage.api.unity.shapes import Int32, Text
from moorage.core.errors import InvalidInput
from moorage.core.names import name_key, require_name
from moorage.core.securables import Column
from moorage.formats.delta.ddl import parse_type_text
from moorage.formats.delta.schema import Field, field_text

ColumnTypeName = Literal[
    "BOOLEAN",
    "BYTE",
    "SHORT",
    "INT",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "STRING",
    "BINARY",
    "DECIMAL",
    "INTERVAL",
    "ARRAY",
    "STRUCT",
    "MAP",
    "VARIANT",
    "CHAR",
    "NULL",
    "USER_DEFINED_TYPE",
    "TABLE_TYPE",
]

# SQL type names by Unity's type name. If there are several, the first is the one that the catalog writes.
_SQL_NAMES: dict[ColumnTypeName, tuple[str, ...]] = {
    "BOOLEAN": ("boolean", "bool"),
    "BYTE": ("tinyint", "byte"),
    "SHORT": ("smallint", "short"),
    "INT": ("int", "integer"),
    "LONG": ("bigint", "long"),
    "FLOAT": ("float", "real"),
    "DOUBLE": ("double",),
    "DATE": ("date",),
    "TIMESTAMP": ("timestamp", "timestamp_ltz"),
    "TIMESTAMP_NTZ": ("timestamp_ntz",),
    "STRING": ("string", "varchar"),
    "BINARY": ("binary",),
    "DECIMAL": ("decimal", "dec", "numeric"),
    "INTERVAL": ("interval",),
    "ARRAY": ("array",),
    "STRUCT": ("struct",),
    "MAP": ("map",),
    "VARIANT": ("variant",),
    "CHAR": ("char", "character"),
    "NULL": ("void", "null"),
}
_TYPE_NAMES: dict[str, ColumnTypeName] = {word: name for name, words in _SQL_NAMES.items() for word in words}
_NEEDS_TEXT = frozenset({"INTERVAL", "ARRAY", "STRUCT", "MAP", "USER_DEFINED_TYPE", "TABLE_TYPE"})

_FIRST_WORD = re.compile(r"\s*(\w+)")
_DECIMAL = re.compile(r"\s*\w+\s*\(\s*(\d{1,3})\s*(?:,\s*(-?\d{1,3})\s*)?\)")
# The first group keeps its case: quoted names, strings, and the field names of a struct.
_TYPE_TOKENS = re.compile(r"(`(?:``|[^`])*`|'(?:''|[^'])*'|\"[^\"]*\"|\w+(?=\s*:))|(\w+)")


class ColumnInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table or view."""

    name: str | None = None
    type_text: Annotated[str | None, Meta(description="The type in SQL: bigint, struct<a:int>.")] = None
    type_json: Annotated[str | None, Meta(description="The column in Spark's JSON format.")] = None
    type_name: ColumnTypeName | None = None
    type_precision: Annotated[Int32 | None, Meta(description="The precision of a decimal, otherwise 0.")] = None
    type_scale: Annotated[Int32 | None, Meta(description="The scale of a decimal, otherwise 0.")] = None
    type_interval_type: Annotated[str | None, Meta(description="The fields of an interval.")] = None
    position: Annotated[Int32 | None, Meta(description="The position, starting at 0.")] = None
    comment: Text | None = None
    nullable: bool | None = True
    partition_index: Int32 | None = None


class _StructField(msgspec.Struct, frozen=True):
    name: str
    type: str
    nullable: bool
    metadata: dict[str, str]


class _Type(NamedTuple):
    name: ColumnTypeName
    precision: int
    scale: int
    interval: str | None


_TYPE_PREFIX_LENGTH = 100
"""This many characters identify a type. The text of a deep struct can be a megabyte, too large for the cache."""


@lru_cache(maxsize=16_384)
def _parse_type(text: str) -> _Type:
    """Unity's name and parameters of a SQL type."""
    word = _FIRST_WORD.match(text)
    name = _TYPE_NAMES.get(word[1].lower(), "USER_DEFINED_TYPE") if word else "USER_DEFINED_TYPE"
    if name == "DECIMAL":
        given = _DECIMAL.match(text)
        return _Type(name, int(given[1]) if given else 10, int(given[2] or 0) if given else 0, None)
    if name == "INTERVAL":
        return _Type(name, 0, 0, text.strip()[len("interval") :].strip() or None)
    return _Type(name, 0, 0, None)


def to_wire(columns: tuple[Column, ...]) -> list[ColumnInfo]:
    """The columns on the wire. Number fields are never null: DuckDB cannot attach a catalog with a null in them."""
    return [_column_info(column, position) for position, column in enumerate(columns)]


def _column_info(column: Column, position: int) -> ColumnInfo:
    parsed = _parse_type(column.type_text[:_TYPE_PREFIX_LENGTH])
    return ColumnInfo(
        name=column.name,
        type_text=column.type_text,
        type_json=_type_json(column),
        type_name=parsed.name,
        type_precision=parsed.precision,
        type_scale=parsed.scale,
        type_interval_type=parsed.interval,
        position=position,
        comment=column.comment,
        nullable=column.nullable,
        partition_index=column.partition_index,
    )


def _type_json(column: Column) -> str:
    """The column as Spark's StructField. Never null: Polars cannot decode a page of tables with a null in it.

    A request may have contained none, and an Iceberg table stores the type in Iceberg's notation.
    """
    if column.type_json is not None and column.type_json.lstrip().startswith("{") and '"nullable"' in column.type_json:
        return column.type_json
    metadata = {} if column.comment is None else {"comment": column.comment}
    try:
        field = Field(column.name, parse_type_text(column.type_text), column.nullable, metadata)
    except InvalidInput:  # a type that only its own format knows, such as Lance's vectors
        return msgspec.json.encode(_StructField(column.name, column.type_text, column.nullable, metadata)).decode()
    return field_text(field)


def from_wire(columns: list[ColumnInfo] | None) -> tuple[Column, ...]:
    """The columns of a request, ordered by position. InvalidInput names the invalid field."""
    given = columns or []
    indexes: dict[str, int] = {}
    found = []
    for index, column in enumerate(given):
        at = f"columns[{index}]"
        name = require_name(column.name or "", f"{at}.name")
        if indexes.setdefault(name_key(name), index) != index:
            raise InvalidInput(f"{at}.name: another column has the name {name!r}", field=f"{at}.name")
        found.append(_column(column, name, at))
    if all(column.position is not None for column in given):
        order = sorted(range(len(given)), key=lambda index: given[index].position or 0)
        found = [found[index] for index in order]
    return tuple(found)


def _column(column: ColumnInfo, name: str, at: str) -> Column:
    if column.partition_index is not None and column.partition_index < 0:
        raise InvalidInput(f"{at}.partition_index is negative; it must be 0 or more", field=f"{at}.partition_index")
    return Column(
        name=name,
        type_text=_text_of(column, at),
        type_json=column.type_json,
        nullable=column.nullable is not False,
        comment=column.comment,
        partition_index=column.partition_index,
    )


def _text_of(column: ColumnInfo, at: str) -> str:
    """The type in SQL, which Spark and DuckDB read. The other fields must not contradict it."""
    if not column.type_text:
        if column.type_name is None or column.type_name in _NEEDS_TEXT:
            raise InvalidInput(f"{at}.type_text is required", field=f"{at}.type_text")
        word = _SQL_NAMES[column.type_name][0]
        if column.type_name != "DECIMAL" or column.type_precision is None:
            return word
        return f"decimal({column.type_precision},{column.type_scale or 0})"
    text = _TYPE_TOKENS.sub(lambda word: word[1] or word[2].lower(), column.type_text.strip())
    type_name = _parse_type(text).name
    if column.type_name not in (None, type_name) and {column.type_name, type_name} != {"STRING", "CHAR"}:
        raise InvalidInput(
            f"{at}.type_name {column.type_name} contradicts type_text '{text}', which is {type_name}",
            field=f"{at}.type_name",
        )
    return text
