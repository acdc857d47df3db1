"""Avro values of many records at a time: each function encodes a whole column, and `join` makes records of columns.

A manifest has a hundred small values for each file. Encoding them record by record, as fastavro does, takes ten
seconds for 100,000 files; by columns it takes less than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bytes: TypeAlias = pa.BinaryArray | pa.BinaryScalar
"""One encoded value for each record, or one for all of them."""
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_BITS: Final = 7
_LONGEST_VARINT: Final = 10


def constant(data: bytes) -> pa.BinaryScalar:
    return pa.scalar(data, pa.binary())


NULL: Final = constant(b"\x00")
"""The first branch of a union: no value."""
_PRESENT: Final = constant(b"\x02")
_EMPTY: Final = constant(b"")
_EMPTY_MAP: Final = constant(b"\x02\x00")
_END: Final = constant(b"\x00")


def join(*parts: Bytes) -> pa.BinaryArray:
    """The concatenation of the columns, record by record."""
    return pc.binary_join_element_wise(*parts, _EMPTY)


def long(value: int) -> bytes:
    """One int or long."""
    coded = (value << 1) ^ (value >> 63)
    made = bytearray()
    while coded > 0x7F:
        made.append(coded & 0x7F | 0x80)
        coded >>= _BITS
    made.append(coded)
    return bytes(made)


def longs(values: Integers) -> pa.BinaryArray:
    """A column of ints or longs."""
    coded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    limits = np.left_shift(np.uint64(1), np.arange(_BITS, 64, _BITS, dtype=np.uint64))
    lengths = np.searchsorted(limits, coded, side="right") + 1
    width = int(lengths.max(initial=1))
    groups = coded[:, None] >> np.arange(0, width * _BITS, _BITS, dtype=np.uint64)
    data = (groups & np.uint64(0x7F)).astype(np.uint8)
    at = np.arange(width)
    data[at < lengths[:, None] - 1] |= 0x80
    return _varying(data[at < lengths[:, None]], lengths)


def _varying(data: Any, lengths: Any) -> pa.BinaryArray:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def to_integers(values: pa.Array) -> Integers:
    """An Arrow column of integers without nulls, as numpy has it."""
    found: Integers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def texts(values: pa.Array) -> pa.BinaryArray:
    """A column of strings or bytes, each after its length."""
    data = values.cast(pa.binary())
    return join(longs(to_integers(pc.binary_length(data))), data)


def optional(encoded: pa.BinaryArray, is_valid: pa.Array) -> pa.BinaryArray:
    """A union of null and a type."""
    return pc.if_else(is_valid, join(_PRESENT, encoded), NULL)


def present(encoded: Bytes) -> pa.BinaryArray:
    return join(_PRESENT, encoded)


def little_endian(values: pa.Array, dtype: str) -> pa.BinaryArray:
    """A column of fixed-width numbers as Iceberg writes single values. Nulls become zeros; mask them afterwards."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype)
    data = numbers.view(np.uint8).reshape(len(numbers), -1) if len(numbers) else np.zeros((0, 1), np.uint8)
    return _varying(data.reshape(-1), np.full(len(numbers), data.shape[1]))


def big_endian_decimals(values: pa.Array, width: int | None = None) -> pa.BinaryArray:
    """Unscaled decimals in two's complement: the fewest bytes, or as many as `width` states."""
    filled = pc.fill_null(values, pa.scalar(0, values.type)).cast(pa.decimal128(38, values.type.scale))
    raw = np.frombuffer(filled.buffers()[1], np.uint8).reshape(-1, 16)[filled.offset : filled.offset + len(filled)]
    data = raw[:, ::-1]
    if width is not None:
        return _varying(data[:, 16 - width :].reshape(-1), np.full(len(data), width))
    sign = np.where(data[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte can be left out if it only repeats the sign, and the byte after it has the same sign.
    spare = (data[:, :-1] == sign) & ((data[:, 1:] & 0x80) == (sign & 0x80))
    lengths = 16 - np.cumprod(spare, axis=1).sum(axis=1)
    return _varying(data[np.arange(16) >= 16 - lengths[:, None]], lengths)


def maps(pairs: Sequence[tuple[int, pa.BinaryArray, pa.Array]]) -> Bytes:
    """A column of optional maps with numeric keys: for each key the encoded values, and which records have one.

    The length of a map is written too, so that a reader can skip it unread.
    """
    if not pairs:
        return _EMPTY_MAP
    items = [pc.if_else(is_valid, join(constant(long(key)), values), _EMPTY) for key, values, is_valid in pairs]
    body = join(*items)
    count = np.zeros(len(body), np.int64)
    for _, _, is_valid in pairs:
        count += is_valid.to_numpy(zero_copy_only=False)
    size = longs(to_integers(pc.binary_length(body)))
    return pc.if_else(pa.array(count > 0), join(_PRESENT, longs(-count), size, body, _END), _EMPTY_MAP)


def concatenated(records: pa.BinaryArray) -> bytes:
    """All records, one after another."""
    _, offsets, data = records.buffers()
    bounds = np.frombuffer(offsets, np.int32)[records.offset : records.offset + len(records) + 1]
    return b"" if data is None else data[int(bounds[0]) : int(bounds[-1])].to_pybytes()


def binary(values: Iterable[bytes]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())
