"""A minimal reader of Protobuf messages: the numbers of their fields and their contents."""

from __future__ import annotations

from collections.abc import Iterator

_NUMBER, _BYTES = 0, 2
_FIXED_LENGTHS = {1: 8, 5: 4}
"""The number of bytes of a field, by wire type."""


def fields_of(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Each length-delimited field (bytes, string or message) in order. Stops at the first invalid byte."""
    at = 0
    try:
        while at < len(message):
            tag, at = _varint(message, at)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == _NUMBER:
                _, at = _varint(message, at)
            elif wire_type == _BYTES:
                length, at = _varint(message, at)
                yield number, message[at : at + length]
                at += length
            else:
                at += _FIXED_LENGTHS[wire_type]
    except (IndexError, KeyError):
        return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A varint and its end: seven bits per byte, lowest first. The eighth bit is set if another byte follows."""
    value = shift = 0
    while (byte := message[at]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
