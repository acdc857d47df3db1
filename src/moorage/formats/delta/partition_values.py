"""Partition values in a log are texts, and one value may be written in several ways.

Spark writes the values of the files that it rewrites in its own way: a time in UTC, a null for an empty text. Readers
in another time zone would read another value. So a rewritten file gets the texts that its rows had before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from moorage.formats.delta.file_actions import Texts
from moorage.formats.delta.schema import DataType, Primitive, Schema
from moorage.formats.delta.schema import Decimal as DecimalType

_TIMES: Final = ("timestamp", "timestamp_ntz")
_NUMBERS: Final = ("decimal", "byte", "short", "integer", "long", "float", "double")


def original_values(
    known: Iterable[Texts], schema: Schema, partition_columns: tuple[str, ...]
) -> Callable[[Texts], Texts]:
    """A function from values as Spark writes them to the same values as the rewritten files had them."""
    types = types_of(schema, partition_columns)
    texts = {normal(values, types): values for values in known}
    return lambda written: texts.get(normal(written, types), written)


def normal(values: Texts, types: Mapping[str, str]) -> Hashable:
    """Equal for two spellings of the same values."""
    return frozenset((name, _normal(text, types.get(name, "string"))) for name, text in values.items())


def types_of(schema: Schema, partition_columns: tuple[str, ...]) -> dict[str, str]:
    """The types of the partition columns, by the physical names under which logs write their values."""
    chosen = (field for field in schema.fields if field.name in partition_columns)
    return {field.physical_name: _type_name(field.type) for field in chosen}


def _type_name(of: DataType) -> str:
    return of.name if isinstance(of, Primitive) else "decimal" if isinstance(of, DecimalType) else "other"


def _normal(text: str | None, kind: str) -> Hashable:
    if text is None or text == "":  # an empty text is a null in every partition
        return None
    if kind in _TIMES:
        return _attempt(_time, text)
    if kind in _NUMBERS:
        return _attempt(Decimal, text)
    if kind == "boolean":
        return text.lower()
    return text


def _time(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _attempt(parse: Callable[[str], Hashable], text: str) -> Hashable:
    try:
        return parse(text)
    except (ValueError, InvalidOperation):
        return text
