"""Finds the fields of JSON lines that have no column, and lines with several records. Spark leaves both out silently.

Most lines have no such field, which `KnownNames` sees without parsing them. Only the others are parsed.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import json as arrow_json
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from moorage.pipeline.ingest.crowded_lines import may_be_crowded
from moorage.pipeline.ingest.files import PACKED, SourceFile, open_location, spark_paths
from moorage.pipeline.ingest.json_names import KnownNames, is_plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_BYTES: Final = 1024 * 1024
_PIECE_BYTES: Final = 64 * 1024 * 1024
_OPEN_BYTES: Final = 16 * 1024
"""To open a file takes about as long as to look through this much."""
_DRIVER_TASKS: Final = 2
"""So few tasks take less time in this process than Python workers of Spark need to start. Besides, on one machine the
tasks of a fast comparison would wait for those that write the rows."""
_MOST_COMPARED: Final = 64
"""To parse a text takes about as long as to compare this many names with those in it."""
_MOST_DOUBTFUL: Final = 4
"""After so many texts in a row that were parsed for nothing, the next ones are parsed without comparing."""
MOST_FIELDS: Final = 1000

_decode_lines = msgspec.json.Decoder().decode_lines


class Piece(NamedTuple):
    """The lines of a file that begin in a range of its bytes."""

    path: str
    start: int = 0
    end: int | None = None
    """None: to the end of the file."""


class OnlySparkParses(Exception):
    """A line is no JSON, but Spark's lenient parser may read it."""


class Found(NamedTuple):
    """What Spark's reader leaves out silently."""

    fields: set[str]
    """The fields without a column, those in structs with the path to them."""
    crowded: set[str]
    """The files that may have several records on a line."""


def look_through(spark: SparkSession, files: Sequence[SourceFile], schema: StructType) -> Found:
    """Read JSON files beside Spark. Its parser helps out where needed."""
    tasks = plan_tasks(files)
    is_fast = FieldScan(schema).can_compare() and spark.conf.get("spark.master", "").startswith("local")
    with suppress(Exception):
        if is_fast or len(tasks) <= _DRIVER_TASKS:
            return _joined(_found_in(task, schema) for task in tasks)
        rows = spark.range(0, len(tasks), 1, len(tasks))
        found = rows.mapInArrow(
            lambda batches: _run_tasks(batches, tasks, schema), "field string, file string"
        ).collect()
        return Found({row.field for row in found} - {None}, {row.file for row in found} - {None})
    inferred = spark.read.json(spark_paths(file.path for file in files)).schema
    return Found(set(missing_in_type(inferred, schema)), {file.path for file in files})


def plan_tasks(files: Sequence[SourceFile]) -> list[list[Piece]]:
    """Shares of similar size. A file that is not compressed may be cut."""
    tasks: list[list[Piece]] = [[]]
    size = 0
    for file in files:
        for piece, cost in _pieces(file):
            if size and size + cost > _PIECE_BYTES:
                tasks.append([])
                size = 0
            tasks[-1].append(piece)
            size += cost
    return tasks


def _pieces(file: SourceFile) -> Iterator[tuple[Piece, int]]:
    if file.path.endswith(PACKED) or file.size <= _PIECE_BYTES:
        yield Piece(file.path), file.size + _OPEN_BYTES
        return
    for start in range(0, file.size, _PIECE_BYTES):
        end = start + _PIECE_BYTES
        yield Piece(file.path, start, None if end >= file.size else end), _PIECE_BYTES


def _run_tasks(batches: Iterator[Any], tasks: Sequence[list[Piece]], schema: StructType) -> Iterator[Any]:
    """Runs in Spark. The rows are numbers of tasks."""
    for batch in batches:
        found = _joined(_found_in(tasks[number], schema) for number in batch.column(0).to_pylist())
        rows = [*((field, None) for field in found.fields), *((None, file) for file in found.crowded)]
        columns = ("field", [row[0] for row in rows]), ("file", [row[1] for row in rows])
        yield pa.RecordBatch.from_pydict({name: pa.array(values, pa.string()) for name, values in columns})


def _found_in(task: Iterable[Piece], schema: StructType) -> Found:
    scan, crowded = FieldScan(schema), set[str]()
    for piece in task:
        with closing(lines_of(piece)) as texts:
            for text in texts:
                scan.look_through(text)
                if piece.path not in crowded and may_be_crowded(text):
                    crowded.add(piece.path)
    return Found(scan.found, crowded)


def _joined(parts: Iterable[Found]) -> Found:
    found = Found(set(), set())
    for part in parts:
        found.fields.update(part.fields)
        found.crowded.update(part.crowded)
    return found


def lines_of(piece: Piece) -> Generator[bytes]:
    """The whole lines of a piece, and sometimes some lines after it."""
    position, rest = max(piece.start - 1, 0), b""
    is_inside = piece.start == 0
    with _opened(piece) as source:
        if position:
            source.seek(position)
        while data := source.read(CHUNK_BYTES):
            position += len(data)
            if not is_inside:  # the end of a line that belongs to the piece before
                _, newline, data = data.partition(b"\n")
                is_inside = bool(newline)
                if not is_inside:
                    continue
            whole, newline, last = data.rpartition(b"\n")
            if newline:
                yield rest + whole
                rest = b""
            rest += last
            if piece.end is not None and position - len(rest) >= piece.end:
                return
    yield rest


