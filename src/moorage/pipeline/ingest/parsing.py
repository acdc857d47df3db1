"""Reads files as rows of a table: the rows that fit its columns, and the records that do not."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

import pyarrow as pa

from moorage.pipeline.ingest.csv_files import BROKEN_ARCHIVE, by_line_breaks, delimiter_of, is_utf8
from moorage.pipeline.ingest.files import SourceFile, UnreadableFile, open_location, require_distinct, spark_paths
from moorage.pipeline.ingest.fitting import columnar_frames, fitted, quoted, unknown_fields
from moorage.pipeline.ingest.requests import IngestRefused, Request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructField, StructType

RAW: Final = "__raw"
"""The record as text, if it does not fit the columns; else null."""
FILE: Final = "__file"
"""Its path, as that of a `SourceFile`."""
BLOCK: Final = "__block"
"""Where in its file the part of the file begins that the record was read from."""
_SAMPLE_BYTES: Final = 32 * 1024 * 1024
_LINE_FORMATS: Final = ("json", "csv", "text")
_QUOTE: Final = '"'
_LINE_BREAK: Final = re.compile("\r\n|\r|\n")
_INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_REPLACEMENT: Final = "\ufffd"
"""Stands for bytes that are not UTF-8."""
_READERS: Final = 16
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
    for schema in _inferred(spark, sample, kind, request, ratio):
        for field in schema.fields:
            if not field.name.startswith("_corrupt_record"):
                found.setdefault(field.name if kind == "json" else field.name.lower(), field)
    if not found:
        hint = "; a JSON file needs one record on each line" if kind == "json" else ""
        raise IngestRefused(f"the source '{request.source}' has no record from which columns could be inferred{hint}")
    return StructType(list(found.values())).toNullable()


def _inferred(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, request: Request, ratio: float
) -> Iterator[StructType]:
    paths, sizes = [file.path for file in files], {file.path: file.size for file in files}
    match kind:
        case "json":
            yield _json_schema(spark, paths, request, ratio)
        case "csv":
            # Spark takes the names of all files from the header of one.
            for (delimiter, _), members in _by_header(paths, request).items():
                for multi_line, alike in by_line_breaks(members, sizes).items():
                    reader = _csv_reader(spark, delimiter, header=request.header, multi_line=multi_line)
                    reader = reader.options(inferSchema=True).option("samplingRatio", ratio)
                    yield reader.csv(spark_paths(alike)).schema
        case "text":
            yield spark.read.text(spark_paths(paths)).schema
        case _:
            for rows in columnar_frames(spark, paths, kind):
                yield rows.schema


def _json_schema(spark: SparkSession, paths: list[str], request: Request, ratio: float) -> StructType:
    from pyspark.errors import AnalysisException

    try:
        return spark.read.option("samplingRatio", ratio).json(spark_paths(paths)).schema
    except AnalysisException as error:
        if error.getCondition() != "COLUMN_ALREADY_EXISTS":
            raise
        raise IngestRefused(
            f"the records of '{request.source}' have fields whose names differ only in case, and a table has one of "
            "them; state the columns of a new table with --schema, and leave out --evolve"
        ) from error


def _by_header(
    paths: list[str], request: Request, names: Sequence[str] = ()
) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """CSV files by their delimiter and the names in their headers, or the given ones if they have none.

    An empty file is left out, for it has no rows.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for path in paths:
        delimiter = delimiter_of(path, request.delimiter)
        if not request.header:
            groups[delimiter, tuple(names)].append(path)
        elif header := _header(path, delimiter):
            groups[delimiter, header].append(path)
    return groups


class Records(NamedTuple):
    """The records of files."""

    rows: DataFrame
    """The columns of the table, and RAW beside them."""
    placed: DataFrame
    """The same with FILE and BLOCK. Spark computes them for each record, even if a query does not use them."""
    fields: frozenset[str] = frozenset()
    """The fields that may lack a column: those of CSV headers, and those that Parquet and Avro files have besides."""


def read_records(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, schema: StructType, request: Request
) -> Records:
    """The records of the files. `look_through` tells the fields of JSON files that have no column."""
    paths = [file.path for file in files]
    match kind:
        case "json":
            return _json(spark, paths, schema)
        case "csv":
            return _csv(spark, files, schema, request)
        case "text":
            return _text(spark, paths, schema)
        case _:
            return _columnar(spark, paths, kind, schema)


def _json(spark: SparkSession, paths: list[str], schema: StructType) -> Records:
    from pyspark.sql.types import StringType, StructType

    wanted = StructType([*schema.fields]).add(RAW, StringType())
    reader = spark.read.schema(wanted).option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", RAW)
    return _records([reader.json(spark_paths(paths)).select(*quoted_columns(schema), RAW)])


