"""The files of deletion vectors, and the texts that name or contain them."""

from __future__ import annotations

import base64
import zlib
from typing import Final
from uuid import UUID

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import VECTOR_ID_LENGTH
from moorage.formats.delta.file_actions import DeletionVector

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC_1924: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_RFC_1924: Final = str.maketrans(_Z85, _RFC_1924)
_TO_Z85: Final = str.maketrans(_RFC_1924, _Z85)
"""Delta and Python encode in base 85 with the same digits in another order."""
_MAGIC: Final = b"\xd1\xd3\x39\x64"


def vector_path(vector: DeletionVector) -> str | None:
    """The path of the vector's file as a log would write it, or None if the vector is inline."""
    if vector.storage_type == "i":
        return None
    if vector.storage_type == "p":
        return vector.path_or_inline_dv
    folder, name = vector.path_or_inline_dv[:-VECTOR_ID_LENGTH], vector.path_or_inline_dv[-VECTOR_ID_LENGTH:]
    try:
        id = UUID(bytes=from_base85(name))
    except ValueError:
        raise Damaged(f"the log names a deletion vector {name!r}, which is not an id in base 85") from None
    file = f"deletion_vector_{id}.bin"
    return f"{folder}/{file}" if folder else file


def from_base85(text: str) -> bytes:
    """The bytes of a text as Delta encodes them. ValueError if it is not base 85."""
    return base64.b85decode(text.translate(_TO_RFC_1924))


def to_base85(data: bytes) -> str:
    """The text for bytes whose length is a multiple of four."""
    return base64.b85encode(data).decode().translate(_TO_Z85)


def is_bitmap(data: bytes) -> bool:
    """Whether a vector has the form that Delta and Iceberg share."""
    return data.startswith(_MAGIC)


def frame(data: bytes) -> bytes:
    """The vector with its length and checksum, as it is in the files of both formats."""
    return len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")


def unframe(framed: bytes) -> bytes | None:
    """The vector in a frame; None if the frame is damaged."""
    data = framed[4:-4]
    return data if framed == frame(data) else None


def to_inline(data: bytes, cardinality: int) -> DeletionVector:
    """A vector that the log contains itself. Its text ends with zeros, up to a multiple of four bytes."""
    text = to_base85(data + bytes(-len(data) % 4))
    return DeletionVector(storage_type="i", path_or_inline_dv=text, size_in_bytes=len(data), cardinality=cardinality)