@contextmanager
def _opened(piece: Piece) -> Iterator[Any]:
    if piece.path.endswith(".snappy"):
        raise OnlySparkParses(f"'{piece.path}' is compressed in a way that only Spark reads")
    system, name = open_location(piece.path)
    if piece.path.endswith(PACKED):
        with system.open_input_stream(name, compression="detect") as stream:
            yield stream
    else:
        with system.open_input_file(name) as file:
            yield file


class FieldScan:
    """Looks through lines of JSON for fields without a column."""

    def __init__(self, schema: StructType) -> None:
        self.found: set[str] = set()
        self._schema = schema
        # A name in a struct may be that of a column elsewhere. The comparison does not tell them apart.
        self._is_comparable = all(is_flat_type(field.dataType) for field in schema.fields) and all(
            map(is_plain, schema.names)
        )
        self._names = KnownNames(schema.names)
        self._parsed_for_nothing = 0

    def look_through(self, lines: bytes) -> None:
        if len(self.found) >= MOST_FIELDS:
            return
        doubtful = self._names.lines_with_others(lines) if self.can_compare() else lines
        new = set(unknown_in(doubtful, self._schema)) - self.found
        self.found |= new
        if new:
            top = [name for name in self.found if "." not in name and name.isidentifier()]
            self._names = KnownNames([*self._schema.names, *top])
        self._parsed_for_nothing = 0 if new or len(doubtful) < len(lines) else self._parsed_for_nothing + 1

    def can_compare(self) -> bool:
        """Whether known names are seen without parsing."""
        few = len(self._names) <= _MOST_COMPARED and self._parsed_for_nothing < _MOST_DOUBTFUL
        return self._is_comparable and few


def is_flat_type(kind: DataType) -> bool:
    match kind:
        case StructType():
            return False
        case ArrayType():
            return is_flat_type(kind.elementType)
        case MapType():
            return is_flat_type(kind.valueType)
        case _:
            return True


def unknown_in(lines: bytes, schema: StructType) -> Iterable[str]:
    """Parse lines, and name the fields without a column. A line that is not JSON has no fields."""
    if not lines.strip():
        return ()
    try:
        options = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        found = arrow_json.read_json(pa.BufferReader(lines), read_options=options).schema
    except pa.ArrowInvalid:  # a line is not JSON, or a field has values of several types
        return {name for record in _records(lines) for name in missing_in_value(record, schema)}
    return missing_in_arrow(found, schema)


def _records(lines: bytes) -> Iterable[Any]:
    try:
        return _decode_lines(lines)
    except msgspec.DecodeError:
        return [record for line in lines.splitlines() for record in _record(line)]


def _record(line: bytes) -> Iterator[Any]:
    try:
        yield json.loads(line)
    except ValueError as error:
        if b"'" in line:
            raise OnlySparkParses("a line may have names in single quotes") from error


# --- comparisons with the columns ------------------------------------------------------------------------------------


def missing_in_arrow(found: Iterable[Any], known: StructType, prefix: str = "") -> Iterator[str]:
    """The fields of an Arrow schema or struct that a struct of Spark lacks."""
    for field in found:
        path = prefix + field.name
        if field.name in known.names:
            yield from _below_arrow(field.type, known[field.name].dataType, path)
        else:
            yield path


def _below_arrow(found: Any, known: DataType, path: str) -> Iterator[str]:
    if isinstance(known, ArrayType) and pa.types.is_list(found):
        yield from _below_arrow(found.value_type, known.elementType, path)
    elif isinstance(known, StructType) and pa.types.is_struct(found):
        yield from missing_in_arrow(found, known, f"{path}.")
    elif isinstance(known, MapType) and pa.types.is_struct(found):
        for field in found:
            yield from _below_arrow(field.type, known.valueType, f"{path}.*")


def missing_in_value(found: Any, known: DataType, path: str = "") -> Iterator[str]:
    """The fields of a JSON value that a type of Spark lacks."""
    if isinstance(found, list):  # Spark takes a list of records on one line as several rows
        element = known.elementType if isinstance(known, ArrayType) else known if not path else None
        for item in found if element is not None else ():
            yield from missing_in_value(item, element, path)
    elif isinstance(found, dict) and isinstance(known, StructType):
        for name, value in found.items():
            below = f"{path}.{name}" if path else name
            if name in known.names:
                yield from missing_in_value(value, known[name].dataType, below)
            else:
                yield below
    elif isinstance(found, dict) and isinstance(known, MapType):
        for value in found.values():
            yield from missing_in_value(value, known.valueType, f"{path}.*")


def missing_in_type(found: DataType, known: DataType, path: str = "") -> Iterator[str]:
    """The fields of a type of Spark that another one lacks."""
    if isinstance(found, ArrayType) and isinstance(known, ArrayType):
        yield from missing_in_type(found.elementType, known.elementType, path)
    elif isinstance(found, StructType) and isinstance(known, StructType):
        for field in found.fields:
            below = f"{path}.{field.name}" if path else field.name
            if field.name in known.names:
                yield from missing_in_type(field.dataType, known[field.name].dataType, below)
            elif field.name != "_corrupt_record":
                yield below
    elif isinstance(found, StructType) and isinstance(known, MapType):
        for field in found.fields:
            yield from missing_in_type(field.dataType, known.valueType, f"{path}.*")