def _records(frames: Sequence[DataFrame], fields: Iterable[str] = ()) -> Records:
    """What several DataFrames read together, each with the columns of the table and RAW."""
    placed = [frame.select("*", *_place()) for frame in frames]
    return Records(_union(frames), _union(placed), frozenset(fields))


def quoted_columns(schema: StructType) -> list[str]:
    return [quoted(name) for name in schema.names]


def _csv_reader(spark: SparkSession, delimiter: str, *, header: bool, multi_line: bool) -> DataFrameReader:
    """By RFC 4180: two quotes in a field are one quote, and a field in quotes may have line breaks."""
    return spark.read.options(header=header, sep=delimiter, escape=_QUOTE, multiLine=multi_line)


def _csv(spark: SparkSession, files: Sequence[SourceFile], schema: StructType, request: Request) -> Records:
    """Files with the same header are read together, by the names in their header and not by position."""
    from pyspark.sql.types import StringType, StructType

    sizes = {file.path: file.size for file in files}
    groups = _by_header(list(sizes), request, schema.names)
    known = {name.lower(): name for name in schema.names}
    frames = []
    for (delimiter, header), members in groups.items():
        columns = StructType()
        for name in header:
            kind = schema[known[name.lower()]].dataType if name.lower() in known else StringType()
            columns = columns.add(name, kind)
        columns = columns.add(RAW, StringType())
        present = {name.lower(): name for name in header}
        if known and not known.keys() & present:  # it may have no header
            raise UnreadableFile(members[0], f"its header names no column of the table: {', '.join(header)[:200]}")
        chosen = [_present(present.get(name.lower()), name, schema) for name in schema.names]
        for multi_line, alike in by_line_breaks(members, sizes).items():
            reader = _csv_reader(spark, delimiter, header=request.header, multi_line=multi_line).schema(columns)
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", RAW)
            for encoded, those in _by_encoding(alike).items():
                rows = reader.csv(spark_paths(those))
                frames.append(rows.select(*chosen, RAW if encoded else _with_odd_bytes(columns, delimiter)))
    if not frames:
        return _empty(spark, schema)
    return _records(frames, (name for _, header in groups for name in header))


def _by_encoding(paths: list[str]) -> dict[bool, list[str]]:
    """The files that are UTF-8 as a whole, and those that are not."""
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(is_utf8, paths))
    groups = {each: [path for path, is_so in zip(paths, found, strict=True) if is_so == each] for each in (True, False)}
    return {each: members for each, members in groups.items() if members}


