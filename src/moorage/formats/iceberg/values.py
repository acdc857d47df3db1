"""Single values: as bytes in manifests, as JSON in requests and answers, and as we compare them.

Inside, a date is its days, a time or timestamp its microseconds or nanoseconds, a decimal its unscaled
number, a UUID its 16 bytes. So values of one type compare as the specification orders them.
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
"""A Fraction is a literal that lies between two values of its column, such as 1.005 among cents."""
Partition = tuple[Value | None, ...]
"""The values of one partition, in the order of its spec."""

_PARAMETERS = re.compile(r"(?P<name>[a-z_]+)[\[(] *(?P<first>\d+) *(?:, *(?P<scale>-?\d+) *)?[\])]")
_EPOCH = date(1970, 1, 1)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats itself; Python's own ends with the year 9999, Iceberg's does not."""

_DATE = r"(?P<year>[+-]?\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_OFFSET = r"(?P<offset>Z|[+-]\d\d:\d\d)?"
_DATE_TEXT = re.compile(_DATE)
_TIME_TEXT = re.compile(_TIME)
_TIMESTAMP_TEXT = re.compile(f"{_DATE}[T ]{_TIME}{_OFFSET}")
_DECIMAL_TEXT = re.compile(r"[+-]?(\d{1,100}(\.\d{0,100})?|\.\d{1,100})([eE][+-]?\d{1,3})?")


class Primitive(msgspec.Struct, frozen=True):
    """A type without parts. `size` is the length of a fixed or the precision of a decimal."""

    name: str
    size: int = 0
    scale: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers with a next and a previous one."""
        return self.name in _WHOLE

    @property
    def is_float(self) -> bool:
        return self.name in ("float", "double")

    @property
    def is_text(self) -> bool:
        return self.name in ("string", "binary", "fixed")

    @property
    def ticks(self) -> int:
        """How many of its units make a second, for types of time."""
        return 1_000_000_000 if self.name.endswith("_ns") else 1_000_000


_LARGEST_FLOAT = struct.unpack("<f", bytes.fromhex("FFFF7F7F"))[0]
_WHOLE = frozenset(
    ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "decimal")
)
_TIMESTAMPS = frozenset(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))


@lru_cache(maxsize=1024)
def parse_primitive(text: str) -> Primitive:
    """The type that a schema names. One that we do not know has only its name, and no values."""
    found = _PARAMETERS.fullmatch(text)
    if found is None or found["name"] not in ("fixed", "decimal"):
        return Primitive(text)
    return Primitive(found["name"], int(found["first"]), int(found["scale"] or 0))


# --- bytes, as manifests keep bounds ------------------------------------------------------------------


def decode(kind: Primitive, raw: bytes) -> Value | None:
    """The value of a bound, or None if these bytes are no value of that type."""
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
"""JSON has no infinity, but numbers beyond all doubles, and those are read as one."""


def _float_wire(_: Primitive, value: Any) -> Any:
    if math.isnan(value):
        # As null the rows of such a partition would come back as other rows.
        raise Unsupported("a partition's value is NaN, which no JSON can say: plan the scan in the client")
    return _INFINITE.get(value, value)


def _decimal_text(kind: Primitive, value: Any) -> str:
    scale = kind.scale
    while value.denominator != 1:  # a literal of a request, which had an end
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


def from_wire(kind: Primitive, said: Any, field: str) -> Value:
    """A literal of a request as a value of the type that it is compared with.

    Java's clients send dates and timestamps as the numbers that they are inside; both forms are taken.
    """
    try:
        found = _PARSERS[kind.name](kind, said)
    except (KeyError, ValueError, TypeError, OverflowError):
        found = None
    if found is None:
        raise InvalidInput(f"{field}: {said!r} is not a value of type {kind.name}", field=field)
    return found


def require_value(kind: Primitive, said: Any, field: str) -> None:
    """A value that stands in a document, in the one form that every reader knows."""
    found = from_wire(kind, said, field)
    written = None if isinstance(found, Fraction) else to_wire(kind, found)
    if isinstance(said, str) != isinstance(written, str) or (kind.name == "decimal" and said != written):
        raise InvalidInput(f"{field}: {said!r} is not how a value of type {kind.name} is written", field=field)


def _number(said: Any) -> Fraction | None:
    """Exactly; from text too, which is how PyIceberg sends what it has read as a decimal."""
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    text = said if isinstance(said, str) else repr(said)
    return Fraction(text) if _DECIMAL_TEXT.fullmatch(text) else None


def _parse_boolean(_: Primitive, said: Any) -> Value | None:
    return said if isinstance(said, bool) else None


def _parse_whole(_: Primitive, said: Any) -> Value | None:
    found = _number(said)
    return int(found) if found is not None and found.denominator == 1 else None


def _parse_float(kind: Primitive, said: Any) -> Value | None:
    if said in ("Infinity", "-Infinity"):  # as Java's clients write them
        return math.inf if said == "Infinity" else -math.inf
    if _number(said) is None:
        return None
    value = float(said)  # and not of the fraction: -0.0 keeps its sign, without which Java's readers miss it
    # 0.1 is said of the nearest float, and that is what stands in files. What is beyond all floats stays beyond them.
    return _nearest_float(value) if kind.name == "float" and abs(value) <= _LARGEST_FLOAT else value


def _nearest_float(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _parse_decimal(kind: Primitive, said: Any) -> Value | None:
    found = _number(said)
    if found is None:
        return None
    found *= Fraction(10) ** kind.scale
    return int(found) if found.denominator == 1 else found


def _parse_string(_: Primitive, said: Any) -> Value | None:
    return said if isinstance(said, str) else None


def _parse_uuid(_: Primitive, said: Any) -> Value | None:
    return UUID(said).bytes if len(said) == 36 else None


def _parse_hex(kind: Primitive, said: Any) -> Value | None:
    found = bytes.fromhex(said)
    return found if len(found) * 2 == len(said) and kind.size in (0, len(found)) else None


def _parse_date(_: Primitive, said: Any) -> Value | None:
    if isinstance(said, int) and not isinstance(said, bool):
        return said
    found = _DATE_TEXT.fullmatch(said)
    return None if found is None else _days_in(found)


def _parse_time(kind: Primitive, said: Any) -> Value | None:
    if isinstance(said, int) and not isinstance(said, bool):
        return said
    found = _TIME_TEXT.fullmatch(said)
    return None if found is None else _ticks_in(found, kind.ticks)


def _parse_timestamp(kind: Primitive, said: Any) -> Value | None:
    if isinstance(said, int) and not isinstance(said, bool):
        return said
    found = _TIMESTAMP_TEXT.fullmatch(said)
    # With an offset where the type has none, or without one where it must be known, the instant is a guess.
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
        raise ValueError("no such time of day")
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
