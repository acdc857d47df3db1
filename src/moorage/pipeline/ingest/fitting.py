"""Fits the rows of Parquet and Avro files, which know their types, to the columns of a table.

A value that cannot become one of its column rejects its row. Fields are matched by name, in structs too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from moorage.pipeline.ingest.avro_files import by_schema
from moorage.pipeline.ingest.files import UnreadableFile, open_location, require_distinct, spark_paths

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_BROKEN_FOOTER: Final = "deserialize thrift"
_ODD_TYPES: Final = ("PARQUET_TYPE", "UNSUPPORTED_TIME_TYPE")
_APART: Final = ("CANNOT_MERGE_SCHEMAS", "COLUMN_ALREADY_EXISTS", *_ODD_TYPES)
"""Errors of Spark about files that it cannot read together, or of which it cannot read one."""
NANOSECONDS_AS_NUMBERS: Final = "spark.sql.legacy.parquet.nanosAsLong"
"""A setting of Spark. Without it, Spark refuses files with timestamps in nanoseconds, which pandas writes."""


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def columnar_frames(spark: SparkSession, paths: list[str], kind: str) -> list[DataFrame]:
    """The rows of files, read together as far as Spark can merge their columns."""

    def load(members: list[str]) -> DataFrame:
        return spark.read.format(kind).options(mergeSchema=True).load(spark_paths(members))

    if kind == "avro":
        return [load(members) for members in by_schema(paths).values()]
    try:
        with changed_settings(spark, {NANOSECONDS_AS_NUMBERS: "false"}):  # the numbers would not be told from others
            return [load(paths)]
    except Exception as error:
        if not any(each in str(error) for each in _APART):
            raise
    frames = []
    for schema, members in by_footer(paths):
        try:
            frames.append(_without_nanoseconds(load(members), schema, members[0]))
        except Exception as error:
            if any(each in str(error) for each in _ODD_TYPES):
                raise UnreadableFile(members[0], str(error)) from error
            raise
    return frames


@contextmanager
def changed_settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Give settings of Spark that have a default other values in this block."""
    before = {name: spark.conf.get(name) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _without_nanoseconds(rows: DataFrame, schema: pa.Schema, path: str) -> DataFrame:
    """Timestamps in nanoseconds, which Spark has read as numbers, in microseconds."""
    from pyspark.sql import functions as f

    columns = []
    for field in schema:
        name = quoted(field.name)
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            micros = f"{name} div 1000"
            seconds = f"CAST({micros} AS DECIMAL(18, 0)) / 1000000"
            local = f"TIMESTAMP_NTZ'1970-01-01' + make_dt_interval(0, 0, 0, {seconds})"
            columns.append(f.expr(f"timestamp_micros({micros})" if field.type.tz else local).alias(field.name))
        elif "timestamp[ns" in str(field.type):
            raise UnreadableFile(path, f"the column {field.name!r} has nanoseconds within a {field.type}")
        else:
            columns.append(f.col(name))
    return rows.select(*columns)


def by_footer(paths: Iterable[str]) -> list[tuple[pa.Schema, list[str]]]:
    """Parquet files with the same columns and types."""
    groups: dict[str, tuple[pa.Schema, list[str]]] = {}
    for path in paths:
        system, name = open_location(path)
        try:
            with system.open_input_file(name) as source:
                schema = parquet.read_schema(source)
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and _BROKEN_FOOTER not in str(error):  # the store cannot be reached
                raise
            raise UnreadableFile(path, f"not a Parquet file: {error}") from None
        require_distinct(path, schema.names)
        groups.setdefault(schema.remove_metadata().to_string(), (schema, []))[1].append(path)
    return list(groups.values())


def fitted(rows: DataFrame, schema: StructType, raw: str) -> DataFrame:
    """The columns of the table, and the row as JSON in the column `raw` if a value does not fit."""
    from pyspark.sql import functions as f

    bad: Column = f.lit(False)  # noqa: FBT003  a literal of Spark
    chosen = []
    for field in schema.fields:
        found, empty = _named(rows.schema, field.name), f.lit(None).cast(field.dataType)
        if found is None:
            chosen.append(empty.alias(field.name))
            continue
        column, fit = f.col(quoted(found.name)), _fit(rows, found.dataType, field.dataType)
        chosen.append((empty if fit is None else fit.value(column)).alias(field.name))
        if found.dataType != field.dataType:
            bad = bad | (column.isNotNull() if fit is None else fit.is_lost(column))
    record = f.to_json(f.struct(*[f.col(quoted(name)) for name in rows.columns]))
    return rows.select(*chosen, f.when(bad, record).alias(raw))


def unknown_fields(found: DataType, known: DataType, path: str = "") -> Iterator[str]:
    """The fields that a type has and another one lacks, those in structs with the path to them."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(found, ArrayType) and isinstance(known, ArrayType):
        yield from unknown_fields(found.elementType, known.elementType, path)
    elif isinstance(found, MapType) and isinstance(known, MapType):
        yield from unknown_fields(found.valueType, known.valueType, path)
    elif isinstance(found, StructType) and isinstance(known, StructType):
        for field in found.fields:
            below, same = f"{path}.{field.name}" if path else field.name, _named(known, field.name)
            if same is None:
                yield below
            else:
                yield from unknown_fields(field.dataType, same.dataType, below)


class _Fit(NamedTuple):
    """How a value becomes one of another type, and whether that loses some of it."""

    value: Callable[[Column], Column]
    is_lost: Callable[[Column], Column]


def _fit(rows: DataFrame, have: DataType, want: DataType) -> _Fit | None:
    """None if Spark knows no conversion."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if have == want:
        return _Fit(lambda column: column, lambda _: f.lit(False))  # noqa: FBT003  a literal of Spark
    match have, want:
        case StructType(), StructType():
            return _fit_struct(rows, have, want)
        case ArrayType(), ArrayType():
            if (one := _fit(rows, have.elementType, want.elementType)) is None:
                return None
            return _Fit(
                lambda column: f.transform(column, one.value),
                lambda column: column.isNotNull() & f.exists(column, one.is_lost),
            )
        case MapType(), MapType() if have.keyType == want.keyType:
            if (each := _fit(rows, have.valueType, want.valueType)) is None:
                return None
            return _Fit(
                lambda column: f.transform_values(column, lambda _, value: each.value(value)),
                lambda column: column.isNotNull() & f.exists(f.map_values(column), each.is_lost),
            )
        case _:
            return _fit_value(rows, have, want)


def _fit_struct(rows: DataFrame, have: StructType, want: StructType) -> _Fit | None:
    """By the names of the fields. A cast of Spark goes by their positions."""
    from pyspark.sql import functions as f

    found = [(field, _named(have, field.name)) for field in want.fields]
    fits = [(field, same, _fit(rows, same.dataType, field.dataType)) for field, same in found if same is not None]
    if any(fit is None for _, _, fit in fits):
        return None
    by_name = {field.name: (same, fit) for field, same, fit in fits if fit is not None}

    def part(column: Column, field: StructField) -> Column:
        if field.name not in by_name:
            return f.lit(None).cast(field.dataType).alias(field.name)
        same, fit = by_name[field.name]
        return fit.value(column.getField(same.name)).alias(field.name)

    def is_lost(column: Column) -> Column:
        lost = f.lit(False)  # noqa: FBT003  a literal of Spark
        for same, fit in by_name.values():
            lost = lost | fit.is_lost(column.getField(same.name))
        return column.isNotNull() & lost

    return _Fit(lambda column: f.when(column.isNotNull(), f.struct(*[part(column, x) for x in want.fields])), is_lost)


def _fit_value(rows: DataFrame, have: DataType, want: DataType) -> _Fit | None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f
    from pyspark.sql.types import (
        AtomicType,
        DateType,
        FractionalType,
        IntegralType,
        StringType,
        TimestampNTZType,
        TimestampType,
    )

    if not (isinstance(want, StringType) or (isinstance(have, AtomicType) and isinstance(want, AtomicType))):
        return None
    try:
        rows.select(f.lit(None).cast(have).try_cast(want)).schema  # noqa: B018  Spark Connect analyses it here
    except AnalysisException:
        return None
    is_cut = (isinstance(have, FractionalType) and isinstance(want, IntegralType)) or (
        isinstance(have, TimestampType | TimestampNTZType) and isinstance(want, DateType)
    )

    def is_lost(column: Column) -> Column:
        made = column.try_cast(want)
        lost = ~made.try_cast(have).eqNullSafe(column) if is_cut else made.isNull()
        return column.isNotNull() & lost

    return _Fit(lambda column: column.try_cast(want), is_lost)


def _named(fields: StructType, name: str) -> StructField | None:
    """The field with this name, if possible in the same case."""
    alike = [field for field in fields.fields if field.name.lower() == name.lower()]
    return next((field for field in alike if field.name == name), alike[0] if alike else None)
