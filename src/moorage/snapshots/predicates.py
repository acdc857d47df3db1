"""Predicates as data, for skipping files that cannot contain matching rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

Op: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Value: TypeAlias = bool | int | float | Decimal | str | date | datetime
Column: TypeAlias = tuple[str, ...]
"""The path of a column: one name, or several for a field of a struct. Names are case-insensitive."""

_OPPOSITE: dict[Op, Op] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Compare(msgspec.Struct, frozen=True):
    """Compares a column with a value. As in SQL, a comparison with null is unknown."""

    column: Column
    op: Op
    value: Value


class In(msgspec.Struct, frozen=True):
    column: Column
    values: tuple[Value, ...]
    negated: bool = False


class IsNull(msgspec.Struct, frozen=True):
    column: Column
    negated: bool = False


class And(msgspec.Struct, frozen=True):
    parts: tuple[Predicate, ...]


class Or(msgspec.Struct, frozen=True):
    parts: tuple[Predicate, ...]


class Not(msgspec.Struct, frozen=True):
    part: Predicate


Predicate: TypeAlias = Compare | In | IsNull | And | Or | Not


def negation(predicate: Predicate) -> Predicate:
    """Return the predicate that is true where this one is false. As in SQL, unknown stays unknown."""
    match predicate:
        case Compare(column=column, op=op, value=value):
            return Compare(column, _OPPOSITE[op], value)
        case In() | IsNull():
            return replace(predicate, negated=not predicate.negated)
        case And(parts=parts):
            return Or(tuple(negation(part) for part in parts))
        case Or(parts=parts):
            return And(tuple(negation(part) for part in parts))
        case Not(part=part):
            return part


def columns_in(predicate: Predicate) -> Iterator[Column]:
    match predicate:
        case Compare(column=column) | In(column=column) | IsNull(column=column):
            yield column
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from columns_in(part)
        case Not(part=part):
            yield from columns_in(part)
