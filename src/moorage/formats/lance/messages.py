"""Protobuf messages as far as they need to be read: the numbers of their fields, and what those hold."""

from __future__ import annotations

from collections.abc import Iterator

_NUMBER, _BYTES = 0, 2
_FIXED_LENGTHS = {1: 8, 5: 4}
"""By the kind of a field, how many bytes it has."""


def fields_of(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Each field that holds bytes, a text or a message, in order; it ends where the message makes no sense any more."""
    at = 0
    try:
        while at < len(message):
            tag, at = _varint(message, at)
            number, kind = tag >> 3, tag & 7
            if kind == _NUMBER:
                _, at = _varint(message, at)
            elif kind == _BYTES:
                length, at = _varint(message, at)
                yield number, message[at : at + length]
                at += length
            else:
                at += _FIXED_LENGTHS[kind]
    except (IndexError, KeyError):
        return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends: seven bits a byte, the lowest first; the eighth says that more follow."""
    value = shift = 0
    while (byte := message[at]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
