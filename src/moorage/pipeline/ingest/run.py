"""Runs an ingest: plans batches of new files, and makes each of them one version of the table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from msgspec.structs import replace

from moorage.pipeline.ingest.files import (
    Batch,
    BatchLog,
    SourceFile,
    find_files,
    input_format_of,
    location_of,
    source_id,
)
from moorage.pipeline.ingest.parsing import (
    BLOCK,
    FILE,
    RAW,
    explain,
    infer_schema,
    json_fields,
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
_OPEN_COST: Final = "spark.sql.files.openCostInBytes"
_OPEN_COST_DEFAULT: Final = "4194304b"
_MOST_UNREADABLE: Final = 100
_MOST_UNKNOWN: Final = 1000
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
    log = BatchLog(target.state_folder(source_id(request.source)))
    run = _Run(spark, request, target, kind, log, tell)
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
    total.seconds = round(time.monotonic() - started, 3)
    return total


@contextmanager
def _many_files_per_task(spark: SparkSession) -> Iterator[None]:
    """Spark counts the opening of a file as 4 MB: 10,000 small files become 313 tasks, and 313 files of the table."""
    before = spark.conf.get(_OPEN_COST)
    if before != _OPEN_COST_DEFAULT:  # the user has chosen
        yield
        return
    spark.conf.set(_OPEN_COST, "16384")
    try:
        yield
    finally:
        spark.conf.set(_OPEN_COST, before)


def _require_plausible(request: Request) -> None:
    if request.mode == "upsert" and not request.key:
        raise IngestRefused("an upsert needs the columns that identify a row: --key id")
    if request.key and request.mode != "upsert":
        raise IngestRefused("--key is for --mode upsert")


def _first_schema(spark: SparkSession, files: list[SourceFile], kind: str, request: Request) -> StructType:
    if request.schema is None:
        return infer_schema(spark, files, kind, request)
    return spark.createDataFrame([], request.schema).schema


class _Run:
    """One run over one table."""

    def __init__(
        self, spark: SparkSession, request: Request, target: Target, kind: str, log: BatchLog, tell: Tell
    ) -> None:
        self._spark, self._request, self._target, self._kind = spark, request, target, kind
        self._log, self._tell = log, tell
        self._app_id = f"ingest-{source_id(request.source)}"

    def batch(self, batch: Batch, *, is_replay: bool = False) -> Summary:
        """Run a batch. A file that cannot be read is left out, and the batch starts again without it."""
        size = sum(file.size for file in batch.files)
        self._tell(f"batch {batch.number}: {len(batch.files):,} files, {size / 1e6:,.1f} MB")
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
        self._log.finish(batch)
        return summary

    def _record_origin(self, batch: Batch, before: str | None, summary: Summary) -> None:
        """Before the batch is finished: a run that is killed here records it when it repeats the batch."""
        versions = self._target.versions_of(self._app_id, batch.number, before)
        if versions:
            counts = {name: getattr(summary, name) for name in ("rows", "files", "bytes", "rejected")}
            previous = None if batch.overwrite else before
            self._target.record(versions, previous, location_of(self._request.source), counts)

    def _attempt(self, batch: Batch, files: list[SourceFile], *, is_replay: bool) -> Summary:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        if self._request.evolve:
            self._target.add_columns(infer_schema(self._spark, files, self._kind, self._request))
        schema = self._target.columns()
        summary = Summary(table=self._request.table)
        records, fields = read_records(self._spark, files, self._kind, schema, self._request)
        seen = Observation()
        observed = records.observe(
            seen,
            f.count_if(f.col(RAW).isNull()).alias("rows"),
            f.count_if(f.col(RAW).isNotNull()).alias("rejected"),
        )
        rows = observed.where(f.col(RAW).isNull())
        columns = quoted_columns(schema)
        if self._request.mode == "upsert":
            # Read once: the rows are used twice, and MERGE refuses the order of rows as not deterministic.
            newest = self._last_of_each_key(rows, files).select(*columns).localCheckpoint()
            self._target.upsert(newest, self._request.key, self._app_id, batch.number)
        else:
            rows = rows.select(*columns)
            self._target.write(rows, self._app_id, batch.number, overwrite=batch.overwrite)
        # A replayed batch may be in the table already, and then its rows were not read, so nothing was observed.
        is_observed = not is_replay and self._request.mode != "upsert" and self._target.is_observed
        self._report(batch, records, schema, summary, seen.get if is_observed else None)
        if self._kind == "json" and files:
            fields = frozenset(json_fields(self._spark, files))
        summary.unknown_fields = unknown_of(fields, schema.names, exact=self._kind == "json")
        return summary

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

        missing = [name for name in self._request.key if name not in rows.columns]
        if missing:
            raise IngestRefused(f"'{self._request.table}' has no column {missing[0]!r} for --key")
        ages = [(_as_spark_names(file.path), age) for age, file in enumerate(files)]
        oldest_first = self._spark.createDataFrame(ages, f"{FILE} string, __age int")
        aged = rows.withColumn("__line", f.monotonically_increasing_id()).join(f.broadcast(oldest_first), FILE, "left")
        latest = Window.partitionBy(*self._request.key).orderBy(*map(f.desc_nulls_last, ("__age", BLOCK, "__line")))
        return aged.withColumn("__rank", f.row_number().over(latest)).where("__rank = 1")

    def _rejected(self, records: DataFrame, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as f

        kind, types = self._kind, {field.name: field.dataType.simpleString() for field in schema.fields}
        bad = records.where(f.col(RAW).isNotNull()).select(FILE, RAW).repartition(FILE)
        return bad.mapInArrow(
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

        name = self._request.table + REJECTED
        plain = replace(self._request, table=name, partition_by=())
        side = target_of(self._spark, plain, name)
        if side.find() is None:
            side.create(self._spark.createDataFrame([], _REJECTED_COLUMNS).schema)
        whole = rows.withColumn("batch", f.lit(batch.number).cast("long")).withColumn("at", f.current_timestamp())
        side.write(whole, f"{self._app_id}-{part}", batch.number, overwrite=False)
        summary.rejected_table = name


def unknown_of(fields: Iterable[str], columns: Iterable[str], *, exact: bool) -> list[str]:
    """The fields without a column. Names of JSON fields are compared exactly, as Spark does."""
    known = set(columns) if exact else {name.lower() for name in columns}
    return sorted(name for name in fields if (name if exact else name.lower()) not in known)[:_MOST_UNKNOWN]


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
