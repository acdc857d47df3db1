"""The table that rows go to, in one of the three formats. Each accepts a batch once, by its number."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from moorage.client import Client, ClientError
from moorage.client.answers import Table
from moorage.client.delta.keys import is_in_object_store
from moorage.client.delta.refusal import TableRefused, require_writable
from moorage.client.delta.shadows import ShadowTable
from moorage.client.delta.table import DeltaTable
from moorage.client.delta.tables import DeltaTables, Transaction, split_name
from moorage.pipeline.ingest.batches import BatchFolder, LocalFolder, StoreFolder
from moorage.pipeline.ingest.requests import IngestRefused, Request
from moorage.pipeline.stream_marks import INGEST_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from moorage.client.lance import Lake

_SNAPSHOT_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
"""The prefix of settings whose values Iceberg writes into the summary of a snapshot."""


class Target(ABC):
    """A table that exists, or is created with the first columns."""

    def __init__(self, spark: SparkSession, request: Request, name: str) -> None:
        self.spark, self.request, self.name = spark, request, name

    def find(self) -> Table | None:
        """The table, if it exists. IngestRefused if it has another format."""
        catalog, schema, table = split_name(self.name)
        with Client(self.request.url, token=self.request.token) as client:
            try:
                found = client.namespaces.table(catalog, [schema], table)
            except ClientError as error:
                if error.code == "TABLE_NOT_FOUND":
                    return None
                raise
        if found.format != self.request.table_format:
            raise IngestRefused(f"'{self.name}' is a {found.format} table; add --format {found.format}")
        return found

    def batch_folder(self, source_id: str) -> BatchFolder:
        """Where the batches of a source are recorded: in the table's own folder, so that they live as long as it."""
        found = self.find()
        if found is None or found.location is None:
            raise IngestRefused(f"'{self.name}' was dropped while the ingest began; run it again")
        location, id = found.location, found.id
        if is_in_object_store(location):
            return StoreFolder(f"{location.rstrip('/')}/_ingest/{source_id}", lambda: self._keys(id, location))
        parts = urlsplit(location)
        if parts.scheme not in ("", "file"):
            state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
            return LocalFolder(Path(state) / "moorage" / "ingest" / id / source_id)
        return LocalFolder(Path(unquote(parts.path)) / "_ingest" / source_id)

    def _keys(self, table_id: str, location: str) -> dict[str, str]:
        with DeltaTables(self.request.url, token=self.request.token) as tables:
            return tables.storage_for(table_id, location)

    def version(self) -> str | None:
        """The newest version of the table."""
        found = self.find()
        return None if found is None or found.head is None else str(found.head.version)

    def versions_of(self, app_id: str, number: int, before: str | None) -> tuple[str, ...]:
        """The versions that a batch has made: those since `before`. None are known of a batch that was repeated."""
        last = self.version()
        first = -1 if before is None else int(before)
        return () if last is None else tuple(str(version) for version in range(first + 1, int(last) + 1))

    def record(self, versions: tuple[str, ...], previous: str | None, source: str, counts: dict[str, int]) -> None:
        """Record the origin of versions in the catalog."""
        catalog, schema, table = split_name(self.name)
        columns = {name: (f"{source}#{name}",) for name in self.columns().names}
        with Client(self.request.url, token=self.request.token) as client:
            client.lineage.record(
                catalog,
                [schema],
                table,
                versions,
                previous=previous,
                sources=[source],
                columns=columns,
                counts=counts,
            )

    @abstractmethod
    def has_batch(self, app_id: str, number: int) -> bool:
        """Whether the table has this batch, or a later one."""

    @abstractmethod
    def columns(self) -> StructType: ...

    @abstractmethod
    def create(self, schema: StructType) -> None: ...

    @abstractmethod
    def add_columns(self, schema: StructType) -> None: ...

    @abstractmethod
    def write(self, rows: DataFrame, app_id: str, number: int, *, overwrite: bool) -> bool:
        """Append rows, or replace all rows. Nothing happens if the table has this batch already.

        Returns whether Spark reports what it observes of the rows. It does not if they were not read, and it loses
        sight of a DataFrame in a temporary view.
        """

    @abstractmethod
    def upsert(self, rows: DataFrame, key: tuple[str, ...], app_id: str, number: int) -> None:
        """Replace the rows with the same key and add the others. `rows` has each key once."""


