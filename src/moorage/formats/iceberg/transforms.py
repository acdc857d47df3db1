"""Partition transforms: how a column value becomes a partition value."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import msgspec

from moorage.formats.iceberg.values import Primitive, Value

_EPOCH = date(1970, 1, 1)
_DAY_SECONDS = 86_400
_INT, _DATE = Primitive("int"), Primitive("date")

_TIMESTAMPS = frozenset(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))
_DAYS = _TIMESTAMPS | {"date"}
_TRUNCATABLE = frozenset(("int", "long", "decimal", "string", "binary"))
_SOURCES = {
    "bucket": _TRUNCATABLE | _DAYS | {"time", "uuid", "fixed"},
    "truncate": _TRUNCATABLE,
    "year": _DAYS,
    "month": _DAYS,
    "day": _DAYS,
    "hour": _TIMESTAMPS,
}
_WITHOUT_IDENTITY = ("variant", "geometry", "geography")


class Transform(msgspec.Struct, frozen=True):
    """How a partition value is derived. `width` is the number of buckets, or the width of truncate."""

    name: str
    width: int = 0

    def __str__(self) -> str:
        return f"{self.name}[{self.width}]" if self.width else self.name

    @property
    def is_known(self) -> bool:
        return self.width > 0 or self.name in ("identity", "void") or self.is_temporal

    @property
    def is_temporal(self) -> bool:
        return self.name in ("year", "month", "day", "hour")


def parse_transform(text: str) -> Transform:
    """Parse a transform. An unknown one is accepted, because a newer table may have it, but planning ignores it."""
    name, bracket, rest = text.partition("[")
    width = rest.removesuffix("]")
    if name not in ("bucket", "truncate") or not bracket or not width.isdecimal() or int(width) == 0:
        return Transform(text)
    return Transform(name, int(width))


def can_transform(transform: Transform, source: Primitive) -> bool:
    """Whether the specification allows the transform for this type. Clients cannot load a table where it does not."""
    if transform.name == "identity":
        return not source.name.startswith(_WITHOUT_IDENTITY)
    return transform.name == "void" or source.name in _SOURCES[transform.name]


def result_type(transform: Transform, source: Primitive) -> Primitive:
    """The type of the partition values."""
    match transform.name:
        case "bucket" | "year" | "month" | "hour":
            return _INT
        case "day":
            return _DATE
    return source


def applied(transform: Transform, kind: Primitive, value: Any) -> Value:
    """The partition value of an integer, string or bytes. The transform must be known and not void."""
    match transform.name:
        case "bucket":
            return _bucket(transform.width, kind, value)
        case "truncate":
            return _truncated(transform.width, kind, value)
        case "year" | "month" | "day" | "hour":
            return _since_epoch(transform.name, kind, value)
    return _as_value(value)


def _as_value(value: Any) -> Value:
    found: Value = value
    return found


def _truncated(width: int, kind: Primitive, value: Any) -> Value:
    return value - value % width if kind.is_whole else _as_value(value[:width])


def _since_epoch(unit: str, kind: Primitive, value: int) -> int:
    seconds = value * _DAY_SECONDS if kind.name == "date" else value // kind.ticks
    if unit == "hour":
        return seconds // 3600
    days = seconds // _DAY_SECONDS
    if unit == "day":
        return days
    cycles, rest = divmod(days, 146_097)  # days in 400 years, because Python's calendar ends with the year 9999
    day = _EPOCH + timedelta(days=rest)
    years = day.year - 1970 + 400 * cycles
    return years if unit == "year" else years * 12 + day.month - 1


def _bucket(count: int, kind: Primitive, value: Any) -> int:
    return (_murmur3(_hashed_bytes(kind, value)) & 0x7FFF_FFFF) % count


def _hashed_bytes(kind: Primitive, value: Any) -> bytes:
    match kind.name:
        case "string":
            return str(value).encode()
        case "decimal":
            return int(value).to_bytes(
                (int(value).bit_length() if value >= 0 else (-value - 1).bit_length()) // 8 + 1, "big", signed=True
            )
        case "timestamp_ns" | "timestamptz_ns":
            return int(value // 1000).to_bytes(8, "little", signed=True)
    return bytes(value) if isinstance(value, bytes) else int(value).to_bytes(8, "little", signed=True)


def _murmur3(data: bytes) -> int:
    """Murmur3, 32 bits, x86, seed 0."""
    mask, hashed, whole = 0xFFFF_FFFF, 0, len(data) & ~3
    for at in range(0, whole, 4):
        hashed ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        hashed = (hashed << 13 | hashed >> 19) & mask
        hashed = (hashed * 5 + 0xE654_6B64) & mask
    if len(data) > whole:
        hashed ^= _mixed(int.from_bytes(data[whole:], "little"))
    hashed ^= len(data)
    for shift, factor in ((16, 0x85EB_CA6B), (13, 0xC2B2_AE35)):
        hashed = ((hashed ^ hashed >> shift) * factor) & mask
    return hashed ^ hashed >> 16


def _mixed(block: int) -> int:
    block = block * 0xCC9E_2D51 & 0xFFFF_FFFF
    block = (block << 15 | block >> 17) & 0xFFFF_FFFF
    return block * 0x1B87_3593 & 0xFFFF_FFFF
