"""Conversion of column values, as logs and readers write them, into types that can be compared.

Nothing here raises for a value that it cannot parse: such a value is treated as unknown.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta import schema

_INSTANT = pa.timestamp("us", "UTC")
_LOCAL_TIME = pa.timestamp("us")
_CUT_OFF: Final = timedelta(microseconds=999)
_EXACT_DIGITS: Final = 15
_MOST_DIGITS_OF_A_DOUBLE: Final = 17
_MARGIN: Final = Decimal(2) ** -51
"""How far a value may be from the text of its double: each of the conversions in between rounds once."""
_INT64: Final = frozenset((Decimal(2**63 - 1), Decimal(-(2**63))))
_CONTEXT: Final = Context(prec=80)
_EASTERNMOST, _WESTERNMOST = timedelta(hours=14), timedelta(hours=12)


class ColumnType(NamedTuple):
    """The type of a column: for its bounds in memory, and for its statistics in JSON."""

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
    "timestamp_ntz": ColumnType("timestamp_ntz", _LOCAL_TIME, _LOCAL_TIME),
}


def column_type(data_type: schema.DataType) -> ColumnType | None:
    """Return the type, or None if logs have no bounds for columns of this type."""
    match data_type:
        case schema.Primitive(name=name):
            return _TYPES.get(name)
        case schema.Decimal(precision=precision, scale=scale) if precision:
            exact = pa.decimal128(precision, scale)
            return ColumnType("decimal", exact, exact)
    return None


def scalar_of(value: object, kind: ColumnType) -> pa.Scalar | None:
    """Convert a reader's value to the column's type. Returns None unless the two can be compared exactly."""
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
    """Convert a statistic, as Arrow's JSON reader returns it, to the column's type. Raises Arrow's exceptions."""
    return as_floats(array) if kind.name == "float" else array.cast(kind.arrow)


def as_floats(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """The exact values of floats. Writers write the shortest decimals of a float; rounding to float32 restores it."""
    return array.cast(pa.float32()).cast(pa.float64())


def from_json_value(value: object, kind: ColumnType) -> object:
    """Convert one statistic of any JSON type. Returns None if it has no usable value, such as "NaN"."""
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


def widened(
    lower: pa.ChunkedArray, upper: pa.ChunkedArray, kind: ColumnType
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Bounds that hold for the values of a file, although writers round them."""
    if pa.types.is_timestamp(kind.arrow):
        # Writers truncate timestamps to milliseconds, so the real maximum may be greater.
        return lower, pc.add(upper, pa.scalar(_CUT_OFF, pa.duration("us")))
    if pa.types.is_decimal(kind.arrow) and kind.arrow.precision > _EXACT_DIGITS:
        return _rounded(lower, kind.arrow, ROUND_FLOOR), _rounded(upper, kind.arrow, ROUND_CEILING)
    return lower, upper


def _rounded(bounds: pa.ChunkedArray, kind: pa.Decimal128Type, rounding: str) -> pa.ChunkedArray:
    """Bounds of decimals, each moved as far as a double may differ from it.

    deltalake writes these statistics as doubles, and those without a fraction as 64-bit integers, of which the largest
    stands for all larger ones. Decimals of up to 15 digits are exact as doubles. No double has more than 17 digits.
    """
    smallest = pa.scalar(Decimal(10**_EXACT_DIGITS).scaleb(-kind.scale, _CONTEXT), kind)
    whole = bounds.combine_chunks()
    is_large = pc.fill_null(pc.greater_equal(pc.abs(whole), smallest), False)  # noqa: FBT003
    if not pc.any(is_large).as_py():
        return bounds
    moved = [_moved(value, kind, rounding) for value in whole.filter(is_large).to_pylist()]
    return pa.chunked_array([pc.replace_with_mask(whole, is_large, pa.array(moved, kind))])


def _moved(value: Decimal, kind: pa.Decimal128Type, rounding: str) -> Decimal | None:
    """The bound, or None if there is none for certain."""
    if value in _INT64:
        return None
    found = value
    if len(value.normalize(_CONTEXT).as_tuple().digits) <= _MOST_DIGITS_OF_A_DOUBLE:
        margin = _MARGIN * abs(value)
        moved = _CONTEXT.add(value, margin if rounding == ROUND_CEILING else -margin)
        found = moved.quantize(Decimal(1).scaleb(-kind.scale), rounding, _CONTEXT)
    return found if len(found.as_tuple().digits) <= kind.precision else None


# --- from partition values -------------------------------------------------------------------------


def from_partition_text(text: str, kind: ColumnType) -> tuple[object, object]:
    """Return the lower and upper bound of a partition value. They are usually equal."""
    if kind.name == "timestamp":
        at = _from_iso(datetime, text)
        if at is not None and at.tzinfo is None:
            # The value is in the writer's time zone, which is not recorded.
            return at.replace(tzinfo=UTC) - _EASTERNMOST, at.replace(tzinfo=UTC) + _WESTERNMOST
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
            return _to_float32(value)
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


def _to_float32(value: int | Decimal) -> float | None:
    try:
        (number,) = struct.unpack("f", struct.pack("f", float(value)))
    except OverflowError:
        return None
    return _finite(number)
