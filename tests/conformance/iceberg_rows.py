"""Rows for Iceberg tables under every kind of partitioning, written file by file.

PyIceberg writes only identity partitions unless it is built with a Rust core.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "city", StringType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "day", DateType()),
    NestedField(5, "at", TimestamptzType()),
    NestedField(6, "seen", TimestampType()),
    NestedField(7, "weight", DoubleType()),
)
CITIES = ["Oslo", "Rome", "Kyiv", "Bonn", "Oslava", "Łódź"]
SPECS = {
    "plain": PartitionSpec(),
    "city": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")),
    "values": PartitionSpec(
        PartitionField(3, 1000, IdentityTransform(), "price"), PartitionField(4, 1001, IdentityTransform(), "day")
    ),
    "months": PartitionSpec(
        PartitionField(5, 1000, MonthTransform(), "at_month"), PartitionField(4, 1001, YearTransform(), "day_year")
    ),
    "days": PartitionSpec(
        PartitionField(6, 1000, DayTransform(), "seen_day"), PartitionField(5, 1001, HourTransform(), "at_hour")
    ),
    "buckets": PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "id_bucket"),
        PartitionField(2, 1001, BucketTransform(3), "city_bucket"),
    ),
    "truncated": PartitionSpec(
        PartitionField(3, 1000, TruncateTransform(1000), "price_truncate"),
        PartitionField(2, 1001, TruncateTransform(2), "city_truncate"),
    ),
}


def rows(first: int, count: int = 6) -> list[dict[str, Any]]:
    """Rows on both sides of zero and of 1970. No partition value is null: PyIceberg cannot read such a plan."""
    moment = datetime(1969, 12, 20, 11, 30)
    return [
        {
            "id": n,
            "city": CITIES[n % len(CITIES)],
            "price": Decimal(n * 137 - 500).scaleb(-2),
            "day": date(1969, 1, 1) + timedelta(days=97 * n),
            "at": (moment + timedelta(days=31 * n, microseconds=n)).replace(tzinfo=UTC),
            "seen": moment + timedelta(hours=13 * n, microseconds=n),
            "weight": None if n % 5 == 0 else n / 4,
        }
        for n in range(first, first + count)
    ]


def append(table: Table, found: list[dict[str, Any]]) -> None:
    """Append a snapshot with one file for each partition."""
    files = defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
    for row in found:
        files[_partition(table, row)].append(row)
    with table.transaction() as change, change.update_snapshot().fast_append() as snapshot:
        for partition, inside in files.items():
            snapshot.append_data_file(_write_file(table, partition, inside))


def _partition(table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
    columns = [table.schema().find_field(field.source_id) for field in table.spec().fields]
    return tuple(
        field.transform.transform(column.field_type)(_internal(row[column.name]))
        for field, column in zip(table.spec().fields, columns, strict=True)
    )


def _internal(value: Any) -> Any:
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    return date_to_days(value) if isinstance(value, date) else value


def _write_file(table: Table, partition: tuple[Any, ...], found: list[dict[str, Any]]) -> DataFile:
    path = Path(table.location().removeprefix("file://")) / "data" / f"{uuid4()}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(found, schema=table.schema().as_arrow()), path)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=pq.read_metadata(path),
        stats_columns=compute_statistics_plan(table.schema(), table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=path.stat().st_size,
        spec_id=table.metadata.default_spec_id,
        **statistics.to_serialized_dict(),
    )
