"""Reads files as rows of a table: the rows that fit its columns, and the records that do not."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from moorage.pipeline.ingest.files import SourceFile, open_location
from moorage.pipeline.ingest.requests import IngestRefused, Request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

RAW: Final = "__raw"
"""The record as text, if it does not fit the columns; else null."""
FILE: Final = "__file"
BLOCK: Final = "__block"
"""Where in its file the part of the file begins that the record was read from."""
_SAMPLE_BYTES: Final = 32 * 1024 * 1024
_CHUNK_BYTES: Final = 8 * 1024 * 1024
_FIELD_TASKS: Final = 64
"""The most tasks that look for the fields of JSON files."""


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


class Records(NamedTuple):
    """The records of files."""

    rows: DataFrame
    """The columns of the table, and RAW, FILE and BLOCK beside them."""
    fields: frozenset[str] = frozenset()
    """The names of their fields, as far as the formats of the files state them."""


def read_records(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, schema: StructType, request: Request
) -> Records:
    """The records of the files. `json_fields` tells the fields of JSON files."""
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
        chosen = [_present(present.get(name.lower()), name, schema) for name in schema.names]
        frames.append(rows.select(*chosen, RAW, *_place()))
    if not frames:
        return Records(_empty(spark, schema))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return Records(whole, frozenset(name for header in groups for name in header))


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
    """Parquet and Avro know their types. A value that cannot be cast to the table's type rejects its row."""
    from pyspark.sql import functions as f

    rows = spark.read.format(kind).options(mergeSchema=True).load(paths)
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
    return Records(rows.select(*chosen, raw, *_place()), frozenset(rows.columns))


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    from pyspark.sql import functions as f

    rows = spark.createDataFrame([], schema)
    return rows.select(
        "*",
        f.lit(None).cast("string").alias(RAW),
        f.lit(None).cast("string").alias(FILE),
        f.lit(None).cast("long").alias(BLOCK),
    )


# --- fields of JSON files ------------------------------------------------------------------------------------------


def json_fields(spark: SparkSession, files: Sequence[SourceFile]) -> set[str]:
    """The names of all fields in JSON files. Spark's reader leaves fields without a column out silently.

    Arrow's parser finds them at a small part of the cost of Spark's. It opens the files by itself, so Spark's parser
    replaces it where that fails: in a compression that it does not know, or without a key for the store.
    """
    paths = [file.path for file in files]
    if not any(path.endswith(".snappy") for path in paths):
        rows = spark.createDataFrame([(path,) for path in paths], "path string")
        tasks = max(1, min(len(paths), _FIELD_TASKS))
        with suppress(Exception):
            found = rows.repartition(tasks).mapInArrow(_fields_of_batches, "name string").distinct().collect()
            return {row["name"] for row in found}
    return set(spark.read.json(paths).schema.names)


def _fields_of_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs in Spark's tasks, with some files each."""
    import pyarrow as pa

    for batch in batches:
        names = {name for path in batch.column(0).to_pylist() for name in fields_of(path)}
        yield pa.RecordBatch.from_pydict({"name": pa.array(sorted(names), pa.string())})


def fields_of(path: str) -> set[str]:
    """The names of the fields in a file with one JSON record per line."""
    system, name = open_location(path)
    names, left = set[str](), b""
    with system.open_input_stream(name, compression="detect") as source:
        while data := source.read(_CHUNK_BYTES):
            whole, end, rest = (left + data).rpartition(b"\n")
            left = rest
            if end:
                names |= _fields_in(whole)
    return names | _fields_in(left)


def _fields_in(lines: bytes) -> set[str]:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    if not lines.strip():
        return set()
    try:
        options = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        return set(arrow_json.read_json(pa.BufferReader(lines), read_options=options).column_names)
    except pa.ArrowInvalid:  # one line is not JSON, or a field has values of several types
        return {name for line in lines.splitlines() for name in _fields_of_line(line)}


def _fields_of_line(line: bytes) -> Iterable[str]:
    try:
        record = json.loads(line)
    except ValueError:
        return ()
    return record if isinstance(record, dict) else ()


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
    found: dict[str, list[int]] = defaultdict(list)
    try:
        with _opened(path) as source:
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
