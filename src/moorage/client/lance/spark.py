"""Lance tables of a server in Spark: `format("lance")`. No jar is needed.

Tasks read and write fragments with pylance. The driver plans the query and makes one commit. Every executor
needs this package with its `spark` extra.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import lance
import msgspec
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_namespace import DeclareTableRequest, DescribeTableRequest, ListTableVersionsRequest, TableNotFoundError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from moorage.client.lance.lake import DELIMITER, Lake
from moorage.client.lance.marks import Mark, commit_with_mark
from moorage.client.lance.transaction import Transaction
from moorage.client.spark_types import arrow_schema, copied, fitted, spark_schema, stored_schema
from moorage.client.streams import query_id

_STORAGE: Final = "storage."
"""The prefix of options that are passed to pylance unchanged."""


def register(spark: SparkSession) -> None:
    """Register `format("lance")` in a session."""
    spark.dataSource.register(LanceSource)


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The table that a query names, and the version, columns and rows that it selects."""

    uri: str
    id: tuple[str, ...]
    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    columns: tuple[str, ...] = ()
    filter: str | None = None
    batch_size: int | None = None
    app_id: str | None = None
    app_version: int | None = None
    """The transaction of an application. The table accepts each version once, in ascending order."""
    checkpoint: str | None = None
    token: str | None = None
    storage: dict[str, str] | None = None

    def lake(self) -> Lake:
        return Lake.with_token(self.uri, self.token)

    def open(self) -> LanceDataset:
        lake, table = self.lake(), list(self.id)
        kwargs: dict[str, Any] = {"namespace_client": lake, "table_id": table, "storage_options": self.storage}
        if self.branch is None:
            return lance.dataset(version=self.tag or self.version, **kwargs)
        return lance.dataset(**kwargs).checkout_version((self.branch, self.version))

    def pinned(self, dataset: LanceDataset) -> Chosen:
        """The same selection at the version that the driver read, so that all tasks read that version."""
        tagged = dataset.tags.list()[self.tag] if self.tag is not None else {"branch": self.branch}
        return msgspec.structs.replace(self, tag=None, branch=tagged["branch"], version=dataset.version)


def _selection(options: dict[str, str]) -> Chosen:
    table = options.get("path") or options.get("table")
    if not table or "uri" not in options:
        raise ValueError('format("lance") requires option("uri", "http://…") and load/save("catalog$namespace$table")')
    selected = Chosen(
        uri=options["uri"],
        id=tuple(table.split(options.get("delimiter", DELIMITER))),
        version=_number(options, "version"),
        tag=options.get("tag"),
        branch=options.get("branch"),
        columns=tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip()),
        filter=options.get("filter"),
        batch_size=_number(options, "batchSize"),
        app_id=options.get("txnAppId"),
        app_version=_number(options, "txnVersion", at_least=0),
        checkpoint=options.get("checkpointLocation"),
        token=options.get("token"),
        storage={name[len(_STORAGE) :]: value for name, value in options.items() if name.startswith(_STORAGE)} or None,
    )
    if selected.tag is not None and (selected.version is not None or selected.branch is not None):
        raise ValueError("option 'tag' cannot be combined with 'version' or 'branch': a tag selects both")
    return selected


def transaction_of(selected: Chosen) -> Mark | None:
    if selected.app_id is None and selected.app_version is None:
        return None
    if selected.app_id is None or selected.app_version is None:
        raise ValueError("option 'txnAppId' and option 'txnVersion' must be given together")
    return Mark(selected.app_id, selected.app_version)


def _number(options: dict[str, str], name: str, *, at_least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) >= at_least):
        raise ValueError(f"option {name!r} must be a whole number of at least {at_least}, not {text!r}")
    return int(text)


