"""Merges rows into a Lance table by a key. Null keys are equal, as in an upsert into the other formats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def merge_rows(dataset: Any, rows: pa.Table, key: Sequence[str]) -> None:
    """Replace the rows with the same key, and add the others. `rows` has each key once."""
    if replaced := _rows_of_null_keys(dataset, rows, key):
        dataset.delete(f"_rowid IN ({', '.join(map(str, replaced))})")
    merge = dataset.merge_insert(list(key)).when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows)


def _rows_of_null_keys(dataset: Any, rows: pa.Table, key: Sequence[str]) -> list[int]:
    """The ids of rows with the key of a new row, if a part of it is null. Lance takes such keys for different ones."""
    has_null = reduce(pc.or_, (pc.is_null(rows[name]) for name in key))
    new = {tuple(row.values()) for row in rows.select(key).filter(has_null).to_pylist()}
    if not new:
        return []
    is_null = " OR ".join(f"`{name}` IS NULL" for name in key)
    found = dataset.to_table(columns=list(key), filter=is_null, with_row_id=True).to_pylist()
    return [row["_rowid"] for row in found if tuple(row[name] for name in key) in new]