class SourceTarget(Target):
    """Delta and Lance tables, through `format("moorage")`; Delta's own writer where a table demands it."""

    def has_batch(self, app_id: str, number: int) -> bool:
        if self.request.table_format == "delta":
            with self._tables() as tables:
                last = tables.state(self.name, app_id=app_id, files=0).last_transaction
            return last is not None and last >= number
        from moorage.client.lance.marks import Mark, is_marked

        return is_marked(self._lake(), split_name(self.name), Mark(app_id, number))

    def columns(self) -> StructType:
        if self.request.table_format == "delta":
            from moorage.client.delta.spark import schema_of

            with self._tables() as tables:
                return schema_of(tables.state(self.name, files=0))
        return self.spark.read.format("moorage").options(**self._options()).load(self.name).schema

    def create(self, schema: StructType) -> None:
        if self.request.table_format == "delta":  # without the processes that Spark starts for a Python data source
            from moorage.client.delta.spark import DeltaOptions, create_table

            request = self.request
            create_table(
                DeltaOptions(
                    url=request.url, token=request.token, table=self.name, partition_by=self.request.partition_by
                ),
                schema,
            )
            return
        self._writer(self.spark.createDataFrame([], schema)).mode("append").save(self.name)

    def add_columns(self, schema: StructType) -> None:
        if self.request.table_format == "lance":
            raise IngestRefused("columns cannot be added to a Lance table by an ingest; add them with pylance")
        self._writer(self.spark.createDataFrame([], schema)).options(mergeSchema=True).mode("append").save(self.name)

    def write(self, rows: DataFrame, app_id: str, number: int, *, overwrite: bool) -> bool:
        batch = Transaction(app_id, number)
        if self._demands_delta():
            table = self._delta()
            (table.overwrite if overwrite else table.append)(rows, transaction=batch)
            return False
        if self.request.table_format == "delta":  # faster than a Python data source: no row leaves the JVM
            return self._write_to_shadow(rows, batch, overwrite=overwrite)
        writer = self._writer(rows).option("txnAppId", app_id).option("txnVersion", number)
        writer.mode("overwrite" if overwrite else "append").save(self.name)
        return True

    def _write_to_shadow(self, rows: DataFrame, batch: Transaction, *, overwrite: bool) -> bool:
        """As `DeltaTable.append` does, but with a DataFrame writer, so that Spark reports the observed counts."""
        mode, is_read = "overwrite" if overwrite else "append", False

        def attempt(shadow: ShadowTable) -> None:
            nonlocal is_read
            with tables.shadows.keys(self.spark, shadow):
                rows.write.format("delta").mode(mode).save(shadow.location)
            is_read = True

        with self._tables() as tables:
            tables.shadows.change(self.name, attempt, with_files=overwrite, transaction=batch)
        return is_read

    def upsert(self, rows: DataFrame, key: tuple[str, ...], app_id: str, number: int) -> None:
        if self.request.table_format == "lance":
            self._merge_into_lance(rows, key, app_id, number)
            return
        self._delta().upsert(rows, key, transaction=Transaction(app_id, number))

    def _demands_delta(self) -> bool:
        """Whether a plain Parquet file could break a rule of the table."""
        if self.request.table_format != "delta":
            return False
        with self._tables() as tables:
            state = tables.state(self.name, files=0)
        try:
            require_writable(state.protocol.writer_features, state.configuration, state.fields)
        except TableRefused:
            return True
        return False

    def _delta(self) -> DeltaTable:
        return DeltaTable(self.spark, self.name, url=self.request.url, token=self.request.token)

    def _tables(self) -> DeltaTables:
        return DeltaTables(self.request.url, token=self.request.token)

    def _merge_into_lance(self, rows: DataFrame, key: tuple[str, ...], app_id: str, number: int) -> None:
        import lance

        from moorage.client.lance.marks import Mark, commit_with_mark
        from moorage.pipeline.ingest.lance_merge import merge_rows

        arrow, table = rows.toArrow(), list(split_name(self.name))
        if not arrow.num_rows:
            return

        def merge(transaction: Any) -> None:
            dataset = lance.dataset(namespace_client=transaction, table_id=table)
            merge_rows(dataset, arrow.cast(dataset.schema), key)

        commit_with_mark(self._lake(), table, Mark(app_id, number), merge, token=self.request.token)

    def _lake(self) -> Lake:
        from moorage.client.lance import Lake

        return Lake.with_token(self.request.url, self.request.token)

    def _options(self) -> dict[str, str]:
        options = {"url": self.request.url, "tableFormat": self.request.table_format}
        return {**options, "token": self.request.token} if self.request.token else options

    def _writer(self, rows: DataFrame):  # type: ignore[no-untyped-def]  # noqa: ANN202  a DataFrameWriter
        writer = rows.write.format("moorage").options(**self._options())
        if self.request.partition_by:
            writer = writer.option("partitionBy", ",".join(self.request.partition_by))
        return writer


