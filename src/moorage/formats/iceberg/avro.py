"""Avro files as Iceberg writes them, read as plain numbers, strings and bytes.

This reader covers only what manifests need. fastavro took twice the time and created a small dictionary for
every entry of every map, so garbage collection blocked the event loop. It also converts numbers to Python dates
and decimals, and Python's dates end with the year 9999.

A file never inflates beyond a limit, regardless of the sizes that it states.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from moorage.core.errors import Damaged, TooLarge

LARGEST = 256 * 1024 * 1024
"""The maximum number of inflated bytes in one file."""

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16

Read = Callable[[bytes, int], tuple[Any, int]]
"""Takes bytes and a position; returns the value at the position and the position after it."""


class AvroFile(msgspec.Struct, frozen=True):
    """The header of a file, and an iterator over its records."""

    meta: dict[str, bytes]
    schema: dict[str, Any]
    records: Iterator[dict[str, Any]]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Convert every error that malformed bytes can cause to Damaged."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{what} cannot be read: {error!r}") from error
    except (struct.error, zlib.error, OSError) as error:
        raise Damaged(f"{what} cannot be read: {error}") from error


def read_avro(data: bytes) -> AvroFile:
    """Open a file. Its records are read lazily, so iterate over them inside `reading`."""
    if not data.startswith(_MAGIC):
        raise ValueError("it does not begin with the magic bytes of an Avro file")
    meta, at = _map_of(_read_bytes)(data, len(_MAGIC))
    schema = msgspec.json.decode(meta["avro.schema"])
    codec = meta.get("avro.codec", b"null").decode()
    return AvroFile(meta, schema, _records(_reader(schema, {}), data, at + _SYNC_BYTES, codec))


def _records(read: Read, data: bytes, at: int, codec: str) -> Iterator[dict[str, Any]]:
    left = LARGEST
    while at < len(data):
        count, at = _read_long(data, at)
        size, at = _read_size(data, at)
        block, position = _inflated(data[at : at + size], codec, left), 0
        for _ in range(_require_count(count, block, position)):
            record, position = read(block, position)
            yield record
        if position != len(block):
            raise ValueError("the length of a block does not match its records")
        left -= len(block)
        at += size + _SYNC_BYTES
    if at != len(data):
        raise ValueError("the file is truncated")


# --- values ---------------------------------------------------------------------------------------------


def _reader(schema: Any, named: dict[str, Read]) -> Read:
    """A reader for the values of a schema. `named` holds the readers of types defined earlier."""
    if isinstance(schema, list):
        choices = [_reader(part, named) for part in schema]
        return _union_of(choices)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _reader(kind, named)
    match kind:
        case "record":
            return _record_of(schema, named)
        case "array":
            return _array_of(schema["items"], named)
        case "map":
            return _map_of(_reader(schema["values"], named))
        case "fixed":
            named[schema["name"]] = _fixed_of(schema["size"])
            return named[schema["name"]]
    return _PRIMITIVES[kind] if kind in _PRIMITIVES else named[kind]


def _record_of(schema: dict[str, Any], named: dict[str, Read]) -> Read:
    fields: list[tuple[str, Read]] = []

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        for name, field in fields:
            found[name], at = field(data, at)
        return found, at

    named[schema["name"]] = read
    fields += [(field["name"], _reader(field["type"], named)) for field in schema["fields"]]
    return read


def _union_of(choices: list[Read]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        chosen, at = _read_size(data, at)
        return choices[chosen](data, at)

    return read


def _array_of(items: Any, named: dict[str, Read]) -> Read:
    if isinstance(items, dict) and [field["name"] for field in items.get("fields", ())] == ["key", "value"]:
        # Iceberg writes maps with numeric keys in this form.
        key, value = (_reader(field["type"], named) for field in items["fields"])
        return _pairs_of(key, value)
    item = _reader(items, named)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        count, at = _read_count(data, at)
        while count:
            for _ in range(count):
                each, at = item(data, at)
                found.append(each)
            count, at = _read_count(data, at)
        return found, at

    return read


def _map_of(value: Read) -> Read:
    return _pairs_of(_read_text, value)


def _pairs_of(key: Read, value: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
        found: dict[Any, Any] = {}
        count, at = _read_count(data, at)
        while count:
            for _ in range(count):
                name, at = key(data, at)
                found[name], at = value(data, at)
            count, at = _read_count(data, at)
        return found, at

    return read


def _fixed_of(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return data[at : at + size], _require_end(data, at + size)

    return read


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    coded, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[at]
        at += 1
        coded |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise ValueError("a number has too many bytes")
    return (coded >> 1) ^ -(coded & 1), at


def _read_size(data: bytes, at: int) -> tuple[int, int]:
    size, at = _read_long(data, at)
    if size < 0:
        raise ValueError("a size is negative")
    return size, at


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    """The item count of the next block of an array or map. A negative count is followed by the block's size."""
    count, at = _read_long(data, at)
    if count < 0:
        _, at = _read_long(data, at)
    return _require_count(abs(count), data, at), at


def _require_count(count: int, data: bytes, at: int) -> int:
    """Refuse more items than remaining bytes. An item has at least one byte, so this bounds the loop over items."""
    if not 0 <= count <= len(data) - at:
        raise ValueError(f"a count of {count} items exceeds the remaining bytes")
    return count


def _require_end(data: bytes, end: int) -> int:
    if end > len(data):
        raise ValueError("a value extends past the end of the data")
    return end


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_size(data, at)
    return data[at : at + size], _require_end(data, at + size)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read_size(data, at)
    return data[at : at + size].decode(), _require_end(data, at + size)


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == 1, at + 1


_PRIMITIVES: dict[str, Read] = {
    "null": lambda data, at: (None, at),
    "boolean": _read_boolean,
    "int": _read_long,
    "long": _read_long,
    "float": lambda data, at: (struct.unpack_from("<f", data, at)[0], at + 4),
    "double": lambda data, at: (struct.unpack_from("<d", data, at)[0], at + 8),
    "bytes": _read_bytes,
    "string": _read_text,
}


# --- codecs ---------------------------------------------------------------------------------------------


def _inflated(block: bytes, codec: str, limit: int) -> bytes:
    match codec:
        case "null":
            return block
        case "deflate":
            inflate = zlib.decompressobj(wbits=-15)
            found = inflate.decompress(block, limit)
            if inflate.unconsumed_tail:
                raise _too_large()
            return found
        case "snappy":
            return _from_snappy(block, limit)
        case "zstandard":
            return _from_zstandard(block, limit)
    raise ValueError(f"the codec {codec!r} is not supported")


def _from_snappy(block: bytes, limit: int) -> bytes:
    import pyarrow  # imported late: it loads slowly, and few manifests use this codec

    size = shift = at = 0
    while shift == 0 or block[at - 1] >= 0x80:
        size |= (block[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    if size > limit:
        raise _too_large()
    # A checksum of 4 bytes follows the data.
    return bytes(pyarrow.Codec("snappy").decompress(block[:-4], decompressed_size=size, asbytes=True))


def _from_zstandard(block: bytes, limit: int) -> bytes:
    import pyarrow

    with pyarrow.input_stream(pyarrow.py_buffer(block), compression="zstd") as inflated:
        found = bytes(inflated.read(limit + 1))
    if len(found) > limit:
        raise _too_large()
    return found


def _too_large() -> TooLarge:
    return TooLarge(f"an Avro file inflates to more than {LARGEST} bytes")
