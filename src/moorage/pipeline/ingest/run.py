"""Runs an ingest: plans batches of new files, and makes each of them one version of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from msgspec.structs import replace

from moorage.pipeline.ingest.batches import Batch, BatchLog
from moorage.pipeline.ingest.files import SourceFile, find_files, input_format_of, location_of, source_id
from moorage.pipeline.ingest.fitting import NANOSECONDS_AS_NUMBERS, changed_settings
from moorage.pipeline.ingest.parsing import (
    BLOCK,
    FILE,
    RAW,
    REJECTED,
    Records,
    explain,
    infer_schema,
    quoted_columns,
    read_records,
)
from moorage.pipeline.ingest.requests import IngestRefused, Request, Summary
from moorage.pipeline.ingest.targets import Target, target_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

Tell = Callable[[str], None]
_REJECTED_TABLE: Final = "_rejected"
"""The end of its name."""
_DURING_INGEST: Final = {
    # Spark counts the opening of a file as 4 MB: 10,000 small files become 313 tasks, and 313 files of the table.
    "spark.sql.files.openCostInBytes": ("4194304b", "16384"),
    # Spark looks up each of 10,000 files in a task of its own.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": ("10000", "64"),
    NANOSECONDS_AS_NUMBERS: ("false", "true"),
}
"""Setting → its default, and the value during an ingest."""
_MOST_UNREADABLE: Final = 100


def ingest(spark: SparkSession, request: Request, tell: Tell = lambda _: None) -> Summary:
    """Take the files of the source that were not taken yet. Run it again at any time, also after a kill."""
    require_plausible(request)
    with changed_settings(spark, _suitable_settings(spark)):
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


def _suitable_settings(spark: SparkSession) -> dict[str, str]:
    """Without those that the user chose."""
    return {name: value for name, (default, value) in _DURING_INGEST.items() if spark.conf.get(name) == default}


def require_plausible(request: Request) -> None:
    if request.mode == "upsert" and not request.key:
        raise IngestRefused("an upsert needs the columns that identify a row: --key id")
    if request.key and request.mode != "upsert":
        raise IngestRefused("--key is for --mode upsert")
    if request.partition_by and request.table_format == "lance":
        raise IngestRefused("a Lance table has no partitions; leave out --partition-by")


def _first_schema(spark: SparkSession, files: list[SourceFile], kind: str, request: Request) -> StructType:
    """The columns of a new table. A file that cannot be read has no part in them; its batch sets it aside."""
    from pyspark.sql.types import StructType

    if request.schema is not None:
        return StructType.fromDDL(request.schema)
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
        from pyspark.sql import Observation

        if self.request.evolve and files:
            self._add_columns(files)
        schema = self._target.columns()
        summary = Summary(table=self.request.table)
        records = read_records(self._spark, files, self._kind, schema, self.request)
        seen = Observation()
        rows = self._rows(records, seen, files, schema)
        with self._looking_through(files, schema) as found:
            counted = self._write(batch, rows, seen, is_replay=is_replay)
            self._report(batch, records, schema, summary, counted)
        fields, crowded = found()
        summary.unknown_fields = [*unknown_of(records.fields, schema.names), *fields]
        self._keep_rests(batch, crowded, summary)
        return summary

    def _add_columns(self, files: list[SourceFile]) -> None:
        if self._kind == "json":
            from moorage.pipeline.ingest.json_fields import look_through

            # To infer types takes as long as to read the rows.
            if not look_through(self._spark, files, self._target.columns()).fields:
                return
        self._target.add_columns(infer_schema(self._spark, files, self._kind, self.request, whole=True))

    @contextmanager
    def _looking_through(
        self, files: list[SourceFile], schema: StructType
    ) -> Iterator[Callable[[], tuple[list[str], list[str]]]]:
        """Look for what Spark leaves out of JSON files, while it writes their rows: fields, and files with some."""
        if self._kind != "json" or not files:
            yield lambda: ([], [])
            return
        from moorage.pipeline.ingest.json_fields import MOST_FIELDS, look_through

        with ThreadPoolExecutor(1, "fields") as pool:
            found = pool.submit(look_through, self._spark, files, schema)
            yield lambda: (sorted(found.result().fields)[:MOST_FIELDS], sorted(found.result().crowded))

    def _rows(self, records: Records, seen: Observation, files: list[SourceFile], schema: StructType) -> DataFrame:
        """The rows that fit the columns. `seen` counts the records."""
        from pyspark.sql import functions as f

        columns, fits = quoted_columns(schema), f.col(RAW).isNull()
        if self.request.mode == "upsert":
            return self._last_of_each_key(records.placed.where(fits), files).select(*columns)
        return records.rows.observe(seen, *_counts()).where(fits).select(*columns)

    def _write(self, batch: Batch, rows: DataFrame, seen: Observation, *, is_replay: bool) -> dict[str, Any] | None:
        """Write the rows. The result is how many records there were, if Spark has counted them."""
        if self.request.mode == "upsert":
            # Read once: the rows are used twice, and MERGE refuses the order of rows as not deterministic.
            self._target.upsert(rows.localCheckpoint(), self.request.key, self._app_id, batch.number)
            return None
        is_observed = self._target.write(rows, self._app_id, batch.number, overwrite=batch.overwrite)
        # A replayed batch may be in the table already, and then its rows were not read, so nothing was observed.
        return seen.get if is_observed and not is_replay else None

    def _report(
        self, batch: Batch, records: Records, schema: StructType, summary: Summary, counted: dict[str, Any] | None
    ) -> None:
        """Complete the summary, and keep the records that were rejected."""
        if counted is not None and not counted["rejected"]:
            summary.rows = int(counted["all"])
            return
        # Spark refuses to read nothing but the rejected records of CSV files. It reads them from a cache.
        kept = records.placed.persist()
        try:
            if counted is None:
                counted = kept.agg(*_counts()).collect()[0].asDict()
            summary.rejected = int(counted["rejected"])
            summary.rows = int(counted["all"]) - summary.rejected
            if summary.rejected:
                self._keep_rejected(batch, self._rejected(kept, schema), summary)
        finally:
            kept.unpersist()

    def _last_of_each_key(self, rows: DataFrame, files: list[SourceFile]) -> DataFrame:
        """Of several rows with one key the last wins: in the newest file, and there on the last line."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        missing = [name for name in self.request.key if name not in rows.columns]
        if missing:
            raise IngestRefused(f"'{self.request.table}' has no column {missing[0]!r} for --key")
        ages = [(file.path, age) for age, file in enumerate(files)]
        oldest_first = self._spark.createDataFrame(ages, f"{FILE} string, __age int")
        aged = rows.withColumn("__line", f.monotonically_increasing_id()).join(f.broadcast(oldest_first), FILE, "left")
        latest = Window.partitionBy(*self.request.key).orderBy(*map(f.desc_nulls_last, ("__age", BLOCK, "__line")))
        return aged.withColumn("__rank", f.row_number().over(latest)).where("__rank = 1")

    def _rejected(self, records: DataFrame, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as f

        kind, types = self._kind, {field.name: field.dataType.simpleString() for field in schema.fields}
        # Rejected JSON has its bytes as they are, also those of another encoding, which are no text for Python.
        bad = records.where(f.col(RAW).isNotNull()).select(FILE, f.make_valid_utf8(RAW).alias(RAW), BLOCK)
        # The order of the lines: their numbers are found in one pass through each file.
        placed = bad.withColumn("__order", f.monotonically_increasing_id()).repartition(FILE)
        ordered = placed.sortWithinPartitions(FILE, BLOCK, "__order").select(FILE, RAW)
        return ordered.mapInArrow(lambda batches: explain(kind, types, batches), REJECTED)

    def _keep_rests(self, batch: Batch, crowded: list[str], summary: Summary) -> None:
        """Keep what follows the first record of a line, which Spark does not read."""
        if not crowded:
            return
        from moorage.pipeline.ingest.crowded_lines import explain_rests

        files = self._spark.createDataFrame([(path,) for path in crowded], "file string").repartition(len(crowded))
        rests = files.mapInArrow(explain_rests, REJECTED).persist()
        try:
            if count := rests.count():
                summary.rejected += count
                self._keep_rejected(batch, rests, summary, part="rests")
        finally:
            rests.unpersist()

    def _keep_unreadable(self, batch: Batch, unreadable: dict[str, str], summary: Summary) -> None:
        if not unreadable:
            return
        rows = [(path, None, reason, None) for path, reason in unreadable.items()]
        self._keep_rejected(batch, self._spark.createDataFrame(rows, REJECTED), summary, part="files")
        summary.unreadable = sorted(unreadable)

    def _keep_rejected(self, batch: Batch, rows: DataFrame, summary: Summary, part: str = "rows") -> None:
        from pyspark.sql import functions as f

        name = self.request.table + _REJECTED_TABLE
        plain = replace(self.request, table=name, partition_by=())
        side = target_of(self._spark, plain, name)
        if side.find() is None:
            side.create(self._spark.createDataFrame([], f"{REJECTED}, batch long, at timestamp").schema)
        whole = rows.withColumn("batch", f.lit(batch.number).cast("long")).withColumn("at", f.current_timestamp())
        side.write(whole, f"{self._app_id}-{part}", batch.number, overwrite=False)
        summary.rejected_table = name


def _counts() -> tuple[Column, Column]:
    """How many records there are, and how many do not fit. To count what is not null is the cheapest."""
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias("all"), f.count(RAW).alias("rejected")


def unknown_of(fields: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The fields without a column. Unlike those of JSON files, names are compared without regard to case."""
    known = {name.lower() for name in columns}
    return sorted(name for name in fields if name.lower() not in known)


def _file_in(message: str, files: list[SourceFile]) -> SourceFile | None:
    """The file of the batch that an error names. A path may be in it as a URL, and that of one file in another's."""
    texts = (message, unquote(message))
    named = [file for file in files if any(file.path.removeprefix("s3a:/") in text for text in texts)]
    return max(named, key=lambda file: len(file.path), default=None)


def _first_line(message: str) -> str:
    """What an error says. Spark's has the reason in the last of its causes, and for Python the call before it."""
    lines = message.strip().split("\n")
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    thrown = [line.removeprefix(": ") for line in lines[1:2] if line.startswith(": ")]
    return (causes or thrown or lines)[-1 if causes else 0][:500]
