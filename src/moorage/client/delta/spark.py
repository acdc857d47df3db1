"""Managed Delta tables in Spark, for tables whose rules a plain Parquet file cannot break.

Tasks write Parquet files with pyarrow. The driver proposes one commit through the server. Every executor needs this
package with its `spark` extra.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from moorage.client.delta.data_files import write_files
from moorage.client.delta.keys import is_in_object_store
from moorage.client.delta.locations import Storage
from moorage.client.delta.reading import read_rows
from moorage.client.delta.refusal import require_readable, require_writable
from moorage.client.delta.tables import DeltaTables, NewTable, TableState, Transaction
from moorage.client.spark_types import arrow_schema, fitted
from moorage.client.streams import query_id

_TASK_BYTES: Final = 64 * 1024 * 1024
"""Small files share a task until it has this much to read."""


class DeltaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The table that a query names, and how it is read or written."""

    url: str
    table: str
    token: str | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    overwrite_schema: bool = False
    expected_version: int | None = None
    """Write only if the table is still at this version."""
    app_id: str | None = None
    app_version: int | None = None
    checkpoint: str | None = None
    """The folder in which a stream records its progress."""
    comment: str | None = None
    storage: Storage = {}

    def tables(self) -> DeltaTables:
        return DeltaTables(self.url, token=self.token, storage=self.storage)

    def storage_for(self, table_id: str, location: str, *, write: bool) -> Storage:
        """How a task reaches the files. Every task asks anew, because temporary keys expire."""
        if self.storage or not is_in_object_store(location):
            return self.storage
        with self.tables() as tables:
            return tables.storage_for(table_id, location, write=write)

    def transaction(self) -> Transaction | None:
        if self.app_id is None and self.app_version is None:
            return None
        if self.app_id is None or self.app_version is None:
            raise ValueError("option 'txnAppId' and option 'txnVersion' must be given together")
        return Transaction(self.app_id, self.app_version)


def schema_of(state: TableState) -> StructType:
    """The columns of a table. Delta writes them as Spark does."""
    return StructType.fromJson(json.loads(state.schema_string))


class FilesPartition(InputPartition):
    def __init__(self, files: list[dict[str, Any]]) -> None:
        self.files = files


class DeltaReader(DataSourceReader):
    """Reads one version of a table. All tasks read that version, whatever is written in the meantime."""

    def __init__(self, options: DeltaOptions, schema: StructType) -> None:
        with options.tables() as tables:
            state = tables.state(options.table, version=options.version, timestamp_ms=options.timestamp_ms, files=0)
            require_readable(state.protocol.reader_features, state.configuration)
            self._files = list(tables.files(options.table, state))
        self._location, self._partition_columns = state.location, state.partition_columns
        self._table_id, self._options, self._schema = state.table_id, options, arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        tasks: list[InputPartition] = []
        files: list[dict[str, Any]] = []
        for file in self._files:
            files.append({key: file.get(key) for key in ("path", "partitionValues", "deletionVector", "size")})
            if sum(each["size"] for each in files) >= _TASK_BYTES:
                tasks.append(FilesPartition(files))
                files = []
        return [*tasks, FilesPartition(files)] if files or not tasks else tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilesPartition)  # noqa: S101  Spark passes what `partitions` returned
        storage = self._options.storage_for(self._table_id, self._location, write=False)
        for file in partition.files:
            yield from read_rows(self._location, file, self._schema, self._partition_columns, storage)


class Written(WriterCommitMessage):
    """The files that a task wrote, as `add` actions."""

    def __init__(self, adds: list[str]) -> None:
        self.adds = adds


