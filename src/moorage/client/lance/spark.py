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
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from moorage.client.lance.lake import DELIMITER, Lake
from moorage.client.spark_types import arrow_schema, copied, fitted, spark_schema, stored_schema

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
    storage: dict[str, str] | None = None

    def open(self) -> LanceDataset:
        lake, table = Lake(self.uri), list(self.id)
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
        storage={name[len(_STORAGE) :]: value for name, value in options.items() if name.startswith(_STORAGE)} or None,
    )
    if selected.tag is not None and (selected.version is not None or selected.branch is not None):
        raise ValueError("option 'tag' cannot be combined with 'version' or 'branch': a tag selects both")
    return selected


def _number(options: dict[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"option {name!r} must be a whole number above 0, not {text!r}")
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
        lake = Lake(selected.uri)
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
        written = [text for message in messages if isinstance(message, Written) for text in message.fragments]
        fragments = [FragmentMetadata.from_json(text) for text in written]
        if self._read_version is None:
            self._commit(LanceOperation.Overwrite(self._schema, fragments))
        elif fragments:
            self._commit(LanceOperation.Append(fragments))

    def _commit(self, operation: Any) -> None:
        lake = Lake(self._selection.uri)
        table = {"table_id": list(self._selection.id), "namespace_client_managed_versioning": True}
        kwargs: dict[str, Any] = {"storage_options": self._storage_options, "read_version": self._read_version, **table}
        if not self._is_new:
            LanceDataset.commit(self._location, operation, namespace_client=lake, **kwargs)
            return
        with lake.transaction(storage_options=self._storage_options) as transaction:
            transaction.declare_table(DeclareTableRequest(id=list(self._selection.id), location=self._location))
            LanceDataset.commit(self._location, operation, namespace_client=transaction, **kwargs)
