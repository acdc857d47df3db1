"""Data files of Delta tables: partition values, statistics, deletion vectors."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyroaring import BitMap64

from moorage.client.delta.data_files import from_text, split, to_text, write_files
from moorage.client.delta.reading import read_rows
from moorage.client.delta.refusal import TableRefused, require_writable

MOMENT = datetime(2026, 11, 16, 12, 30, 5, 123456, tzinfo=UTC)
VALUES = [
    (7, pa.int32(), "7"),
    (True, pa.bool_(), "true"),
    (date(2026, 1, 2), pa.date32(), "2026-01-02"),
    (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
    (MOMENT, pa.timestamp("us", "UTC"), "2026-11-16T12:30:05.123456Z"),
    (MOMENT.replace(tzinfo=None), pa.timestamp("us"), "2026-11-16 12:30:05.123456"),
    ("a b/ü", pa.string(), "a b/ü"),
    (None, pa.int64(), None),
]


@pytest.mark.parametrize(("value", "kind", "text"), VALUES, ids=str)
def test_a_partition_value_is_the_same_after_its_text(value: Any, kind: pa.DataType, text: str | None) -> None:
    assert to_text(pa.array([value], kind)).to_pylist() == [text]
    assert from_text(text, kind).as_py() == value


def test_an_empty_text_is_null_in_a_partition() -> None:
    assert to_text(pa.array(["", "x"])).to_pylist() == [None, "x"]


def test_rows_are_split_by_all_partition_columns() -> None:
    batch = pa.record_batch({"a": [1, 2, 1, None], "b": ["x", "x", "y", "x"], "id": [1, 2, 3, 4]})
    found = {values: rows.column("id").to_pylist() for values, rows in split(batch, ["a", "b"])}
    assert found == {("1", "x"): [1], ("2", "x"): [2], ("1", "y"): [3], (None, "x"): [4]}


def test_control_characters_in_partition_values_are_kept() -> None:
    batch = pa.record_batch({"a": ["x\1y", "\0", "x\1y", None], "b": ["\1", "x", "\1", "\0"], "id": [1, 2, 3, 4]})
    found = {values: rows.column("id").to_pylist() for values, rows in split(batch, ["a", "b"])}
    assert found == {("x\1y", "\1"): [1, 3], ("\0", "x"): [2], (None, "\0"): [4]}


@pytest.mark.parametrize("moment", [datetime(1, 1, 1, tzinfo=UTC), MOMENT, datetime(9999, 12, 31, tzinfo=UTC)], ids=str)
def test_a_timestamp_of_any_year_is_read_from_int96(tmp_path: Path, moment: datetime) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC")})
    rows = pa.table({"at": [moment]}, schema)
    parquet.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    file = {"path": "a.parquet", "partitionValues": {}}
    (batch,) = read_rows(str(tmp_path), file, schema, [], {})
    assert batch.column("at").to_pylist() == [moment]


def test_statistics_hold_bounds_and_nulls_of_plain_and_nested_columns(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {
            "id": [3, 1, None],
            "text": ["b" * 40, "a" * 40, None],
            "at": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
            "ratio": [float("nan"), 1.0, 2.0],
            "flag": [True, False, None],
            "port": [{"pier": 4}, {"pier": 2}, None],
            "tags": [["x"], [], None],
        }
    )
    (add,) = write_files([rows], rows.schema, [], tmp_path.as_uri())
    stats = json.loads(add["stats"])
    assert stats["numRecords"] == 3
    assert stats["minValues"]["id"] == 1
    assert stats["maxValues"]["id"] == 3
    assert stats["nullCount"]["id"] == 1
    assert stats["minValues"]["text"] == "a" * 32
    assert stats["maxValues"]["text"] > "b" * 40
    assert stats["minValues"]["at"] == stats["maxValues"]["at"] == "2026-11-16T12:30:05.123Z"
    assert stats["maxValues"]["port"] == {"pier": 4}
    assert "flag" not in stats["minValues"]
    assert "tags" not in stats["nullCount"]


def test_a_name_with_a_dot_is_not_a_nested_column(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {"m": [[("k", 5)]], "a": [{"b": 9}], "a.b": [1]},
        pa.schema(
            [("m", pa.map_(pa.string(), pa.int32())), ("a", pa.struct([("b", pa.int64())])), ("a.b", pa.int64())]
        ),
    )
    (add,) = write_files([rows], rows.schema, [], tmp_path.as_uri())
    assert json.loads(add["stats"])["minValues"] == {"a": {"b": 9}, "a.b": 1}


def test_a_failed_write_returns_nothing_and_closes_its_files(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": [1]})

    def batches() -> Any:
        yield rows
        raise RuntimeError("the task was killed")

    with pytest.raises(RuntimeError, match="killed"):
        write_files(batches(), rows.schema, [], tmp_path.as_uri())


@pytest.mark.parametrize("deleted", [[0], [1, 3], list(range(5)), []])
def test_rows_of_a_deletion_vector_are_not_read(tmp_path: Path, deleted: list[int]) -> None:
    rows = pa.record_batch({"id": list(range(5))})
    (add,) = write_files([rows], rows.schema, [], tmp_path.as_uri())
    data = (1681511377).to_bytes(4, "little") + BitMap64(deleted).serialize()
    path = tmp_path / "vectors.bin"
    path.write_bytes(b"\1" + len(data).to_bytes(4, "big") + data + b"\0" * 4)
    vector = {"storageType": "p", "pathOrInlineDv": path.as_uri(), "offset": 1, "sizeInBytes": len(data)}
    found = read_rows(tmp_path.as_uri(), {**add, "deletionVector": vector}, rows.schema, [], {})
    left = [value for batch in found for value in batch.column("id").to_pylist()]
    assert left == [at for at in range(5) if at not in deleted]


def test_a_column_that_a_file_lacks_is_null_and_a_partition_value_is_repeated(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": [1, 2], "day": [date(2026, 1, 2)] * 2})
    (add,) = write_files([rows], rows.schema, ["day"], tmp_path.as_uri())
    wider = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("note", pa.string())])
    (found,) = read_rows(tmp_path.as_uri(), add, wider, ["day"], {})
    assert found.to_pylist() == [{"id": at, "day": date(2026, 1, 2), "note": None} for at in (1, 2)]


@pytest.mark.parametrize(
    ("features", "configuration", "metadata", "reason"),
    [
        (["rowTracking"], {}, {}, "the feature 'rowTracking'"),
        ([], {"delta.columnMapping.mode": "name"}, {}, "columns are mapped"),
        ([], {"delta.enableChangeDataFeed": "true"}, {}, "a change data feed"),
        ([], {"delta.constraints.positive": "id > 0"}, {}, "the constraint 'positive'"),
        ([], {}, {"delta.generationExpression": "id + 1"}, "'id' is a generated column"),
        ([], {}, {"delta.identity.start": 1}, "'id' is an identity column"),
    ],
)
def test_a_table_with_rules_is_refused(
    features: list[str], configuration: dict[str, str], metadata: dict[str, Any], reason: str
) -> None:
    with pytest.raises(TableRefused, match=reason):
        require_writable(features, configuration, [{"name": "id", "metadata": metadata}])