class _Target:
    """A table as it is when a write starts: the columns to write, and where."""

    def __init__(self, options: DeltaOptions, schema: StructType, *, overwrite: bool) -> None:
        self.options, self.overwrite = options, overwrite
        _require_distinct(schema.names)
        with options.tables() as tables:
            state = tables.find(options.table)
            self.new: NewTable | None = tables.stage(options.table) if state is None else None
        self.new_schema: dict[str, Any] | None = None
        if self.new is not None:
            self.table_id, self.location = self.new.table_id, self.new.location
            self.schema_json = schema.toNullable().jsonValue()
            self.schema_string = json.dumps(self.schema_json)
            self.partition_columns = list(options.partition_by)
            self.compression = "zstd"
        elif state is not None:
            require_writable(state.protocol.writer_features, state.configuration, state.fields)
            self.table_id, self.location, self.schema_string = state.table_id, state.location, state.schema_string
            self.partition_columns = state.partition_columns
            self.compression = state.configuration.get("delta.parquet.compression.codec", "zstd").lower()
            self._fit(schema_of(state), schema.toNullable())
        _require_partitions(options, self.partition_columns, self.schema_json)
        columns = StructType.fromJson(self.schema_json)
        self.arrow = arrow_schema(StructType([columns[name] for name in self._written(columns, schema)]))

    def _written(self, columns: StructType, schema: StructType) -> list[str]:
        """The columns that files and partitions get, in the table's spelling. The others are null without it."""
        given = {name.lower() for name in schema.names}
        stored = [name for name in columns.names if name not in self.partition_columns]
        # A file without columns would have no rows.
        written = {name for name in stored if name.lower() in given} or {stored[0]}
        return [name for name in columns.names if name in written or name in self.partition_columns]

    def _fit(self, table: StructType, rows: StructType) -> None:
        """Decide the columns after this write: those of the table, unless the caller asks for others."""
        if self.overwrite and self.options.overwrite_schema:
            self.schema_json = rows.jsonValue()
            self.new_schema = self.schema_json if rows != table else None
            return
        known = {name.lower() for name in table.names}
        added = [field for field in rows.fields if field.name.lower() not in known]
        if added and not self.options.merge_schema:
            raise ValueError(
                f"'{self.options.table}' has no column {added[0].name!r}; it has {', '.join(table.names)}. "
                "Select the columns of the table, or add new ones with option('mergeSchema', 'true')"
            )
        given = {name.lower() for name in rows.names}
        missing = {field.name for field in table.fields if not field.nullable and field.name.lower() not in given}
        if missing:
            raise ValueError(f"the column {min(missing)!r} of '{self.options.table}' may not be null; provide it")
        self.schema_json = StructType([*table.fields, *added]).jsonValue()
        self.new_schema = self.schema_json if added else None

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        rows = (fitted(_completed(batch, self.arrow), self.arrow) for batch in batches)
        adds = write_files(
            (batch for batch in rows if batch.num_rows),
            self.arrow,
            self.partition_columns,
            self.location,
            storage=self.options.storage_for(self.table_id, self.location, write=True),
            compression=self.compression,
        )
        return Written([json.dumps(add) for add in adds])

    def commit(self, messages: list[WriterCommitMessage | None], transaction: Transaction | None) -> None:
        adds = [json.loads(add) for each in messages if isinstance(each, Written) for add in each.adds]
        with self.options.tables() as tables:
            if self.new is not None:
                self._create(tables, adds, transaction)
            elif adds or self.overwrite or self.new_schema is not None or transaction is not None:
                tables.commit(
                    self.options.table,
                    self.table_id,
                    self.schema_string,
                    adds,
                    overwrite=self.overwrite,
                    transaction=transaction,
                    new_schema=self.new_schema,
                    expected_version=self.options.expected_version,
                )

    def create(self) -> None:
        """Create the table without rows."""
        with self.options.tables() as tables:
            self._create(tables, [], None)

    def _create(self, tables: DeltaTables, adds: list[dict[str, Any]], transaction: Transaction | None) -> None:
        assert self.new is not None  # noqa: S101  the caller has checked it
        tables.create(
            self.new,
            self.schema_json,
            adds,
            partition_columns=self.partition_columns,
            comment=self.options.comment,
            transaction=transaction,
        )


def create_table(options: DeltaOptions, schema: StructType) -> None:
    """Create a table without rows. It needs no session of Spark."""
    _Target(options, schema, overwrite=False).create()


def _completed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with the column names of the table, which Spark compares without regard to case, and nulls for the rest."""
    names = {name.lower(): name for name in schema.names}
    batch = batch.rename_columns([names.get(name.lower(), name) for name in batch.schema.names])
    for field in schema:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return batch


def _require_distinct(names: list[str]) -> None:
    lower = [name.lower() for name in names]
    for name in names:
        if lower.count(name.lower()) > 1:
            raise ValueError(f"the rows have several columns {name!r}, apart from case; rename or drop all but one")


def _require_partitions(options: DeltaOptions, partition_columns: list[str], schema: dict[str, Any]) -> None:
    if options.partition_by and list(options.partition_by) != partition_columns:
        found = ", ".join(partition_columns) or "no column"
        raise ValueError(f"'{options.table}' is partitioned by {found}, not by {', '.join(options.partition_by)}")
    names = [field["name"] for field in schema["fields"]]
    for column in partition_columns:
        if column not in names:
            raise ValueError(f"the rows have no column {column!r} to partition by")
    if len(partition_columns) == len(names):
        raise ValueError("a table needs a column that it is not partitioned by")


class DeltaWriter(DataSourceArrowWriter):
    """Appends or overwrites. A missing table is created together with its rows."""

    def __init__(self, options: DeltaOptions, schema: StructType, *, overwrite: bool) -> None:
        if options.version is not None or options.timestamp_ms is not None:
            raise ValueError("versionAsOf and timestampAsOf select what is read; remove them to write")
        self._target = _Target(options, schema, overwrite=overwrite)
        self._transaction = options.transaction()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._target.commit(messages, self._transaction)


class DeltaStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a stream. A batch that was committed before a crash is not committed again."""

    def __init__(self, options: DeltaOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("a stream can only append; use outputMode('append')")
        if options.checkpoint is None:
            raise ValueError("a stream needs option('checkpointLocation', …), so that a restart can continue it")
        self._app_id = options.app_id or query_id(options.checkpoint)
        target = _Target(options, schema, overwrite=False)
        if target.new is not None:
            target.create()
            target = _Target(options, schema, overwrite=False)
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        self._target.commit(messages, Transaction(self._app_id, batchId))
