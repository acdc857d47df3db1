"""How well the files of a snapshot are clustered: how many files share values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pyarrow as pa
import pyarrow.compute as pc

from moorage.snapshots.bounds import Column, bounds_of, find_column
from moorage.snapshots.snapshot import Snapshot


def clustering_depth(snapshot: Snapshot, columns: Sequence[tuple[str, ...]]) -> float | None:
    """How many files a file overlaps with, itself included: the average over all files and these columns.

    1 is perfect; the number of files means that clustering is of no use. None if no file has bounds. The runtime grows
    with the number of files, so do not call it on the event loop.
    """
    known = [found for names in columns if (found := find_column(names, snapshot.schema, snapshot.metadata))]
    depths = [depth for column in known if (depth := _depth(snapshot, column)) is not None]
    return fmean(depths) if depths else None


def _depth(snapshot: Snapshot, column: Column) -> float | None:
    lower, upper = list[pa.Array](), list[pa.Array]()
    for part in snapshot.state.parts:
        bounds = bounds_of(part.slab, [column])[column]
        has_both = pc.and_(pc.is_valid(bounds.lower), pc.is_valid(bounds.upper))
        alive = has_both if part.alive is None else pc.and_(has_both, part.alive)
        lower += bounds.lower.filter(alive).chunks
        upper += bounds.upper.filter(alive).chunks
    count = sum(map(len, lower))
    return overlaps(pa.chunked_array(lower), pa.chunked_array(upper)) if count else None


def overlaps(lower: pa.ChunkedArray, upper: pa.ChunkedArray) -> float:
    """How many of these ranges a range overlaps with, itself included, on average. Both ends belong to a range.

    A range overlaps with those that begin before its end, but for those that end before its beginning.
    """
    ends = pa.chunked_array([*lower.chunks, *upper.chunks])
    is_end = pa.array([0] * len(lower) + [1] * len(upper), pa.int64())
    # At one value, beginnings come first.
    ordered = pa.table({"at": ends, "is_end": is_end}).sort_by([("at", "ascending"), ("is_end", "ascending")])["is_end"]
    at_end, ended = pc.equal(ordered, 1), pc.cumulative_sum(ordered)
    begun = pc.cumulative_sum(pc.subtract(1, ordered))
    before_end, before_beginning = begun.filter(at_end), ended.filter(pc.invert(at_end))
    total = (pc.sum(before_end).as_py() or 0) - (pc.sum(before_beginning).as_py() or 0)
    return float(total) / len(lower)
