"""Reads files as rows of a table: the rows that fit its columns, and the records that do not."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast
from urllib.parse import unquote, urlsplit

from moorage.pipeline.ingest.files import SourceFile
from moorage.pipeline.ingest.requests import IngestRefused, Request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

RAW: Final = "__raw"
"""The record as text, if it does not fit the columns; else null."""
FILE: Final = "__file"
UNKNOWN: Final = "__unknown"
"""The names of fields without a column."""
BLOCK: Final = "__block"
"""Where in its file the part of the file begins that the record was read from."""
_SAMPLE_BYTES: Final = 32 * 1024 * 1024


def infer_schema(spark: SparkSession, files: Sequence[SourceFile], kind: str, request: Request) -> StructType:
    """The columns of a new table, from the first 32 MB of the source."""
    sample, size = [], 0
    for file in files:
        sample.append(file)
        size += file.size
        if size >= _SAMPLE_BYTES:
            break
    paths = [file.path for file in sample]
    ratio = min(1.0, _SAMPLE_BYTES / max(size, 1))
    match kind:
        case "json":
            found = spark.read.option("samplingRatio", ratio).json(paths).schema
        case "csv":
            reader = spark.read.option("header", request.header).option("sep", request.delimiter)
            found = reader.options(inferSchema=True).option("samplingRatio", ratio).csv(paths).schema
        case "text":
            found = spark.read.text(paths).schema
        case _:
            found = spark.read.format(kind).load(paths).schema
    names = [field.name for field in found.fields if not field.name.startswith("_corrupt_record")]
    if not names:
        raise IngestRefused(f"the source '{request.source}' has no record from which columns could be inferred")
    from pyspark.sql.types import StructType

    return StructType([found[name] for name in names]).toNullable()


def read_records(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, schema: StructType, request: Request
) -> DataFrame:
    """The records of the files: the columns of the table, and RAW, FILE, BLOCK and UNKNOWN beside them."""
    paths = [file.path for file in files]
    match kind:
        case "json":
            return _json(spark, paths, schema)
        case "csv":
            return _csv(spark, paths, schema, request)
        case "text":
            return _text(spark, paths, schema)
        case _:
            return _columnar(spark, paths, kind, schema)


def _json(spark: SparkSession, paths: list[str], schema: StructType) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    text = spark.read.text(paths).select("value", *_place())
    wanted = StructType([*schema.fields]).add(RAW, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
    parsed = f.from_json(f.col("value"), wanted, options).alias("row")
    keys = f.json_object_keys("value")
    known = f.array(*[f.lit(name) for name in schema.names])
    unknown = f.coalesce(f.array_except(keys, known), f.array().cast("array<string>"))
    rows = text.where(f.length(f.trim("value")) > 0).select(parsed, FILE, BLOCK, unknown.alias(UNKNOWN))
    return rows.select("row.*", FILE, BLOCK, UNKNOWN)


def _csv(spark: SparkSession, paths: list[str], schema: StructType, request: Request) -> DataFrame:
    """Files with the same header are read together, by the names in their header and not by position."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in paths:
        header = _header(path, request.delimiter) if request.header else tuple(schema.names)
        if header:  # an empty file has no rows
            groups[header].append(path)
    known = {name.lower(): name for name in schema.names}
    frames = []
    for header, members in groups.items():
        columns = StructType()
        for name in header:
            kind = schema[known[name.lower()]].dataType if name.lower() in known else StringType()
            columns = columns.add(name, kind)
        reader = spark.read.schema(columns.add(RAW, StringType())).option("sep", request.delimiter)
        reader = reader.option("header", request.header).option("mode", "PERMISSIVE")
        rows = reader.option("columnNameOfCorruptRecord", RAW).csv(members)
        present = {name.lower(): name for name in header}
        unknown = [f.lit(name) for name in header if name.lower() not in known]
        chosen = [_present(present.get(name.lower()), name, schema) for name in schema.names]
        extra = f.array(*unknown) if unknown else f.array().cast("array<string>")
        frames.append(rows.select(*chosen, RAW, *_place(), extra.alias(UNKNOWN)))
    if not frames:
        return _empty(spark, schema)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _place() -> tuple[Column, Column]:
    from pyspark.sql import functions as f

    return f.col("_metadata.file_path").alias(FILE), f.col("_metadata.file_block_start").alias(BLOCK)


def _present(found: str | None, name: str, schema: StructType) -> Column:
    from pyspark.sql import functions as f

    if found is None:
        return f.lit(None).cast(schema[name].dataType).alias(name)
    return f.col(f"`{found}`").alias(name)


def _header(path: str, delimiter: str) -> tuple[str, ...]:
    with _opened(path) as source:
        return tuple(next(csv.reader([source.readline()], delimiter=delimiter), ()))


