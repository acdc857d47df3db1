"""Reads files as rows of a table: the rows that fit its columns, and the records that do not."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from moorage.pipeline.ingest.avro_files import by_schema
from moorage.pipeline.ingest.files import SourceFile, open_location
from moorage.pipeline.ingest.requests import IngestRefused, Request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

RAW: Final = "__raw"
"""The record as text, if it does not fit the columns; else null."""
FILE: Final = "__file"
BLOCK: Final = "__block"
"""Where in its file the part of the file begins that the record was read from."""
_SAMPLE_BYTES: Final = 32 * 1024 * 1024
_LINE_FORMATS: Final = ("json", "csv", "text")
_MOST_MISSED: Final = 3
"""After so many records of a file that are on none of its lines, as in another encoding, the search ends."""


def infer_schema(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, request: Request, *, whole: bool = False
) -> StructType:
    """The columns of a new table, from the first 32 MB of the source, or from the whole of it."""
    from pyspark.sql.types import StructType

    sample, size = list(files) if whole else [], 0
    for file in () if whole else files:
        sample.append(file)
        size += file.size
        if size >= _SAMPLE_BYTES:
            break
    ratio = min(1.0, _SAMPLE_BYTES / max(size, 1))
    found: dict[str, StructField] = {}
    for schema in _inferred(spark, [file.path for file in sample], kind, request, ratio):
        for field in schema.fields:
            if not field.name.startswith("_corrupt_record"):
                found.setdefault(field.name if kind == "json" else field.name.lower(), field)
    if not found:
        raise IngestRefused(f"the source '{request.source}' has no record from which columns could be inferred")
    return StructType(list(found.values())).toNullable()


def _inferred(spark: SparkSession, paths: list[str], kind: str, request: Request, ratio: float) -> Iterator[StructType]:
    match kind:
        case "json":
            yield spark.read.option("samplingRatio", ratio).json(paths).schema
        case "csv":
            # Spark takes the names of all files from the header of one.
            for members in _by_header(paths, request).values():
                reader = spark.read.option("header", request.header).option("sep", request.delimiter)
                yield reader.options(inferSchema=True).option("samplingRatio", ratio).csv(members).schema
        case "text":
            yield spark.read.text(paths).schema
        case _:
            for members in _by_columns(paths, kind):
                yield spark.read.format(kind).options(mergeSchema=True).load(members).schema


def _by_header(paths: list[str], request: Request) -> dict[tuple[str, ...], list[str]]:
    """CSV files by the names in their headers. An empty file is left out, for it has no rows."""
    if not request.header:
        return {(): paths}
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in paths:
        if header := _header(path, request.delimiter):
            groups[header].append(path)
    return groups


class Records(NamedTuple):
    """The records of files."""

    rows: DataFrame
    """The columns of the table, and RAW, FILE and BLOCK beside them."""
    fields: frozenset[str] = frozenset()
    """The names of their fields, as far as the formats of the files state them."""


def read_records(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, schema: StructType, request: Request
) -> Records:
    """The records of the files. `unknown_json_fields` tells the fields of JSON files that have no column."""
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


def _json(spark: SparkSession, paths: list[str], schema: StructType) -> Records:
    from pyspark.sql.types import StringType, StructType

    wanted = StructType([*schema.fields]).add(RAW, StringType())
    reader = spark.read.schema(wanted).option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", RAW)
    return Records(reader.json(paths).select(*quoted_columns(schema), RAW, *_place()))


def quoted_columns(schema: StructType) -> list[str]:
    return [f"`{name}`" for name in schema.names]


def _csv(spark: SparkSession, paths: list[str], schema: StructType, request: Request) -> Records:
    """Files with the same header are read together, by the names in their header and not by position."""
    from pyspark.sql.types import StringType, StructType

    groups = _by_header(paths, request) if request.header else {tuple(schema.names): paths}
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
        chosen = [_present(present.get(name.lower()), name, schema) for name in schema.names]
        frames.append(rows.select(*chosen, RAW, *_place()))
    if not frames:
        return Records(_empty(spark, schema))
    return Records(_union(frames), frozenset(name for header in groups for name in header))


def _union(frames: list[DataFrame]) -> DataFrame:
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
    """A file as text, on disk or in an object store, compressed or not."""
    system, name = open_location(path)
    return io.TextIOWrapper(system.open_input_stream(name, compression="detect"), "utf-8-sig", errors="replace")


def _text(spark: SparkSession, paths: list[str], schema: StructType) -> Records:
    from pyspark.sql import functions as f

    if len(schema.names) != 1:
        raise IngestRefused(f"text files have one column; the table has {', '.join(schema.names)}")
    rows = spark.read.text(paths).select(f.col("value").alias(schema.names[0]), *_place())
    return Records(rows.select("*", f.lit(None).cast("string").alias(RAW)))


def _columnar(spark: SparkSession, paths: list[str], kind: str, schema: StructType) -> Records:
    if not paths:
        return Records(_empty(spark, schema))
    groups = [spark.read.format(kind).options(mergeSchema=True).load(members) for members in _by_columns(paths, kind)]
    fields = frozenset(name for rows in groups for name in rows.columns)
    return Records(_union([_fitted(rows, schema) for rows in groups]), fields)


def _by_columns(paths: list[str], kind: str) -> Iterable[list[str]]:
    """Files whose columns Spark finds by itself."""
    return by_schema(paths).values() if kind == "avro" else [paths]


def _fitted(rows: DataFrame, schema: StructType) -> DataFrame:
    """Parquet and Avro know their types. A value that cannot be cast to the table's type rejects its row."""
    from pyspark.sql import functions as f

    present = {name.lower(): name for name in rows.columns}
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
    raw = f.when(bad, f.to_json(f.struct(*[f.col(f"`{name}`") for name in rows.columns]))).alias(RAW)
    return rows.select(*chosen, raw, *_place())


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    from pyspark.sql import functions as f

    rows = spark.createDataFrame([], schema)
    return rows.select(
        "*",
        f.lit(None).cast("string").alias(RAW),
        f.lit(None).cast("string").alias(FILE),
        f.lit(None).cast("long").alias(BLOCK),
    )


