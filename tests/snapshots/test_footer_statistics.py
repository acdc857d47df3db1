"""Statistics of data files from their footers: every value is within the bounds, and in doubt there are none."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moorage.formats.delta import schema
from moorage.snapshots.bounds import Column
from moorage.snapshots.column_values import column_type
from moorage.snapshots.footer_statistics import footer_bytes, statistics_of


def column(*path: str, of: str | schema.Decimal) -> Column:
    kind = column_type(schema.Primitive(of) if isinstance(of, str) else of)
    assert kind is not None
    return Column(path, kind, is_partition=False)


def statistics(rows: pa.Table, *columns: Column, is_tight: bool = True) -> dict[str, Any]:
    """The statistics of a file with these rows, two in each row group, from the bytes of its footer alone."""
    file = io.BytesIO()
    pq.write_table(rows, file, row_group_size=2)
    needed = footer_bytes(file.getvalue()[-8:])
    assert needed is not None
    text = statistics_of(file.getvalue()[-needed:], columns, is_tight=is_tight)
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize(
    ("values", "of", "lower", "upper"),
    [
        (pa.array([3, None, -1], pa.int64()), "long", -1, 3),
        (pa.array([3, None, -1], pa.int32()), "long", -1, 3),  # the column was widened since
        (pa.array([3, None, -1], pa.int32()), "double", -1, 3),
        (pa.array([date(1950, 1, 2), None, date(2020, 1, 1)]), "date", "1950-01-02", "2020-01-01"),
        (
            pa.array([datetime(1969, 12, 31, 23, 59, 59, 123456, UTC)] * 2, pa.timestamp("us", "UTC")),
            "timestamp",
            "1969-12-31T23:59:59.123Z",
            "1969-12-31T23:59:59.124Z",
        ),
        (
            pa.array([datetime(1969, 12, 31, 23, 59, 59, 999999)] * 2, pa.timestamp("us")),
            "timestamp_ntz",
            "1969-12-31T23:59:59.999",
            "1970-01-01T00:00:00.000",
        ),
        (
            pa.array([Decimal("-2.25"), None, Decimal("1.50")], pa.decimal128(5, 2)),
            schema.Decimal(precision=5, scale=2),
            -2.25,
            1.5,
        ),
        (pa.array(["b" * 33, "a" * 33]), "string", "a" * 32, "b" * 32 + "\U0010ffff"),
        (pa.array(["", "ü/%"]), "string", "", "ü/%"),
    ],
)
def test_the_bounds_contain_every_value(values: pa.Array, of: Any, lower: object, upper: object) -> None:
    found = statistics(pa.table({"x": values}), column("x", of=of))
    assert (found["minValues"], found["maxValues"]) == ({"x": lower}, {"x": upper})
    assert (found["numRecords"], found["nullCount"]) == (len(values), {"x": values.null_count})


@pytest.mark.parametrize(
    ("values", "of", "has_lower"),
    [
        (pa.array([1.0, float("nan")]), "double", True),  # NaN is greater than every number
        (pa.array([float("nan")] * 3), "double", False),
        (pa.array([float("-inf"), 1.0]), "double", False),
        (pa.array([None, None], pa.int64()), "long", False),
        (pa.array([True, False]), "boolean", False),
        (pa.array([1.5, 2.5]), "long", False),  # no such change of a type is possible
        (pa.array([datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)], pa.timestamp("us", "UTC")), "timestamp", True),
        (pa.array([2**62, 2**62], pa.timestamp("us", "UTC")), "timestamp", False),
    ],
)
def test_a_bound_that_is_not_certain_is_left_out(values: pa.Array, of: str, *, has_lower: bool) -> None:
    found = statistics(pa.table({"x": values}), column("x", of=of))
    assert ("x" in found["minValues"], found["maxValues"]) == (has_lower, {})
    assert found["nullCount"] == {"x": values.null_count}


def test_nested_columns_and_names_with_dots_are_told_apart() -> None:
    rows = pa.table({"a": [{"b": 1, "l": [7]}, {"b": 2, "l": []}], "a.b": [5, 6], "m": [[{"b": 1}], []]})
    found = statistics(rows, column("a", "b", of="long"), column("a.b", of="long"), column("new", of="long"))
    assert found["minValues"] == {"a": {"b": 1}, "a.b": 5}
    assert found["maxValues"] == {"a": {"b": 2}, "a.b": 6}
    assert found["nullCount"] == {"a": {"b": 0}, "a.b": 0}


def test_bounds_of_a_file_with_deleted_rows_are_not_tight() -> None:
    rows = pa.table({"x": [1]})
    assert [statistics(rows, is_tight=tight)["tightBounds"] for tight in (True, False)] == [True, False]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not a Parquet file", b"\x00" * 100 + b"PAR1"])
def test_other_files_have_no_statistics(data: bytes) -> None:
    assert footer_bytes(data) is None or statistics_of(data, (), is_tight=True) is None
