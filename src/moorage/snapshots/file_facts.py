"""The files of a snapshot in figures: sizes by partition, deleted rows, statistics, clustering."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.core.health import Files
from moorage.snapshots.snapshot import Snapshot

STATED_ROWS = r'"numRecords"\s*:\s*(?P<rows>\d+)'


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of all files, and of each partition."""

    groups: tuple[Files, ...]
    rows: int | None
    """None if a file has no statistics."""
    deleted_rows: int
    vectors: int
    without_statistics: int
    clustered_bytes: int

    @property
    def count(self) -> int:
        return sum(each.count for each in self.groups)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.groups)

    @property
    def small(self) -> int:
        return sum(each.small for each in self.groups)


def file_facts(snapshot: Snapshot, small_bytes: int) -> FileFacts:
    """Count the files of a snapshot. The runtime grows with their number, so do not call it on the event loop."""
    files = snapshot.select()
    vectors = pc.struct_field(files["deletionVector"], "cardinality")
    rows = pc.cast(pc.struct_field(pc.extract_regex(files["stats"], STATED_ROWS), "rows"), pa.int64())
    is_clustered = pc.is_valid(files["clusteringProvider"])
    return FileFacts(
        groups=_groups(files, small_bytes, is_partitioned=bool(snapshot.metadata.partition_columns)),
        rows=None if rows.null_count else _sum(rows),
        deleted_rows=_sum(vectors),
        vectors=len(vectors) - vectors.null_count,
        without_statistics=rows.null_count,
        clustered_bytes=_sum(pc.filter(files["size"], is_clustered)),
    )


def _groups(files: pa.Table, small_bytes: int, *, is_partitioned: bool) -> tuple[Files, ...]:
    if not is_partitioned:
        return (_group(files["size"], small_bytes),) if files.num_rows else ()
    keys = pa.array([str(sorted(each or ())) for each in files["partitionValues"].to_pylist()], pa.string())
    is_small = pc.less(files["size"], small_bytes)
    table = pa.table(
        {
            "key": keys,
            "size": files["size"],
            "small": pc.cast(is_small, pa.int64()),
            "small_bytes": pc.if_else(is_small, files["size"], 0),
        }
    )
    sums = table.group_by("key").aggregate(
        [("size", "count"), ("size", "sum"), ("small", "sum"), ("small_bytes", "sum")]
    )
    columns: Iterable[Any] = zip(
        *(sums[name].to_pylist() for name in ("size_count", "size_sum", "small_sum", "small_bytes_sum")), strict=True
    )
    return tuple(Files(count=row[0], bytes=row[1], small=row[2], small_bytes=row[3]) for row in columns)


def _group(sizes: pa.ChunkedArray, small_bytes: int) -> Files:
    small = pc.filter(sizes, pc.less(sizes, small_bytes))
    return Files(count=len(sizes), bytes=_sum(sizes), small=len(small), small_bytes=_sum(small))


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)
