"""Merges into Lance tables."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from moorage.pipeline.ingest.lance_merge import merge_rows

SCHEMA = pa.schema({"id": pa.int64(), "the port": pa.string(), "n": pa.int64()})


def test_rows_of_null_keys_are_replaced(tmp_path: Path) -> None:
    """Lance alone adds such a row with every merge."""
    first = {"id": [1, None, None, 2], "the port": ["a", None, "b", None], "n": [1, 1, 1, 1]}
    dataset = lance.write_dataset(pa.table(first, SCHEMA), tmp_path / "t")
    second = {"id": [1, None, None, None, 2], "the port": ["a", None, "b", "c", "d"], "n": [2, 2, 2, 2, 2]}
    merge_rows(dataset, pa.table(second, SCHEMA), ["id", "the port"])
    found = {(row["id"], row["the port"]): row["n"] for row in dataset.to_table().to_pylist()}
    assert found == {(1, "a"): 2, (None, None): 2, (None, "b"): 2, (2, None): 1, (None, "c"): 2, (2, "d"): 2}
    assert dataset.count_rows() == len(found)
