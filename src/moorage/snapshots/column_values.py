"""Values of columns as logs and readers write them, brought into types that compare.

Nothing here raises for a value that it does not understand: such a value says nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta import schema

_INSTANT = pa.timestamp("us", "UTC")
_WALL_CLOCK = pa.timestamp("us")
_MILLISECOND: Final = timedelta(microseconds=999)
_EAST, _WEST = timedelta(hours=14), timedelta(hours=12)


class ColumnType(NamedTuple):
    """How the bounds of a column are kept, and how its statistics write them."""

    name: str
    arrow: pa.DataType
    json: pa.DataType


_TYPES: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), ColumnType("integer", pa.int64(), pa.int64())),
    "float": ColumnType("float", pa.float64(), pa.float64()),
    "double": ColumnType("double", pa.float64(), pa.float64()),
    "boolean": ColumnType("boolean", pa.int64(), pa.bool_()),
    "string": ColumnType("string", pa.string(), pa.string()),
    "date": ColumnType("date", pa.date32(), pa.string()),
    "timestamp": ColumnType("timestamp", _INSTANT, _INSTANT),
    "timestamp_ntz": ColumnType("timestamp_ntz", _WALL_CLOCK, _WALL_CLOCK),
}


def column_type(data_type: schema.DataType) -> ColumnType | None:
    """None for types whose values have no order that a log could state."""
    match data_type:
        case schema.Primitive(name=name):
            return _TYPES.get(name)
        case schema.Decimal(precision=precision, scale=scale) if precision:
            exact = pa.decimal128(precision, scale)
            return ColumnType("decimal", exact, exact)
    return None


def scalar_of(value: object, kind: ColumnType) -> pa.Scalar | None:
    """A reader's value as one of the column's; None if the two do not compare without doubt."""
    plain = _literal(value, kind.name)
    try:
        return None if plain is None else pa.scalar(plain) if kind.name == "decimal" else pa.scalar(plain, kind.arrow)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None


def _literal(value: object, name: str) -> object:
    match value:
        case bool():
            return int(value) if name == "boolean" else None
        case int() | float() | Decimal() if name in ("float", "double"):
            return _finite(value)
        case int() if name in ("integer", "decimal"):
            return Decimal(value) if name == "decimal" else value
        case Decimal() if name == "decimal":
            return value if value.is_finite() else None
        case str():
            return value if name == "string" else None
        case datetime():
            return value if name == ("timestamp_ntz" if value.tzinfo is None else "timestamp") else None
        case date():
            return value if name == "date" else None
    return None


# --- from statistics -------------------------------------------------------------------------------


def from_json(array: pa.ChunkedArray, kind: ColumnType) -> pa.ChunkedArray:
    """What the JSON reader made of a statistic, in the column's type. Raises as Arrow does."""
    # A float is written by its shortest decimals, which are not the float: only rounding gives it back.
    return array.cast(pa.float32()).cast(kind.arrow) if kind.name == "float" else array.cast(kind.arrow)


def from_json_value(value: object, kind: ColumnType) -> object:
    """One statistic, however it is written; None where it says nothing, as "NaN" does."""
    match value:
        case None:
            return None
        case bool():
            return int(value) if kind.name == "boolean" else None
        case int() | Decimal():
            return _number(value, kind)
        case str() if kind.name not in ("integer", "float", "double", "boolean"):
            return _from_text(value, kind)
    return None


def widened(upper: pa.ChunkedArray, kind: ColumnType) -> pa.ChunkedArray:
    """Writers cut timestamps to milliseconds, so the greatest value may lie just above what they state."""
    return pc.add(upper, pa.scalar(_MILLISECOND, pa.duration("us"))) if pa.types.is_timestamp(kind.arrow) else upper


# --- from partition values -------------------------------------------------------------------------


def from_partition_text(text: str, kind: ColumnType) -> tuple[object, object]:
    """Between which two values a partition value lies: mostly it is both."""
    if kind.name == "timestamp":
        at = _from_iso(datetime, text)
        if at is not None and at.tzinfo is None:
            # In the zone of whoever wrote it, which nobody recorded.
            return at.replace(tzinfo=UTC) - _EAST, at.replace(tzinfo=UTC) + _WEST
    value = _from_text(text, kind)
    return value, value


def _from_text(text: str, kind: ColumnType) -> object:
    match kind.name:
        case "string":
            return text
        case "boolean":
            return {"true": 1, "false": 0}.get(text.lower())
        case "date":
            return _from_iso(date, text)
        case "timestamp":
            at = _from_iso(datetime, text)
            return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)
        case "timestamp_ntz":
            at = _from_iso(datetime, text)
            return None if at is None else at.replace(tzinfo=None)
    try:
        return _number(Decimal(text), kind)
    except InvalidOperation:
        return None


def _from_iso(kind: type[Any], text: str) -> Any:
    parse: Callable[[str], Any] = kind.fromisoformat
    try:
        return parse(text)
    except ValueError:
        return None


def _number(value: int | Decimal, kind: ColumnType) -> object:
    match kind.name:
        case "integer":
            return int(value) if value == int(value) and -(2**63) <= value < 2**63 else None
        case "double":
            return _finite(value)
        case "float":
            return _rounded(value)
        case "decimal":
            try:
                return pa.scalar(Decimal(value), kind.arrow).as_py()
            except (pa.ArrowException, OverflowError):
                return None
    return None


def _finite(value: float | Decimal) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _rounded(value: int | Decimal) -> float | None:
    try:
        (number,) = struct.unpack("f", struct.pack("f", float(value)))
    except OverflowError:
        return None
    return _finite(number)
