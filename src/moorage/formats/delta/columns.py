"""Columns as the catalog and Unity describe them, and their comparison with a Delta schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.securables import Column
from moorage.formats.delta.ddl import parse_type_text, type_text
from moorage.formats.delta.schema import (
    PRIMITIVES,
    Array,
    DataType,
    Field,
    Map,
    Primitive,
    Schema,
    field_text,
    parse_field,
    parse_type,
)

_FROM_UNITY: Final = {name.upper(): name for name in PRIMITIVES - {"integer"}} | {"INT": "integer", "NULL": "void"}
"""Delta's names for the types that Unity identifies by name alone."""


class ColumnInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column as a request states it: Unity's ColumnInfo, or the specification's {name, type, nullable}."""

    name: str | None = None
    type: Any = None
    type_text: str | None = None
    type_json: str | None = None
    type_name: str | None = None
    type_precision: int | None = None
    type_scale: int | None = None
    position: int | None = None
    nullable: bool | None = None
    comment: str | None = None
    partition_index: int | None = None


def to_columns(schema: Schema, partition_columns: Sequence[str] = ()) -> tuple[Column, ...]:
    """The catalog's columns for a table with this schema."""
    index = {name.lower(): at for at, name in enumerate(partition_columns)}
    return tuple(
        Column(
            name=field.name,
            type_text=type_text(field.type),
            type_json=field_text(field),
            nullable=field.nullable,
            comment=field.comment,
            partition_index=index.get(field.name.lower()),
        )
        for field in schema.fields
    )


def require_partition_columns(schema: Schema, names: Sequence[str], *, field: str = "partition-columns") -> None:
    """Require that every partition column exists and is named only once."""
    seen: set[str] = set()
    for name in names:
        if schema.field(name) is None:
            raise InvalidInput(f"{field} names {name!r}, which is not a column of the table", field=field)
        if name.lower() in seen:
            raise InvalidInput(f"{field} names {name!r} twice", field=field)
        seen.add(name.lower())


def to_field(column: ColumnInfo, *, path: str) -> Field:
    """The column of a request as a Delta field, from whichever type description it contains."""
    if not column.name or not column.name.strip():
        raise InvalidInput(f"{path}.name is required", field=f"{path}.name")
    if column.type_json:
        return _from_type_json(column, column.type_json, column.name, path)
    metadata = {"comment": column.comment} if column.comment is not None else {}
    return Field(column.name, _stated_type(column, path), column.nullable is not False, metadata)


def _from_type_json(column: ColumnInfo, text: str, name: str, path: str) -> Field:
    """Accept the complete field, and the bare type that older clients send instead."""
    where = f"{path}.type_json"
    if not text.lstrip().startswith("{"):
        bare = text.strip().strip('"')
        return Field(name, parse_type(bare, path=where), column.nullable is not False)
    try:
        field = parse_field(text, path=where)
    except InvalidInput as error:
        if error.field != f"{where}.name":
            raise
        return Field(name, parse_type(msgspec.json.decode(text), path=where), column.nullable is not False)
    if field.name != name:
        raise InvalidInput(f"{where} describes {field.name!r}, but the column is {name!r}", field=where)
    if column.nullable is not None and field.nullable != column.nullable:
        raise InvalidInput(f"{where} and {path}.nullable contradict each other", field=f"{path}.nullable")
    return field


def _stated_type(column: ColumnInfo, path: str) -> DataType:
    if column.type is not None:
        where = f"{path}.type"
        return (
            parse_type_text(column.type, path=where)
            if isinstance(column.type, str)
            else parse_type(column.type, path=where)
        )
    if column.type_text:
        return parse_type_text(column.type_text, path=f"{path}.type_text")
    if column.type_name == "DECIMAL":
        return parse_type(f"decimal({column.type_precision or 10},{column.type_scale or 0})", path=f"{path}.type_name")
    if column.type_name in _FROM_UNITY:
        return Primitive(_FROM_UNITY[column.type_name])
    raise InvalidInput(f"{path} has no type_json, type_text or simple type_name", field=f"{path}.type_text")


def first_difference(columns: Sequence[ColumnInfo], schema: Schema, *, path: str = "columns") -> str | None:
    """A description of the first difference between a request's columns and the file's schema; None if they agree.

    Field metadata is not compared: requests do not carry the ids and physical names of mapped columns.
    """
    for at, column in enumerate(in_order(columns)):
        stated = to_field(column, path=f"{path}[{at}]")
        if at >= len(schema.fields):
            return f"{path}[{at}] ({stated.name}) is not a column of the file"
        actual = schema.fields[at]
        if difference := field_difference(stated, actual, compare_nulls=column.nullable is not None):
            return f"{path}[{at}] {difference}"
    if len(columns) < len(schema.fields):
        return f"{path} lacks {schema.fields[len(columns)].name!r}, which the file has"
    return None


def schema_difference(stated: Schema, actual: Schema, *, path: str = "columns") -> str | None:
    """Like first_difference, for a request that contains a complete Delta schema."""
    for at, (ours, theirs) in enumerate(zip(stated.fields, actual.fields, strict=False)):
        if difference := field_difference(ours, theirs, compare_nulls=True):
            return f"{path}.fields[{at}] {difference}"
    if len(stated.fields) != len(actual.fields):
        return f"{path} has {len(stated.fields)} fields, the file has {len(actual.fields)}"
    return None


def in_order(columns: Sequence[ColumnInfo]) -> list[ColumnInfo]:
    """The columns sorted by position, if every column states one."""
    positions = [column.position for column in columns]
    if None in positions:
        return list(columns)
    return sorted(columns, key=lambda column: column.position or 0)


def field_difference(stated: Field, actual: Field, *, compare_nulls: bool) -> str | None:
    if stated.name != actual.name:
        return f"is {stated.name!r}, but in the file it is {actual.name!r}"
    if not same_type(stated.type, actual.type):
        return f"({stated.name}) is {type_text(stated.type)}, but in the file it is {type_text(actual.type)}"
    if compare_nulls and stated.nullable != actual.nullable:
        return f"({stated.name}) is {_nullability(stated)}, but in the file it is {_nullability(actual)}"
    return None


def _nullability(field: Field) -> str:
    return "nullable" if field.nullable else "not nullable"


def same_type(stated: DataType, actual: DataType) -> bool:
    """Whether both are the same type. Nullability inside arrays and maps is not compared: SQL cannot express it.

    Delta stores char(n) and varchar(n) as strings, while a CREATE statement still states the limit.
    """
    match stated, actual:
        case Primitive(name=one), Primitive(name=two):
            return one == two or (two == "string" and one.startswith(("char(", "varchar(")))
        case Array(), Array():
            return same_type(stated.element, actual.element)
        case Map(), Map():
            return same_type(stated.key, actual.key) and same_type(stated.value, actual.value)
        case Schema(), Schema():
            pairs = zip(stated.fields, actual.fields, strict=False)
            return len(stated.fields) == len(actual.fields) and all(
                one.name == two.name and same_type(one.type, two.type) for one, two in pairs
            )
    return stated == actual
