"""Deletion vectors: read from Delta's files, and written unchanged as blobs of a Puffin file.

Both formats store the same bytes for a vector, so the bitmap is not decoded. A manifest could name Delta's own file, as
Delta's converter does, but PyIceberg and DuckDB require the frame of a Puffin file around the vectors.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from moorage.formats.delta.actions import VECTOR_ID_LENGTH
from moorage.formats.delta.file_actions import DeletionVector
from moorage.uniform.refusals import Refused

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_PUFFIN_MAGIC: Final = b"PFA1"
_DELETED_ROWS: Final = 2147483645
"""The field id of the column that states whether a row is deleted, to which a vector belongs."""
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = str.maketrans(_Z85, _B85)


def vector_path(vector: DeletionVector) -> str | None:
    """The path of the file with the vector, as a log would name it; None if the log contains the vector."""
    match vector.storage_type:
        case "i":
            return None
        case "p":
            return vector.path_or_inline_dv
    prefix, id = vector.path_or_inline_dv[:-VECTOR_ID_LENGTH], vector.path_or_inline_dv[-VECTOR_ID_LENGTH:]
    name = f"deletion_vector_{UUID(bytes=_decode(id))}.bin"
    return f"{prefix}/{name}" if prefix else name


def _decode(text: str) -> bytes:
    try:
        return base64.b85decode(text.translate(_TO_B85))
    except ValueError as error:
        raise Refused(f"the deletion vector {text[:40]!r} is not base85: {error}") from None


def framed(vector: DeletionVector, file: bytes | None) -> bytes:
    """The vector with its length and checksum, as both formats frame it. `file` is the content of its file."""
    if vector.storage_type == "i":
        data = _decode(vector.path_or_inline_dv)[: vector.size_in_bytes]
        return _require_bitmap(data) and _frame(data)
    at = vector.offset or 0
    frame = (file or b"")[at : at + vector.size_in_bytes + 8]
    data = frame[4:-4]
    if frame != _frame(data) or len(data) != vector.size_in_bytes:
        raise Refused(f"the deletion vector at offset {at} of {vector_path(vector)} is missing or damaged")
    return _require_bitmap(data) and frame


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")


def _require_bitmap(data: bytes) -> bytes:
    if not data.startswith(_MAGIC):
        raise Refused("a deletion vector has a form that Iceberg does not have; purge it with REORG TABLE")
    return data


class Blob(msgspec.Struct, frozen=True):
    """A vector in a Puffin file: the data file that it belongs to, and its place."""

    data_file: str
    offset: int
    length: int
    cardinality: int


def to_puffin(vectors: Sequence[tuple[str, DeletionVector, bytes]]) -> tuple[bytes, Mapping[str, Blob]]:
    """A Puffin file with the framed vectors of these data files, and the place of each."""
    blobs: dict[str, Blob] = {}
    at = len(_PUFFIN_MAGIC)
    for path, vector, frame in vectors:
        blobs[path] = Blob(path, at, len(frame), vector.cardinality)
        at += len(frame)
    footer = msgspec.json.encode({"blobs": [_blob_document(blob) for blob in blobs.values()], "properties": {}})
    end = len(footer).to_bytes(4, "little") + bytes(4) + _PUFFIN_MAGIC
    frames = b"".join(frame for _, _, frame in vectors)
    return b"".join((_PUFFIN_MAGIC, frames, _PUFFIN_MAGIC, footer, end)), blobs


def _blob_document(blob: Blob) -> dict[str, object]:
    return {
        "type": "deletion-vector-v1",
        "fields": [_DELETED_ROWS],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": blob.offset,
        "length": blob.length,
        "properties": {"referenced-data-file": blob.data_file, "cardinality": str(blob.cardinality)},
    }
