"""Totals over the shared files of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow.compute as pc

from moorage.formats.delta.replay import Part


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    size: int = 0
    files: int = 0
    has_vectors: bool = False
    """Whether any file has a deletion vector."""


def totals_of(parts: Iterable[Part]) -> Totals:
    size = files = 0
    has_vectors = False
    for part in parts:
        table = part.slab.table
        sizes, vectors = table["size"], table["deletionVector"]
        if part.alive is not None:
            sizes = sizes.filter(part.alive)
        size += pc.sum(sizes).as_py() or 0
        files += part.count
        if not has_vectors and vectors.null_count < len(vectors):
            alive = vectors if part.alive is None else vectors.filter(part.alive)
            has_vectors = alive.null_count < len(alive)
    return Totals(size=size, files=files, has_vectors=has_vectors)