def _with_odd_bytes(columns: StructType, delimiter: str) -> Column:
    """RAW, also of a record with bytes that are not UTF-8, which Spark has replaced."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    named = [field for field in columns.fields if field.name != RAW]
    texts = (f.col(quoted(field.name)) for field in named if isinstance(field.dataType, StringType))
    is_odd: Column = f.lit(False)  # noqa: FBT003  a literal of Spark
    for text in texts:
        is_odd = is_odd | f.coalesce(f.contains(text, f.lit(_REPLACEMENT)), f.lit(False))  # noqa: FBT003
    record = f.to_csv(f.struct(*[f.col(quoted(field.name)) for field in named]), {"sep": delimiter})
    return f.coalesce(f.col(RAW), f.when(is_odd, record)).alias(RAW)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _place() -> tuple[Column, Column]:
    from pyspark.sql import functions as f

    # Spark encodes some characters of a path as those of a URL, other ones than Python does.
    url = f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B"))
    path = f.regexp_replace(f.url_decode(url), "^file:/+", "/")
    return path.alias(FILE), f.col("_metadata.file_block_start").alias(BLOCK)


def _present(found: str | None, name: str, schema: StructType) -> Column:
    from pyspark.sql import functions as f

    if found is None:
        return f.lit(None).cast(schema[name].dataType).alias(name)
    return f.col(quoted(found)).alias(name)


def _header(path: str, delimiter: str) -> tuple[str, ...]:
    """The names in the first record, which empty lines may precede. One without a name gets that of Spark."""
    with _opened(path) as source:
        try:
            names = next(filter(None, csv.reader(source, delimiter=delimiter)), [])
        except (csv.Error, OSError) as error:
            if isinstance(error, OSError) and not BROKEN_ARCHIVE.search(str(error)):  # the store cannot be reached
                raise
            raise UnreadableFile(path, f"its header cannot be read: {error}") from None
    header = tuple(name or f"_c{at}" for at, name in enumerate(names))
    require_distinct(path, header)
    return header


def _opened(path: str) -> TextIO:
    """A file as text, on disk or in an object store, compressed or not."""
    system, name = open_location(path)
    return io.TextIOWrapper(system.open_input_stream(name, compression="detect"), "utf-8-sig", errors="replace")


def _text(spark: SparkSession, paths: list[str], schema: StructType) -> Records:
    from pyspark.sql import functions as f

    if len(schema.names) != 1:
        raise IngestRefused(f"text files have one column; the table has {', '.join(schema.names)}")
    # The lines of a file in another encoding would be values that no reader of the table can decode.
    bad = f.when(~f.is_valid_utf8("value"), f.col("value")).alias(RAW)
    return _records([spark.read.text(spark_paths(paths)).select(f.col("value").alias(schema.names[0]), bad)])


def _columnar(spark: SparkSession, paths: list[str], kind: str, schema: StructType) -> Records:
    if not paths:
        return _empty(spark, schema)
    frames = columnar_frames(spark, paths, kind)
    fields = (name for rows in frames for name in unknown_fields(rows.schema, schema))
    return _records([fitted(rows, schema, RAW) for rows in frames], fields)


def _empty(spark: SparkSession, schema: StructType) -> Records:
    from pyspark.sql import functions as f

    rows = spark.createDataFrame([], schema).select("*", f.lit(None).cast("string").alias(RAW))
    place = (f.lit(None).cast("string").alias(FILE), f.lit(None).cast("long").alias(BLOCK))
    return Records(rows, rows.select("*", *place))


# --- rejected records ----------------------------------------------------------------------------------------------

REJECTED: Final = "file string, line long, reason string, record string"
_REJECTED: Final = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("record", pa.string())]
)


def rejected(rows: Iterable[tuple[str, int | None, str, str | None]]) -> pa.RecordBatch:
    """Rows of a file, a line, a reason and a record."""
    return pa.RecordBatch.from_pylist([dict(zip(_REJECTED.names, row, strict=True)) for row in rows], _REJECTED)


def explain(kind: str, schema: dict[str, str], batches: Iterator[Any]) -> Iterator[Any]:
    """Find the line and the reason of each rejected record. Runs in Spark's tasks; the records are in their order."""
    lines = LineFinder()
    for batch in batches:
        rows = []
        for path, record in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            line = lines.find(path, record) if kind in _LINE_FORMATS else None
            rows.append((path, line, _reason(kind, record, schema), record))
        yield rejected(rows)


class LineFinder:
    """Finds the numbers of lines by their text. It reads a file once, and holds one record of it in memory.

    The lines of a file must be asked for in their order. One that does not exist costs a second pass.
    """

    def __init__(self) -> None:
        self._path: str | None = None
        self._lines: Generator[tuple[int, str]] | None = None
        self._last = self._missed = 0

    def find(self, path: str, text: str) -> int | None:
        """The number of the next line that begins this text. None if there is none, or the file cannot be opened."""
        if path != self._path:
            self._path, self._missed = path, 0
            self._go_to(path, 0)
        if self._lines is None or self._missed >= _MOST_MISSED:
            return None
        wanted = _LINE_BREAK.split(text)
        recent = deque[str](maxlen=len(wanted))
        for number, line in self._lines:
            recent.append(line)
            if line == wanted[-1] and list(recent) == wanted:
                self._last = number
                return number - len(wanted) + 1
        self._missed += 1
        self._go_to(path, self._last)
        return None

    def _go_to(self, path: str, last: int) -> None:
        if self._lines is not None:
            self._lines.close()
        self._lines, self._last = numbered_lines(path, last), last


def numbered_lines(path: str, last: int = 0) -> Generator[tuple[int, str]]:
    """The lines of a file after the one with this number. There are none if it cannot be opened."""
    with suppress(OSError), _opened(path) as source:
        for number, line in enumerate(source, 1):
            if number > last:
                yield number, line.rstrip("\r\n")


def _reason(kind: str, record: str, schema: dict[str, str]) -> str:
    if kind == "text" or (kind == "csv" and _REPLACEMENT in record):
        return "the line is not encoded in UTF-8"
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
    if (bits := _INTEGER_BITS.get(type_name)) is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
    if type_name in ("float", "double") or type_name.startswith("decimal"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if type_name == "boolean":
        return isinstance(value, bool)
    if type_name.startswith("array"):
        return isinstance(value, list)
    if type_name.startswith(("struct", "map")):
        return isinstance(value, dict)
    return not isinstance(value, bool | int | float | list | dict)