class LanceSource(DataSource):
    """`spark.read.format("lance").option("uri", "http://…").load("catalog$namespace$table")`"""

    @classmethod
    def name(cls) -> str:
        return "lance"

    def schema(self) -> StructType:
        selected = _selection(self.options)
        found = selected.open().schema
        missing = [name for name in selected.columns if name not in found.names]
        if missing:
            raise ValueError(f"the table has no column {missing[0]!r}; it has {', '.join(found.names)}")
        return spark_schema([found.field(name) for name in selected.columns or found.names])

    def reader(self, schema: StructType) -> FragmentReader:
        return FragmentReader(_selection(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> FragmentWriter:  # noqa: FBT001  Spark's own signature
        return FragmentWriter(_selection(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> FragmentStreamWriter:  # noqa: FBT001, N802
        return FragmentStreamWriter(_selection(self.options), schema, overwrite=overwrite)


class Fragment(InputPartition):
    def __init__(self, id: int) -> None:
        self.id = id


class FragmentReader(DataSourceReader):
    """Reads with one task per fragment. All tasks read the same version, whatever is written in the meantime.

    Spark's filters are not pushed down. Spark (4.1 to 4.3 were tested) reuses the filters of one query for the next
    query on the same DataFrame, even if that has none, and rows would be missing. Use `option("filter", …)` instead.
    """

    def __init__(self, selected: Chosen, schema: StructType) -> None:
        dataset = selected.open()
        self._selection = selected.pinned(dataset)
        self._fragments = [fragment.fragment_id for fragment in dataset.get_fragments()]
        self._schema = arrow_schema(schema)
        # An invalid filter fails here, once, and not in every task.
        _ = dataset.scanner(filter=selected.filter).projected_schema

    def partitions(self) -> list[InputPartition]:
        return [Fragment(id) for id in self._fragments]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Fragment):
            return  # a table without rows has no fragments, but Spark still runs one task
        dataset = self._selection.open()
        fragment = dataset.get_fragment(partition.id)
        if fragment is None:
            raise LookupError(f"version {dataset.version} no longer has fragment {partition.id}")
        scanner = dataset.scanner(
            columns=self._schema.names,
            filter=self._selection.filter,
            fragments=[fragment],
            batch_size=self._selection.batch_size,
        )
        for batch in scanner.to_batches():
            yield fitted(batch, self._schema)


class Written(WriterCommitMessage):
    """The fragments that a task wrote."""

    def __init__(self, fragments: list[str]) -> None:
        self.fragments = fragments


class FragmentWriter(DataSourceArrowWriter):
    """Tasks write fragments that belong to no version yet. The driver commits all of them together.

    If the table does not exist, the same commit declares it and creates its first version.
    """

    def __init__(self, selected: Chosen, schema: StructType, *, overwrite: bool) -> None:
        if selected.version or selected.tag or selected.branch or selected.columns or selected.filter:
            raise ValueError("version, tag, branch, columns and filter select what is read; remove them to write")
        self._selection = selected
        lake = selected.lake()
        try:
            table = lake.describe_table(DescribeTableRequest(id=list(selected.id)))
            newest = lake.list_table_versions(ListTableVersionsRequest(id=list(selected.id), limit=1, descending=True))
            self._is_new, has_version = False, bool(newest.versions)
        except TableNotFoundError:
            table = lake.stage_table(DeclareTableRequest(id=list(selected.id)))
            self._is_new, has_version = True, False
        self._location, self._storage_options = table.location, selected.storage or table.storage_options
        self._schema = stored_schema(schema)
        self._read_version: int | None = None
        if has_version and not overwrite:
            self._append_to(selected.open())

    @property
    def is_append(self) -> bool:
        """Whether the table has a version to append to."""
        return self._read_version is not None

    def _append_to(self, dataset: LanceDataset) -> None:
        """Match columns by name. Columns of the table that the rows do not have become null."""
        unknown = [name for name in self._schema.names if name not in dataset.schema.names]
        if unknown:
            raise ValueError(f"the table has no column {unknown[0]!r}; it has {', '.join(dataset.schema.names)}")
        self._schema = pa.schema([field for field in dataset.schema if field.name in self._schema.names])
        self._selection, self._read_version = self._selection.pinned(dataset), dataset.version

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        batches = (fitted(copied(batch), self._schema) for batch in iterator)
        rows = pa.RecordBatchReader.from_batches(self._schema, batches)
        appending = self._read_version is not None
        fragments = write_fragments(
            rows,
            self._selection.open() if appending else self._location,
            mode="append" if appending else "overwrite",
            storage_options=self._storage_options,
        )
        return Written([json.dumps(fragment.to_json()) for fragment in fragments])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_once(messages, transaction_of(self._selection))

    def commit_once(self, messages: list[WriterCommitMessage | None], mark: Mark | None) -> None:
        written = [text for message in messages if isinstance(message, Written) for text in message.fragments]
        fragments = [FragmentMetadata.from_json(text) for text in written]
        if self._read_version is None:
            self._commit(LanceOperation.Overwrite(self._schema, fragments), mark)
        elif fragments:
            self._commit(LanceOperation.Append(fragments), mark)

    def _commit(self, operation: Any, mark: Mark | None) -> None:
        lake = self._selection.lake()
        table = {"table_id": list(self._selection.id), "namespace_client_managed_versioning": True}
        kwargs: dict[str, Any] = {"storage_options": self._storage_options, "read_version": self._read_version, **table}

        def write(transaction: Transaction) -> None:
            if self._is_new:
                transaction.declare_table(DeclareTableRequest(id=list(self._selection.id), location=self._location))
            LanceDataset.commit(self._location, operation, namespace_client=transaction, **kwargs)

        if mark is not None:
            commit_with_mark(
                lake, self._selection.id, mark, write, token=self._selection.token, storage=self._storage_options
            )
        elif self._is_new:
            with lake.transaction(storage_options=self._storage_options) as transaction:
                write(transaction)
        else:
            LanceDataset.commit(self._location, operation, namespace_client=lake, **kwargs)


class FragmentStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a stream. A batch that was committed before a crash is not committed again."""

    def __init__(self, selected: Chosen, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("a stream can only append; use outputMode('append')")
        if selected.checkpoint is None:
            raise ValueError("a stream needs option('checkpointLocation', …), so that a restart can continue it")
        self._app_id = selected.app_id or query_id(selected.checkpoint)
        self._writer = FragmentWriter(selected, schema, overwrite=False)
        if not self._writer.is_append:
            # The first version has no rows: this object commits all batches, and each must append to the one before.
            self._writer.commit_once([], None)
            self._writer = FragmentWriter(selected, schema, overwrite=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        self._writer.commit_once(messages, Mark(self._app_id, batchId))