class IcebergTarget(Target):
    """Iceberg tables, through Iceberg's connector. The number of a batch is in the summary of its snapshot.

    It is needed until the batch is recorded as done, so an expiry keeps the snapshot of the last batch.
    """

    def has_batch(self, app_id: str, number: int) -> bool:
        return self._snapshot_of(app_id, number) is not None

    def columns(self) -> StructType:
        return self.spark.table(self._quoted()).schema

    def version(self) -> str | None:
        current = self._metadata().get("current-snapshot-id")
        return None if current in (None, -1) else str(current)

    def versions_of(self, app_id: str, number: int, before: str | None) -> tuple[str, ...]:
        found = self._snapshot_of(app_id, number) or self.version()
        return () if found is None or found == before else (found,)

    def _snapshot_of(self, app_id: str, number: int) -> str | None:
        """The snapshot with the mark of a batch."""
        mark = self._mark(app_id, number).items()
        snapshots = self._metadata().get("snapshots") or []
        return next(
            (str(each["snapshot-id"]) for each in snapshots if mark <= (each.get("summary") or {}).items()), None
        )

    def _metadata(self) -> dict[str, Any]:
        with Client(self.request.url, token=self.request.token) as client:
            return client.pipelines.iceberg_metadata(self.name) or {}

    def create(self, schema: StructType) -> None:
        if not self.request.partition_by:  # no job, and no empty snapshot
            self.spark.catalog.createTable(self._quoted(), source="iceberg", schema=schema)
            return
        writer = self.spark.createDataFrame([], schema).writeTo(self._quoted()).using("iceberg")
        writer.partitionedBy(*self.request.partition_by).create()

    def add_columns(self, schema: StructType) -> None:
        known = {name.lower() for name in self.columns().names}
        added = [field for field in schema.fields if field.name.lower() not in known]
        if added:
            columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in added)
            self.spark.sql(f"ALTER TABLE {self._quoted()} ADD COLUMNS ({columns})")

    def write(self, rows: DataFrame, app_id: str, number: int, *, overwrite: bool) -> bool:
        from pyspark.sql.functions import lit

        writer = rows.writeTo(self._quoted())
        for key, value in self._mark(app_id, number).items():
            writer = writer.option(f"snapshot-property.{key}", value)
        write = (lambda: writer.overwrite(lit(True))) if overwrite else writer.append  # noqa: FBT003  a literal of Spark
        return self._once(write, app_id, number)

    def _once(self, write: Callable[[], object], app_id: str, number: int) -> bool:
        """Whether this call has committed the batch. The catalog refuses one that the table has."""
        if self.has_batch(app_id, number):
            return False
        try:
            write()
        except Exception:
            if self.has_batch(app_id, number):  # by another machine meanwhile
                return False
            raise
        return True

    def upsert(self, rows: DataFrame, key: tuple[str, ...], app_id: str, number: int) -> None:
        """Repeated, it would replace what another writer has changed since."""
        view = f"ingest_{number}"
        rows.createOrReplaceTempView(view)
        same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in key)
        mark = {f"{_SNAPSHOT_PROPERTY}{name}": value for name, value in self._mark(app_id, number).items()}
        for name, value in mark.items():
            self.spark.conf.set(name, value)
        try:
            merge = (
                f"MERGE INTO {self._quoted()} t USING {view} s ON {same} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            self._once(lambda: self.spark.sql(merge), app_id, number)
        finally:
            for name in mark:
                self.spark.conf.unset(name)
            self.spark.catalog.dropTempView(view)

    def _mark(self, app_id: str, number: int) -> dict[str, str]:
        return {INGEST_MARK: app_id, "moorage.batch": str(number)}

    def _quoted(self) -> str:
        return ".".join(f"`{part}`" for part in split_name(self.name))


def target_of(spark: SparkSession, request: Request, name: str) -> Target:
    return (IcebergTarget if request.table_format == "iceberg" else SourceTarget)(spark, request, name)
