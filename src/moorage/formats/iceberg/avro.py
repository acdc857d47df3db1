"""Avro files as Iceberg writes them, read as plain numbers, texts and bytes.

Dates, decimals and timestamps stay what they are inside: Python's own types end with the year 9999.
Whatever a file claims, it never becomes larger than a limit.
"""

from __future__ import annotations

import io
import zlib
from typing import Any

import fastavro
import msgspec

from moorage.core.errors import Damaged, TooLarge

LARGEST = 1024 * 1024 * 1024
"""Of one file's blocks, inflated."""

_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }
)
_MAGIC = b"Obj\x01"


class AvroFile(msgspec.Struct, frozen=True):
    """The records of a file, and what its header says."""

    meta: dict[str, bytes]
    schema: dict[str, Any]
    records: list[dict[str, Any]]


def read_avro(data: bytes, what: str) -> AvroFile:
    """All records of a file; Damaged if it is no such file."""
    try:
        return _read(data)
    except TooLarge:
        raise
    except Exception as error:
        # Everything that parsers raise over bytes that are not theirs: the file is then not what was said.
        raise Damaged(f"{what} is not an Avro file that can be read: {error}") from error


def _read(data: bytes) -> AvroFile:
    stream = io.BytesIO(data)
    header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
    if header["magic"] != _MAGIC:
        raise ValueError("it does not begin like one")
    meta = header["meta"]
    schema = _plain(msgspec.json.decode(meta["avro.schema"]))
    count, blocks = _inflated(stream, meta.get("avro.codec", b"null").decode())
    # One file again, of one block, that says nothing of dates and decimals.
    plain = io.BytesIO()
    told = {"avro.schema": msgspec.json.encode(schema), "avro.codec": b"null"}
    fastavro.schemaless_writer(plain, _HEADER, {**header, "meta": told})
    plain.write(_number(count) + _number(len(blocks)) + blocks + header["sync"])
    plain.seek(0)
    records: Any = list(fastavro.reader(plain)) if count else []
    return AvroFile(meta, schema, records)


def _inflated(stream: io.BytesIO, codec: str) -> tuple[int, bytes]:
    count, blocks, left = 0, list[bytes](), LARGEST
    while stream.tell() < len(stream.getbuffer()):
        count += _read_number(stream)
        block = _inflate(stream.read(_read_number(stream)), codec, left)
        stream.seek(16, io.SEEK_CUR)
        left -= len(block)
        blocks.append(block)
    return count, b"".join(blocks)


def _inflate(block: bytes, codec: str, limit: int) -> bytes:
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
            return _unsnapped(block, limit)
        case "zstandard":
            return _from_zstandard(block, limit)
    raise ValueError(f"its codec {codec!r} is unknown")


def _unsnapped(block: bytes, limit: int) -> bytes:
    import pyarrow  # costs more to load than a manifest, and few are written like this

    size = _read_size(io.BytesIO(block))
    if size > limit:
        raise _too_large()
    # Behind the data stands a checksum of 4 bytes.
    return bytes(pyarrow.Codec("snappy").decompress(block[:-4], decompressed_size=size, asbytes=True))


def _from_zstandard(block: bytes, limit: int) -> bytes:
    import pyarrow

    with pyarrow.input_stream(pyarrow.py_buffer(block), compression="zstd") as inflated:
        found = bytes(inflated.read(limit + 1))
    if len(found) > limit:
        raise _too_large()
    return found


def _too_large() -> TooLarge:
    return TooLarge(f"an Avro file holds more than {LARGEST} bytes")


def _read_size(stream: io.BytesIO) -> int:
    found = shift = 0
    while True:
        byte = stream.read(1)[0]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found
        shift += 7
        if shift > 63:
            raise ValueError("a number has no end")


def _read_number(stream: io.BytesIO) -> int:
    coded = _read_size(stream)
    found = (coded >> 1) ^ -(coded & 1)
    if found < 0:
        raise ValueError("a size is negative")
    return found


def _number(value: int) -> bytes:
    coded, written = value << 1, bytearray()
    while coded > 0x7F:
        written.append(coded & 0x7F | 0x80)
        coded >>= 7
    return bytes((*written, coded))


def _plain(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if key != "logicalType"}
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema
