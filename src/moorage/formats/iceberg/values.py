"""Single values: as bytes in manifests, as JSON in requests and responses, and in the internal form for comparison.

Internally a date is a number of days, a time or timestamp a number of microseconds or nanoseconds, a decimal its
unscaled number, and a UUID its 16 bytes. Values of one type therefore compare in the order of the specification.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from moorage.core.errors import InvalidInput, Unsupported

Value = bool | int | float | str | bytes | Fraction
"""A Fraction is a literal between two possible values of its column, such as 1.005 for a column of cents."""
Partition = tuple[Value | None, ...]
"""The values of one partition, in the order of its spec."""

_PARAMETERS = re.compile(r"(?P<name>[a-z_]+)[\[(] *(?P<first>\d+) *(?:, *(?P<scale>-?\d+) *)?[\])]")
_EPOCH = date(1970, 1, 1)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats every 400 years. Python's dates end with the year 9999, Iceberg's do not."""

_DATE = r"(?P<year>[+-]?\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_OFFSET = r"(?P<offset>Z|[+-]\d\d:\d\d)?"
_DATE_TEXT = re.compile(_DATE)
_TIME_TEXT = re.compile(_TIME)
_TIMESTAMP_TEXT = re.compile(f"{_DATE}[T ]{_TIME}{_OFFSET}")
_DECIMAL_TEXT = re.compile(r"[+-]?(\d{1,100}(\.\d{0,100})?|\.\d{1,100})([eE][+-]?\d{1,3})?")