# --- rejected records ----------------------------------------------------------------------------------------------


def explain(kind: str, schema: dict[str, str], batches: Iterator[Any]) -> Iterator[Any]:
    """Find the line and the reason of each rejected record. Runs in Spark's tasks; the records are in their order."""
    import pyarrow as pa

    types = [("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("record", pa.string())]
    lines = LineFinder()
    for batch in batches:
        rows = []
        for path, record in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            line = lines.find(path, record) if kind in _LINE_FORMATS else None
            rows.append({"file": path, "line": line, "reason": _reason(kind, record, schema), "record": record})
        yield pa.RecordBatch.from_pylist(rows, pa.schema(types))


class LineFinder:
    """Finds the numbers of lines by their text. It reads a file once, and holds one line of it in memory.

    The lines of a file must be asked for in their order. One that does not exist costs a second pass.
    """

    def __init__(self) -> None:
        self._path: str | None = None
        self._lines: Generator[tuple[int, str]] | None = None
        self._last = self._missed = 0

    def find(self, path: str, text: str) -> int | None:
        """The number of the next line with this text. None if there is none, or the file cannot be opened here."""
        if path != self._path:
            self._path, self._missed = path, 0
            self._go_to(path, 0)
        if self._lines is None or self._missed >= _MOST_MISSED:
            return None
        for number, line in self._lines:
            if line == text:
                self._last = number
                return number
        self._missed += 1
        self._go_to(path, self._last)
        return None

    def _go_to(self, path: str, last: int) -> None:
        if self._lines is not None:
            self._lines.close()
        self._lines, self._last = _numbered_lines(path, last), last


def _numbered_lines(path: str, last: int) -> Generator[tuple[int, str]]:
    """The lines after the last one that was found."""
    with suppress(OSError), _opened(path) as source:
        for number, line in enumerate(source, 1):
            if number > last:
                yield number, line.rstrip("\r\n")


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
