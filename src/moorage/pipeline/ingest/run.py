"""Runs an ingest: plans batches of new files, and makes each of them one version of the table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from msgspec.structs import replace

from moorage.pipeline.ingest.batches import Batch, BatchLog
from moorage.pipeline.ingest.files import SourceFile, find_files, input_format_of, location_of, source_id
from moorage.pipeline.ingest.parsing import (
    BLOCK,
    FILE,
    RAW,
    explain,
    infer_schema,
    quoted_columns,
    read_records,
)
from moorage.pipeline.ingest.requests import IngestRefused, Request, Summary
from moorage.pipeline.ingest.targets import Target, target_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Tell = Callable[[str], None]
REJECTED: Final = "_rejected"
_REJECTED_COLUMNS: Final = "file string, line long, reason string, record string, batch long, at timestamp"
_FOR_SMALL_FILES: Final = {
    # Spark counts the opening of a file as 4 MB: 10,000 small files become 313 tasks, and 313 files of the table.
    "spark.sql.files.openCostInBytes": ("4194304b", "16384"),
    # Spark looks up each of 10,000 files in a task of its own.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": ("10000", "64"),
}
"""Setting → its default, and the value during an ingest."""
_MOST_UNREADABLE: Final = 100
_PATH_IN_ERROR: Final = re.compile(r"(?:file|s3a?)://?/?[^\s\]'\"]+")


def ingest(spark: SparkSession, request: Request, tell: Tell = lambda _: None) -> Summary:
    """Take the files of the source that were not taken yet. Run it again at any time, also after a kill."""
    _require_plausible(request)
    with _many_files_per_task(spark):
        return _ingest(spark, request, tell)


def _ingest(spark: SparkSession, request: Request, tell: Tell) -> Summary:
    started, total = time.monotonic(), Summary(table=request.table)
    files = find_files(request.source)
    target = target_of(spark, request, request.table)
    kind = request.input_format or (input_format_of(files, request.source) if files else "json")
    if target.find() is None:
        if not files:
            raise IngestRefused(f"'{request.table}' does not exist, and the source '{request.source}' has no files")
        tell("inferring columns" if request.schema is None else "creating the table")
        target.create(_first_schema(spark, files, kind, request))
    log = BatchLog(target.batch_folder(source_id(request.source)))
    with log.held():
        _take_new(_Run(spark, request, target, kind, log, tell), files, total)
    total.seconds = round(time.monotonic() - started, 3)
    return total


def _take_new(run: _Run, files: list[SourceFile], total: Summary) -> None:
    log, request = run.log, run.request
    if (left := log.unfinished()) is not None:
        total.add(run.batch(left, is_replay=True))
    taken = {} if request.mode == "overwrite" else log.taken()
    new = [file for file in files if file.path not in taken]
    total.changed_files = sum(file.path in taken and file != taken[file.path] for file in files)
    if request.mode == "overwrite":
        total.add(run.batch(log.plan(new, overwrite=True)))
    else:
        for start in range(0, len(new), request.files_per_batch):
            total.add(run.batch(log.plan(new[start : start + request.files_per_batch])))


@contextmanager
def _many_files_per_task(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in _FOR_SMALL_FILES}
    changed = [
        name for name, value in before.items() if value == _FOR_SMALL_FILES[name][0]
    ]  # the user chose the others
    for name in changed:
        spark.conf.set(name, _FOR_SMALL_FILES[name][1])
    try:
        yield
    finally:
        for name in changed:
            spark.conf.set(name, before[name])


def _require_plausible(request: Request) -> None:
    if request.mode == "upsert" and not request.key:
        raise IngestRefused("an upsert needs the columns that identify a row: --key id")
    if request.key and request.mode != "upsert":
        raise IngestRefused("--key is for --mode upsert")


def _first_schema(spark: SparkSession, files: list[SourceFile], kind: str, request: Request) -> StructType:
    """The columns of a new table. A file that cannot be read has no part in them; its batch sets it aside."""
    if request.schema is not None:
        return spark.createDataFrame([], request.schema).schema
    readable = list(files)
    while True:
        try:
            return infer_schema(spark, readable, kind, request)
        except IngestRefused:
            raise
        except Exception as error:
            bad = _file_in(str(error), readable)
            if bad is None or len(files) - len(readable) >= _MOST_UNREADABLE:
                raise
            readable.remove(bad)
            if not readable:
                raise IngestRefused(f"no file of '{request.source}' can be read: {_first_line(str(error))}") from error


class _Run:
    """One run over one table."""

    def __init__(
        self, spark: SparkSession, request: Request, target: Target, kind: str, log: BatchLog, tell: Tell
    ) -> None:
        self._spark, self.request, self._target, self._kind = spark, request, target, kind
        self.log, self._tell = log, tell
        self._app_id = f"ingest-{source_id(request.source)}"

    def batch(self, batch: Batch, *, is_replay: bool = False) -> Summary:
        """Run a batch. A file that cannot be read is left out, and the batch starts again without it."""
        size = sum(file.size for file in batch.files)
        self._tell(f"batch {batch.number}: {len(batch.files):,} files, {size / 1e6:,.1f} MB")
        if not is_replay and self._target.has_batch(self._app_id, batch.number):
            # Written again, the table would ignore the rows, and the files would count as taken.
            self.log.withdraw(batch)
            raise IngestRefused(
                f"'{self.request.table}' has batch {batch.number} of '{self.request.source}' already, but the record "
                "of the files in it is missing from the table's folder (_ingest). Restore that folder from a backup"
            )
        before = self._target.version()
        readable, unreadable = list(batch.files), dict[str, str]()
        summary = None
        while summary is None:
            try:
                summary = self._attempt(batch, readable, is_replay=is_replay)
            except IngestRefused:
                raise
            except Exception as error:
                bad = _file_in(str(error), readable)
                if bad is None or len(unreadable) >= _MOST_UNREADABLE:
                    raise
                readable.remove(bad)
                unreadable[bad.path] = _first_line(str(error))
        self._keep_unreadable(batch, unreadable, summary)
        summary.files, summary.bytes = len(batch.files), size
        self._record_origin(batch, before, summary)
        self.log.finish(batch)
        return summary

    def _record_origin(self, batch: Batch, before: str | None, summary: Summary) -> None:
        """Before the batch is finished: a run that is killed here records it when it repeats the batch."""
        versions = self._target.versions_of(self._app_id, batch.number, before)
        if versions:
            counts = {name: getattr(summary, name) for name in ("rows", "files", "bytes", "rejected")}
            previous = None if batch.overwrite else before
            self._target.record(versions, previous, location_of(self.request.source), counts)

    def _attempt(self, batch: Batch, files: list[SourceFile], *, is_replay: bool) -> Summary:
        if self.request.evolve and files:
            self._add_columns(files)
        schema = self._target.columns()
        summary = Summary(table=self.request.table)
        records, fields = read_records(self._spark, files, self._kind, schema, self.request)
        with self._looking_for_fields(files, schema, fields) as unknown:
            counted = self._write(batch, files, records, schema, is_replay=is_replay)
            self._report(batch, records, schema, summary, counted)
        summary.unknown_fields = unknown()
        return summary

    def _add_columns(self, files: list[SourceFile]) -> None:
        if self._kind == "json":
            from moorage.pipeline.ingest.json_fields import unknown_json_fields

            # To infer types takes as long as to read the rows.
            if not unknown_json_fields(self._spark, files, self._target.columns()):
                return
        self._target.add_columns(infer_schema(self._spark, files, self._kind, self.request, whole=True))

    @contextmanager
    def _looking_for_fields(
        self, files: list[SourceFile], schema: StructType, fields: frozenset[str]
    ) -> Iterator[Callable[[], list[str]]]:
        """Look for fields without a column, those of JSON files while their rows are written."""
        if self._kind != "json" or not files:
            yield lambda: unknown_of(fields, schema.names)
            return
        from moorage.pipeline.ingest.json_fields import MOST_FIELDS, unknown_json_fields

        with ThreadPoolExecutor(1, "fields") as pool:
            found = pool.submit(unknown_json_fields, self._spark, files, schema)
            yield lambda: sorted(found.result())[:MOST_FIELDS]

    def _write(
        self, batch: Batch, files: list[SourceFile], records: DataFrame, schema: StructType, *, is_replay: bool
    ) -> dict[str, Any] | None:
        """Write the rows. The result is how many there were, if Spark has counted them."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        observed = records.observe(
            seen,
            f.count_if(f.col(RAW).isNull()).alias("rows"),
            f.count_if(f.col(RAW).isNotNull()).alias("rejected"),
        )
        rows = observed.where(f.col(RAW).isNull())
        columns = quoted_columns(schema)
        if self.request.mode == "upsert":
            # Read once: the rows are used twice, and MERGE refuses the order of rows as not deterministic.
            newest = self._last_of_each_key(rows, files).select(*columns).localCheckpoint()
            self._target.upsert(newest, self.request.key, self._app_id, batch.number)
        else:
            rows = rows.select(*columns)
            self._target.write(rows, self._app_id, batch.number, overwrite=batch.overwrite)
        # A replayed batch may be in the table already, and then its rows were not read, so nothing was observed.
        is_observed = not is_replay and self.request.mode != "upsert" and self._target.is_observed
        return seen.get if is_observed else None

    def _report(
        self, batch: Batch, records: DataFrame, schema: StructType, summary: Summary, counted: dict[str, Any] | None
    ) -> None:
        """Complete the summary, and keep the records that were rejected."""
        # Spark refuses to read nothing but the rejected records of CSV files. It reads them from a cache.
        kept = records.persist()
        try:
            counted = counted or self._counts(kept)
            summary.rows, summary.rejected = int(counted["rows"]), int(counted["rejected"])
            if summary.rejected:
                self._keep_rejected(batch, self._rejected(kept, schema), summary)
        finally:
            kept.unpersist()

    def _counts(self, records: DataFrame) -> dict[str, Any]:
        from pyspark.sql import functions as f

        row = records.agg(
            f.count_if(f.col(RAW).isNull()).alias("rows"),
            f.count_if(f.col(RAW).isNotNull()).alias("rejected"),
        ).first()
        return {} if row is None else row.asDict()

    def _last_of_each_key(self, rows: DataFrame, files: list[SourceFile]) -> DataFrame:
        """Of several rows with one key the last wins: in the newest file, and there on the last line."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        missing = [name for name in self.request.key if name not in rows.columns]
        if missing:
            raise IngestRefused(f"'{self.request.table}' has no column {missing[0]!r} for --key")
        ages = [(_as_spark_names(file.path), age) for age, file in enumerate(files)]
        oldest_first = self._spark.createDataFrame(ages, f"{FILE} string, __age int")
        aged = rows.withColumn("__line", f.monotonically_increasing_id()).join(f.broadcast(oldest_first), FILE, "left")
        latest = Window.partitionBy(*self.request.key).orderBy(*map(f.desc_nulls_last, ("__age", BLOCK, "__line")))
        return aged.withColumn("__rank", f.row_number().over(latest)).where("__rank = 1")

    def _rejected(self, records: DataFrame, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as f

        kind, types = self._kind, {field.name: field.dataType.simpleString() for field in schema.fields}
        bad = records.where(f.col(RAW).isNotNull()).select(FILE, RAW, BLOCK)
        # The order of the lines: their numbers are found in one pass through each file.
        placed = bad.withColumn("__order", f.monotonically_increasing_id()).repartition(FILE)
        ordered = placed.sortWithinPartitions(FILE, BLOCK, "__order").select(FILE, RAW)
        return ordered.mapInArrow(
            lambda batches: explain(kind, types, batches), "file string, line long, reason string, record string"
        )

    def _keep_unreadable(self, batch: Batch, unreadable: dict[str, str], summary: Summary) -> None:
        if not unreadable:
            return
        rows = [(path, None, reason, None) for path, reason in unreadable.items()]
        columns = "file string, line long, reason string, record string"
        self._keep_rejected(batch, self._spark.createDataFrame(rows, columns), summary, part="files")
        summary.unreadable = sorted(unreadable)

    def _keep_rejected(self, batch: Batch, rows: DataFrame, summary: Summary, part: str = "rows") -> None:
        from pyspark.sql import functions as f

        name = self.request.table + REJECTED
        plain = replace(self.request, table=name, partition_by=())
        side = target_of(self._spark, plain, name)
        if side.find() is None:
            side.create(self._spark.createDataFrame([], _REJECTED_COLUMNS).schema)
        whole = rows.withColumn("batch", f.lit(batch.number).cast("long")).withColumn("at", f.current_timestamp())
        side.write(whole, f"{self._app_id}-{part}", batch.number, overwrite=False)
        summary.rejected_table = name


def unknown_of(fields: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The fields without a column. Unlike those of JSON files, names are compared without regard to case."""
    known = {name.lower() for name in columns}
    return sorted(name for name in fields if name.lower() not in known)


def _file_in(message: str, files: list[SourceFile]) -> SourceFile | None:
    """The file of the batch that an error of Spark names."""
    named = {unquote(found).rstrip(".,;:)") for found in _PATH_IN_ERROR.findall(message)}
    tails = {re.sub(r"^(file:/+|s3a?://)", "/", name) for name in named}
    return next((file for file in files if re.sub(r"^s3a?://", "/", file.path) in tails), None)


def _as_spark_names(path: str) -> str:
    """A path as Spark spells it in the metadata of a row."""
    return Path(path).as_uri() if path.startswith("/") else path


def _first_line(message: str) -> str:
    return message.strip().split("\n", 1)[0][:500]