class Primitive(msgspec.Struct, frozen=True):
    """A type that is not nested. `size` is the length of a fixed or the precision of a decimal."""

    name: str
    size: int = 0
    scale: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the internal values are integers."""
        return self.name in _WHOLE

    @property
    def is_float(self) -> bool:
        return self.name in ("float", "double")

    @property
    def is_text(self) -> bool:
        return self.name in ("string", "binary", "fixed")

    @property
    def ticks(self) -> int:
        """Units per second, for time types."""
        return 1_000_000_000 if self.name.endswith("_ns") else 1_000_000


_LARGEST_FLOAT = struct.unpack("<f", bytes.fromhex("FFFF7F7F"))[0]
_WHOLE = frozenset(
    ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "decimal")
)
_TIMESTAMPS = frozenset(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))


@lru_cache(maxsize=1024)
def parse_primitive(text: str) -> Primitive:
    """The type that a schema names. An unknown type has only a name, and no values."""
    found = _PARAMETERS.fullmatch(text)
    if found is None or found["name"] not in ("fixed", "decimal"):
        return Primitive(text)
    return Primitive(found["name"], int(found["first"]), int(found["scale"] or 0))


# --- bytes, as manifests store bounds -----------------------------------------------------------------


def decode(kind: Primitive, raw: bytes) -> Value | None:
    """The value of a bound; None if the bytes are not a value of that type."""
    read = _READERS.get(kind.name)
    try:
        return None if read is None else read(raw)
    except (struct.error, UnicodeDecodeError):
        return None


def _whole_from(raw: bytes) -> int | None:
    # 4 bytes for a long: the column was an int when the file was written.
    return int.from_bytes(raw, "little", signed=True) if len(raw) in (4, 8) else None


def _exactly(size: int) -> Callable[[bytes], Value | None]:
    return lambda raw: int.from_bytes(raw, "little", signed=True) if len(raw) == size else None


def _float_from(raw: bytes) -> float:
    found: float = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
    return found


_READERS: dict[str, Callable[[bytes], Value | None]] = {
    "boolean": lambda raw: raw != b"\0" if len(raw) == 1 else None,
    "int": _exactly(4),
    "long": _whole_from,
    "float": _float_from,
    "double": _float_from,
    "date": _exactly(4),
    "time": _exactly(8),
    **dict.fromkeys(_TIMESTAMPS, _exactly(8)),
    "string": lambda raw: raw.decode(),
    "uuid": lambda raw: raw if len(raw) == 16 else None,
    "fixed": lambda raw: raw,
    "binary": lambda raw: raw,
    "decimal": lambda raw: int.from_bytes(raw, "big", signed=True) if raw else None,
}


# --- JSON: PrimitiveTypeValue -------------------------------------------------------------------------


def to_wire(kind: Primitive, value: Value) -> Any:
    """The value as the REST specification writes it."""
    write = _WRITERS.get(kind.name)
    return value if write is None else write(kind, value)


_INFINITE = {math.inf: msgspec.Raw(b"1e999"), -math.inf: msgspec.Raw(b"-1e999")}
"""JSON has no infinity. Readers parse a number beyond the range of doubles as infinity."""


def _float_wire(_: Primitive, value: Any) -> Any:
    if math.isnan(value):
        # If NaN were sent as null, clients would read the rows of this partition with wrong values.
        raise Unsupported("a partition value is NaN, which JSON cannot represent: plan the scan in the client")
    return _INFINITE.get(value, value)


def _decimal_text(kind: Primitive, value: Any) -> str:
    scale = kind.scale
    while value.denominator != 1:  # terminates, because literals of requests have finitely many digits
        value, scale = value * 10, scale + 1
    value = int(value)
    if scale <= 0:
        return f"{value}E+{-scale}" if scale else str(value)
    digits = str(abs(value)).rjust(scale + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _date_text(days: int) -> str:
    cycles, rest = divmod(days, _CYCLE_DAYS)
    day = _EPOCH + timedelta(days=rest)
    year = day.year + cycles * _CYCLE_YEARS
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}-{day.month:02d}-{day.day:02d}"


def _time_text(ticks: int, per_second: int) -> str:
    seconds, fraction = divmod(ticks, per_second)
    places = len(str(per_second)) - 1
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{places}d}"


def _timestamp_text(kind: Primitive, value: Any) -> str:
    days, ticks = divmod(value, 86_400 * kind.ticks)
    offset = "+00:00" if kind.name.startswith("timestamptz") else ""
    return f"{_date_text(days)}T{_time_text(ticks, kind.ticks)}{offset}"


_WRITERS: dict[str, Callable[[Primitive, Any], Any]] = {
    "float": _float_wire,
    "double": _float_wire,
    "decimal": _decimal_text,
    "uuid": lambda _, value: str(UUID(bytes=value)),
    "date": lambda _, value: _date_text(value),
    "time": lambda kind, value: _time_text(value, kind.ticks),
    **dict.fromkeys(_TIMESTAMPS, _timestamp_text),
    "fixed": lambda _, value: value.hex().upper(),
    "binary": lambda _, value: value.hex().upper(),
}


def from_wire(kind: Primitive, literal: Any, field: str) -> Value:
    """A literal of a request as a value of the type that it is compared with.

    Java's clients send dates and timestamps in their internal numeric form. Both forms are accepted.
    """
    try:
        found = _PARSERS[kind.name](kind, literal)
    except (KeyError, ValueError, TypeError, OverflowError):
        found = None
    if found is None:
        raise InvalidInput(f"{field}: {literal!r} is not a value of type {kind.name}", field=field)
    return found


def require_value(kind: Primitive, literal: Any, field: str) -> None:
    """Require that a value in a document has the form that every reader supports."""
    found = from_wire(kind, literal, field)
    written = None if isinstance(found, Fraction) else to_wire(kind, found)
    if isinstance(literal, str) != isinstance(written, str) or (kind.name == "decimal" and literal != written):
        raise InvalidInput(f"{field}: {literal!r} is not in the form that type {kind.name} requires", field=field)


def _number(literal: Any) -> Fraction | None:
    """The exact number. Strings are accepted, because PyIceberg sends decimals as strings."""
    if isinstance(literal, bool) or not isinstance(literal, int | float | str):
        return None
    text = literal if isinstance(literal, str) else repr(literal)
    return Fraction(text) if _DECIMAL_TEXT.fullmatch(text) else None


def _parse_boolean(_: Primitive, literal: Any) -> Value | None:
    return literal if isinstance(literal, bool) else None


def _parse_whole(_: Primitive, literal: Any) -> Value | None:
    found = _number(literal)
    return int(found) if found is not None and found.denominator == 1 else None


def _parse_float(kind: Primitive, literal: Any) -> Value | None:
    if literal in ("Infinity", "-Infinity"):  # the form that Java's clients write
        return math.inf if literal == "Infinity" else -math.inf
    if _number(literal) is None:
        return None
    value = float(literal)  # not from the fraction, which would lose the sign of -0.0 that Java's readers need
    # Files contain the float nearest to 0.1, so the literal is rounded too. Values beyond all floats are not rounded.
    return _nearest_float(value) if kind.name == "float" and abs(value) <= _LARGEST_FLOAT else value


def _nearest_float(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _parse_decimal(kind: Primitive, literal: Any) -> Value | None:
    found = _number(literal)
    if found is None:
        return None
    found *= Fraction(10) ** kind.scale
    return int(found) if found.denominator == 1 else found


def _parse_string(_: Primitive, literal: Any) -> Value | None:
    return literal if isinstance(literal, str) else None


def _parse_uuid(_: Primitive, literal: Any) -> Value | None:
    return UUID(literal).bytes if len(literal) == 36 else None


def _parse_hex(kind: Primitive, literal: Any) -> Value | None:
    found = bytes.fromhex(literal)
    return found if len(found) * 2 == len(literal) and kind.size in (0, len(found)) else None


def _parse_date(_: Primitive, literal: Any) -> Value | None:
    if isinstance(literal, int) and not isinstance(literal, bool):
        return literal
    found = _DATE_TEXT.fullmatch(literal)
    return None if found is None else _days_in(found)


def _parse_time(kind: Primitive, literal: Any) -> Value | None:
    if isinstance(literal, int) and not isinstance(literal, bool):
        return literal
    found = _TIME_TEXT.fullmatch(literal)
    return None if found is None else _ticks_in(found, kind.ticks)


def _parse_timestamp(kind: Primitive, literal: Any) -> Value | None:
    if isinstance(literal, int) and not isinstance(literal, bool):
        return literal
    found = _TIMESTAMP_TEXT.fullmatch(literal)
    # An offset for a type without one, or a missing offset for a type that needs one, makes the instant ambiguous.
    if found is None or (found["offset"] is None) == kind.name.startswith("timestamptz"):
        return None
    offset = _offset_seconds(found["offset"])
    return (_days_in(found) * 86_400 - offset) * kind.ticks + _ticks_in(found, kind.ticks)


def _days_in(found: re.Match[str]) -> int:
    cycles, year = divmod(int(found["year"]) - 1970, _CYCLE_YEARS)
    return (date(1970 + year, int(found["month"]), int(found["day"])) - _EPOCH).days + cycles * _CYCLE_DAYS


def _ticks_in(found: re.Match[str], per_second: int) -> int:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("not a valid time of day")
    fraction = int((found["fraction"] or "0").ljust(9, "0"))
    return (hour * 3600 + minute * 60 + second) * per_second + fraction * per_second // 1_000_000_000


def _offset_seconds(offset: str | None) -> int:
    if offset is None or offset == "Z":
        return 0
    seconds = int(offset[1:3]) * 3600 + int(offset[4:]) * 60
    return -seconds if offset[0] == "-" else seconds


_PARSERS: dict[str, Callable[[Primitive, Any], Value | None]] = {
    "boolean": _parse_boolean,
    "int": _parse_whole,
    "long": _parse_whole,
    "float": _parse_float,
    "double": _parse_float,
    "decimal": _parse_decimal,
    "string": _parse_string,
    "uuid": _parse_uuid,
    "date": _parse_date,
    "time": _parse_time,
    **dict.fromkeys(_TIMESTAMPS, _parse_timestamp),
    "fixed": _parse_hex,
    "binary": _parse_hex,
}


def is_nan(value: Value | None) -> bool:
    return isinstance(value, float) and math.isnan(value)
