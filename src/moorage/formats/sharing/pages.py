"""Limits on files: as many as hold a number of rows, or a page of them in a stable order.

The order in which a snapshot holds its files depends on how it was read. Pages are therefore in the order of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.replay import FILES, Part


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_decode = msgspec.json.Decoder(_Stats).decode


class Page(NamedTuple):
    files: pa.Table
    last: str | None
    """The key of the last file, if more files follow."""


def page_of(parts: Sequence[Part], *, after: str | None, size: int | None, rows: int | None) -> Page:
    """The files that follow a key, in the order of their keys. `rows` limits all pages together."""
    tables = [_keyed(part) for part in parts]
    empty = FILES.append(pa.field("key", pa.string())).empty_table()
    files = pa.concat_tables([empty, *tables])
    if rows is not None:
        files = files.sort_by("key")
        files = files.slice(0, files_for_rows(files, rows))
    if after is not None:
        files = files.filter(pc.greater(files["key"], after))
    more = size is not None and size < files.num_rows
    files = files.take(pc.select_k_unstable(files, size, [("key", "ascending")])) if more else files.sort_by("key")
    return Page(files, files["key"][-1].as_py() if more else None)


def _keyed(part: Part) -> pa.Table:
    table = part.slab.table.append_column("key", part.slab.keys)
    return table if part.alive is None else table.filter(part.alive)


def files_for_rows(files: pa.Table, rows: int) -> int:
    """How many of the first files contain so many rows. A file without a row count adds none."""
    if rows <= 0:
        return 0
    found = 0
    for at, (stats, deleted) in enumerate(zip(files["stats"].to_pylist(), _deleted(files), strict=True), 1):
        found += max(0, _row_count(stats) - deleted)
        if found >= rows:
            return at
    return int(files.num_rows)


def rows_in(files: pa.Table) -> int:
    """The rows of these files, as far as their statistics state them."""
    pairs = zip(files["stats"].to_pylist(), _deleted(files), strict=True)
    return sum(max(0, _row_count(stats) - deleted) for stats, deleted in pairs)


def _deleted(files: pa.Table) -> list[Any]:
    vectors = files["deletionVector"]
    if vectors.null_count == len(vectors):
        return [0] * len(vectors)
    return pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).to_pylist()  # type: ignore[no-any-return]


def _row_count(stats: str | None) -> int:
    try:
        return (_decode(stats).num_records or 0) if stats else 0
    except (msgspec.MsgspecError, RecursionError):
        return 0
