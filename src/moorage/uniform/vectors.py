"""Deletion vectors: read from Delta's files, and written unchanged as blobs of Puffin files.

Both formats store the same bytes for a vector, so the bitmap is not decoded. A manifest could name Delta's own file, as
Delta's converter does, but PyIceberg and DuckDB require the frame of a Puffin file around the vectors.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from moorage.formats.delta.deletion_vectors import frame, from_base85, is_bitmap, unframe, vector_path
from moorage.formats.delta.file_actions import DeletionVector
from moorage.uniform.refusals import Refused

_PUFFIN_MAGIC: Final = b"PFA1"
_DELETED_ROWS: Final = 2147483645
"""The field id of the column that states whether a row is deleted, to which a vector belongs."""


def framed(vector: DeletionVector, file: bytes | None) -> bytes:
    """The vector with its length and checksum, as both formats frame it. `file` is the content of its file."""
    if vector.storage_type == "i":
        try:
            data = from_base85(vector.path_or_inline_dv)[: vector.size_in_bytes]
        except ValueError as error:
            raise Refused(f"a deletion vector in the log is not base 85: {error}") from None
        return _require_bitmap(data) and frame(data)
    at = vector.offset or 0
    found = (file or b"")[at : at + vector.size_in_bytes + 8]
    stored = unframe(found)
    if stored is None or len(stored) != vector.size_in_bytes:
        raise Refused(f"the deletion vector at offset {at} of {vector_path(vector)} is missing or damaged")
    return _require_bitmap(stored) and found


def _require_bitmap(data: bytes) -> bytes:
    if not is_bitmap(data):
        raise Refused("a deletion vector has a form that Iceberg does not have; rewrite the file without deleted rows")
    return data


class Puffin(NamedTuple):
    """A Puffin file with the vector of one data file."""

    data: bytes
    offset: int
    length: int
    cardinality: int


def to_puffin(data_file: str, vector: DeletionVector, frame: bytes) -> Puffin:
    """A Puffin file with one framed vector.

    Each vector has a file of its own: PyIceberg applies all vectors of a file that it reads, also those that were
    replaced since.
    """
    offset = len(_PUFFIN_MAGIC)
    blob = {
        "type": "deletion-vector-v1",
        "fields": [_DELETED_ROWS],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": len(frame),
        "properties": {"referenced-data-file": data_file, "cardinality": str(vector.cardinality)},
    }
    footer = msgspec.json.encode({"blobs": [blob], "properties": {}})
    end = len(footer).to_bytes(4, "little") + bytes(4) + _PUFFIN_MAGIC
    data = b"".join((_PUFFIN_MAGIC, frame, _PUFFIN_MAGIC, footer, end))
    return Puffin(data, offset, len(frame), vector.cardinality)