def _opened(path: str) -> TextIO:
    if path.endswith(".gz"):
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8-sig", errors="replace"))
    return Path(path).open(encoding="utf-8-sig", errors="replace")


def _text(spark: SparkSession, paths: list[str], schema: StructType) -> DataFrame:
    from pyspark.sql import functions as f

    if len(schema.names) != 1:
        raise IngestRefused(f"text files have one column; the table has {', '.join(schema.names)}")
    nothing = f.lit(None).cast("string").alias(RAW), f.array().cast("array<string>").alias(UNKNOWN)
    rows = spark.read.text(paths).select(f.col("value").alias(schema.names[0]), *_place())
    return rows.select("*", *nothing)


def _columnar(spark: SparkSession, paths: list[str], kind: str, schema: StructType) -> DataFrame:
    """Parquet and Avro know their types. A value that cannot be cast to the table's type rejects its row."""
    from pyspark.sql import functions as f

    rows = spark.read.format(kind).options(mergeSchema=True).load(paths)
    present = {name.lower(): name for name in rows.columns}
    known = {name.lower() for name in schema.names}
    bad: Column = f.expr("false")
    chosen = []
    for field in schema.fields:
        found = present.get(field.name.lower())
        column = _present(found, field.name, schema)
        if found is not None and rows.schema[found].dataType != field.dataType:
            cast = f.col(f"`{found}`").try_cast(field.dataType)
            bad = bad | (f.col(f"`{found}`").isNotNull() & cast.isNull())
            column = cast.alias(field.name)
        chosen.append(column)
    unknown = [f.lit(name) for name in rows.columns if name.lower() not in known]
    raw = f.when(bad, f.to_json(f.struct(*[f.col(f"`{name}`") for name in rows.columns]))).alias(RAW)
    extra = f.array(*unknown) if unknown else f.array().cast("array<string>")
    return rows.select(*chosen, raw, *_place(), extra.alias(UNKNOWN))


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    from pyspark.sql import functions as f

    rows = spark.createDataFrame([], schema)
    return rows.select(
        "*",
        f.lit(None).cast("string").alias(RAW),
        f.lit(None).cast("string").alias(FILE),
        f.lit(None).cast("long").alias(BLOCK),
        f.array().cast("array<string>").alias(UNKNOWN),
    )


# --- rejected records ----------------------------------------------------------------------------------------------


def explain(kind: str, schema: dict[str, str], batches: Iterator[Any]) -> Iterator[Any]:
    """Find the line and the reason of each rejected record. Runs in Spark's tasks, one group of files each."""
    import pyarrow as pa

    for batch in batches:
        lines: dict[str, dict[str, list[int]]] = {}
        rows = []
        for path, record in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if path not in lines:
                lines[path] = _lines_of(path)
            found = lines[path].get(record)
            line = found.pop(0) if found else None
            rows.append({"file": path, "line": line, "reason": _reason(kind, record, schema), "record": record})
        types = [("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("record", pa.string())]
        yield pa.RecordBatch.from_pylist(rows, pa.schema(types))


def _lines_of(path: str) -> dict[str, list[int]]:
    """The numbers of the lines with each text. A file that cannot be opened here has none."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return {}
    name = unquote(parts.path)
    found: dict[str, list[int]] = defaultdict(list)
    try:
        with _opened(name) as source:
            for number, line in enumerate(source, 1):
                found[line.rstrip("\r\n")].append(number)
    except OSError:
        return {}
    return found


def _reason(kind: str, record: str, schema: dict[str, str]) -> str:
    if kind != "json":
        return f"the record does not fit the columns {', '.join(f'{name} {kind}' for name, kind in schema.items())}"
    try:
        document = json.loads(record)
    except ValueError as error:
        return f"not valid JSON: {error}"
    if not isinstance(document, dict):
        return f"expected a JSON object, not {type(document).__name__}"
    for name, type_name in schema.items():
        if name in document and not _fits(document[name], type_name):
            return f"the field {name!r} is not of type {type_name}: {json.dumps(document[name])[:100]}"
    return "a field has another type than its column"


def _fits(value: Any, type_name: str) -> bool:
    if value is None or type_name == "string":
        return True
    if type_name in ("tinyint", "smallint", "int", "bigint"):
        return isinstance(value, int) and not isinstance(value, bool)
    if type_name in ("float", "double") or type_name.startswith("decimal"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if type_name == "boolean":
        return isinstance(value, bool)
    if type_name.startswith("array"):
        return isinstance(value, list)
    if type_name.startswith(("struct", "map")):
        return isinstance(value, dict)
    return not isinstance(value, bool | int | float | list | dict)
