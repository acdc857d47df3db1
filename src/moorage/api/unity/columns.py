"""Columns as Unity describes them: a type in SQL's words, and the same once more in words for engines."""

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

# The first word of a type in SQL, and what Unity calls it. The first of several words is the one we write.
_WORDS: dict[ColumnTypeName, tuple[str, ...]] = {
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
_NAMES: dict[str, ColumnTypeName] = {word: name for name, words in _WORDS.items() for word in words}
_NEEDS_TEXT = frozenset({"INTERVAL", "ARRAY", "STRUCT", "MAP", "USER_DEFINED_TYPE", "TABLE_TYPE"})

_FIRST_WORD = re.compile(r"\s*(\w+)")
_DECIMAL = re.compile(r"\s*\w+\s*\(\s*(\d{1,3})\s*(?:,\s*(-?\d{1,3})\s*)?\)")
# What must keep its case: quoted names, texts, and the names of a struct's fields.
_WORDS_OF_A_TYPE = re.compile(r"(`(?:``|[^`])*`|'(?:''|[^'])*'|\"[^\"]*\"|\w+(?=\s*:))|(\w+)")


class ColumnInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table or view."""

    name: str | None = None
    type_text: Annotated[str | None, Meta(description="The type in SQL's words: bigint, struct<a:int>.")] = None
    type_json: Annotated[str | None, Meta(description="The column as Spark writes it in JSON.")] = None
    type_name: ColumnTypeName | None = None
    type_precision: Annotated[Int32 | None, Meta(description="Of a decimal; else 0.")] = None
    type_scale: Annotated[Int32 | None, Meta(description="Of a decimal; else 0.")] = None
    type_interval_type: Annotated[str | None, Meta(description="Of an interval: its fields.")] = None
    position: Annotated[Int32 | None, Meta(description="From 0.")] = None
    comment: Text | None = None
    nullable: bool | None = True
    partition_index: Int32 | None = None


class _Type(NamedTuple):
    name: ColumnTypeName
    precision: int
    scale: int
    interval: str | None


_TELLING = 100
"""So much of a type says what it is; that of a deep struct may be a megabyte, too much to remember."""


@lru_cache(maxsize=16_384)
def _type_of(text: str) -> _Type:
    """What a type in SQL's words is called by engines that do not parse them."""
    word = _FIRST_WORD.match(text)
    name = _NAMES.get(word[1].lower(), "USER_DEFINED_TYPE") if word else "USER_DEFINED_TYPE"
    if name == "DECIMAL":
        said = _DECIMAL.match(text)
        return _Type(name, int(said[1]) if said else 10, int(said[2] or 0) if said else 0, None)
    if name == "INTERVAL":
        return _Type(name, 0, 0, text.strip()[len("interval") :].strip() or None)
    return _Type(name, 0, 0, None)


def to_wire(columns: tuple[Column, ...]) -> list[ColumnInfo]:
    """Numbers are always numbers: DuckDB does not attach a catalog with a null among them."""
    return [_column_info(column, position) for position, column in enumerate(columns)]


def _column_info(column: Column, position: int) -> ColumnInfo:
    known = _type_of(column.type_text[:_TELLING])
    return ColumnInfo(
        name=column.name,
        type_text=column.type_text,
        type_json=column.type_json,
        type_name=known.name,
        type_precision=known.precision,
        type_scale=known.scale,
        type_interval_type=known.interval,
        position=position,
        comment=column.comment,
        nullable=column.nullable,
        partition_index=column.partition_index,
    )


def from_wire(columns: list[ColumnInfo] | None) -> tuple[Column, ...]:
    """The columns of a request in the order of their positions; InvalidInput names the field."""
    given = columns or []
    taken: dict[str, int] = {}
    found = []
    for index, column in enumerate(given):
        at = f"columns[{index}]"
        name = require_name(column.name or "", f"{at}.name")
        if taken.setdefault(name_key(name), index) != index:
            raise InvalidInput(f"{at}.name: there is another column called {name!r}", field=f"{at}.name")
        found.append(_column(column, name, at))
    if all(column.position is not None for column in given):
        order = sorted(range(len(given)), key=lambda index: given[index].position or 0)
        found = [found[index] for index in order]
    return tuple(found)


def _column(column: ColumnInfo, name: str, at: str) -> Column:
    if column.partition_index is not None and column.partition_index < 0:
        raise InvalidInput(f"{at}.partition_index is negative", field=f"{at}.partition_index")
    return Column(
        name=name,
        type_text=_text_of(column, at),
        type_json=column.type_json,
        nullable=column.nullable is not False,
        comment=column.comment,
        partition_index=column.partition_index,
    )


def _text_of(column: ColumnInfo, at: str) -> str:
    """The type in SQL's words, which is what Spark and DuckDB read; the other fields may not contradict it."""
    if not column.type_text:
        if column.type_name is None or column.type_name in _NEEDS_TEXT:
            raise InvalidInput(f"{at}.type_text: it is missing", field=f"{at}.type_text")
        word = _WORDS[column.type_name][0]
        if column.type_name != "DECIMAL" or column.type_precision is None:
            return word
        return f"decimal({column.type_precision},{column.type_scale or 0})"
    text = _WORDS_OF_A_TYPE.sub(lambda word: word[1] or word[2].lower(), column.type_text.strip())
    meant = _type_of(text).name
    if column.type_name not in (None, meant) and {column.type_name, meant} != {"STRING", "CHAR"}:
        raise InvalidInput(
            f"{at}.type_name: {column.type_name} contradicts type_text, where '{text}' is {meant}",
            field=f"{at}.type_name",
        )
    return text
