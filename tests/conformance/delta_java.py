"""Delta's Java clients, called through PySpark's gateway: the kernel on top of one of two REST clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from moorage.testing import delta_writer as write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG, SCHEMA = "lake", "sea"
ENGINE = "moorage tests"

Java = Any
"""An object in the JVM."""


class JavaTable:
    """A managed table as the kernel sees it through one REST client."""

    def __init__(self, clients: JavaClients, rest: Java, name: str, id: str, location: str) -> None:
        self._clients, self._rest, self._kernel = clients, rest, clients.jvm.io.delta.kernel
        self.name, self.id, self.location = name, id, location
        self.folder = write.folder_of(location)
        self._managed = self._kernel.unitycatalog.UCCatalogManagedClient(rest)
        self._named = self._kernel.unitycatalog.UCTableIdentifier(CATALOG, SCHEMA, name)

    def create(self, properties: Mapping[str, str]) -> int:
        """Write 0.json, register the table, and return its version."""
        types = self._kernel.types
        schema = types.StructType().add("id", types.LongType.LONG)
        builder = self._managed.buildCreateTableTransaction(self.id, self.location, schema, ENGINE, self._named)
        transaction = builder.withTableProperties(self._clients.map(properties)).build(self._clients.engine)
        return int(
            transaction.commit(self._clients.engine, self._kernel.utils.CloseableIterable.emptyIterable()).getVersion()
        )

    def snapshot(self) -> Java:
        """The newest version, from the commits of the catalog and the folder."""
        unspecified = self._clients.jvm.java.util.Optional.empty()
        return self._managed.loadSnapshot(
            self._clients.engine, self.id, self.location, self._named, unspecified, unspecified
        )

    def append(self, snapshot: Java, *ids: int, retries: int = 10) -> int:
        """Commit a new file after a snapshot, and return its version."""
        builder = snapshot.buildUpdateTableTransaction(ENGINE, self._kernel.Operation.WRITE)
        transaction = builder.withMaxRetries(retries).build(self._clients.engine)
        state = transaction.getTransactionState(self._clients.engine)
        context = self._kernel.Transaction.getWriteContext(self._clients.engine, state, self._clients.map({}))
        file = self._write_file(ids)
        status = self._kernel.utils.DataFileStatus(
            file.as_uri(),
            file.stat().st_size,
            int(file.stat().st_mtime * 1000),
            self._statistics(len(ids)),
        )
        files = self._kernel.internal.util.Utils.toCloseableIterator(self._clients.list(status).iterator())
        actions = self._kernel.Transaction.generateAppendActions(self._clients.engine, state, files, context)
        added = self._kernel.utils.CloseableIterable.inMemoryIterable(actions)
        return int(transaction.commit(self._clients.engine, added).getVersion())

    def _statistics(self, rows: int) -> Java:
        """The number of rows of a file, which row tracking needs."""
        nothing, none = self._clients.map({}), self._clients.jvm.java.util.Optional.empty()
        counted = self._kernel.statistics.DataFileStatistics(rows, nothing, nothing, nothing, none)
        return self._clients.jvm.java.util.Optional.of(counted)

    def _write_file(self, ids: tuple[int, ...]) -> Path:
        file = self.folder / f"part-{uuid4()}.parquet"
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), file)
        return file

    def set_property(self, snapshot: Java, key: str, value: str) -> int:
        builder = snapshot.buildUpdateTableTransaction(ENGINE, self._kernel.Operation.MANUAL_UPDATE)
        transaction = builder.withTablePropertiesAdded(self._clients.map({key: value})).build(self._clients.engine)
        nothing = self._kernel.utils.CloseableIterable.emptyIterable()
        return int(transaction.commit(self._clients.engine, nothing).getVersion())

    def rows(self) -> list[int]:
        """All ids in the newest version, read from the files that its snapshot names."""
        files = self._kernel.internal.InternalScanFileUtils
        batches = self.snapshot().getScanBuilder().build().getScanFiles(self._clients.engine)
        found: list[int] = []
        while batches.hasNext():
            rows = batches.next().getRows()
            while rows.hasNext():
                path = str(files.getAddFileStatus(rows.next()).getPath())
                found += pq.read_table(write.folder_of(path))["id"].to_pylist()
        return sorted(found)

    def integers(self, *names: str) -> tuple[int, list[tuple[int | None, ...]]]:
        """The newest version, and these columns of its rows, without the rows that deletion vectors delete."""
        snapshot, engine = self.snapshot(), self._clients.engine
        fields = self._clients.list(*(snapshot.getSchema().get(name) for name in names))
        scan = snapshot.getScanBuilder().withReadSchema(self._kernel.types.StructType(fields)).build()
        state, batches = scan.getScanState(engine), scan.getScanFiles(engine)
        found: list[tuple[int | None, ...]] = []
        while batches.hasNext():
            files = batches.next().getRows()
            while files.hasNext():
                found += self._integers_in(state, files.next())
        return int(snapshot.getVersion()), found

    def _integers_in(self, state: Java, file: Java) -> list[tuple[int | None, ...]]:
        """The integers of one file of a scan."""
        internal, engine = self._kernel.internal, self._clients.engine
        status = self._clients.list(internal.InternalScanFileUtils.getAddFileStatus(file)).iterator()
        to_iterator, none = internal.util.Utils.toCloseableIterator, self._clients.jvm.java.util.Optional.empty()
        stored = internal.data.ScanStateRow.getPhysicalDataReadSchema(state)
        read = engine.getParquetHandler().readParquetFiles(to_iterator(status), stored, none)
        data = self._clients.list(*(each.getData() for each in _iterate(read)))
        batches = self._kernel.Scan.transformPhysicalData(engine, state, file, to_iterator(data.iterator()))
        return [_integers(row) for batch in _iterate(batches) for row in _iterate(batch.getRows())]

    def publish(self) -> None:
        """Copy every ratified commit to its final name."""
        self.snapshot().publish(self._clients.engine)

    def report_published(self, version: int) -> None:
        """Report to the catalog that all versions up to this one are published."""
        none, java = self._clients.jvm.java.util.Optional.empty(), self._clients.jvm.java
        self._rest.commit(
            self.id,
            java.net.URI(self.location),
            self._clients.identifier(self.name),
            none,
            self._clients.optional_long(version),
            none,
            none,
            none,
            none,
            java.util.Collections.emptyList(),
            none,
        )

    def unpublished(self, *, first: int = 0) -> tuple[list[int], int]:
        """The commits that the catalog returns from a version on, and the latest version."""
        uri, none = self._clients.jvm.java.net.URI(self.location), self._clients.jvm.java.util.Optional.empty()
        named = self._clients.identifier(self.name)
        found = self._rest.getCommits(self.id, uri, named, self._clients.optional_long(first), none)
        return sorted(int(each.getVersion()) for each in found.getCommits()), int(found.getLatestTableVersion())


def _iterate(iterator: Java) -> Iterator[Java]:
    while iterator.hasNext():
        yield iterator.next()


def _integers(row: Java) -> tuple[int | None, ...]:
    types = [str(row.getSchema().at(at).getDataType()) for at in range(row.getSchema().length())]
    get = {"long": row.getLong, "integer": row.getInt}
    return tuple(None if row.isNullAt(at) else int(get[kind](at)) for at, kind in enumerate(types))


STATIC = {"type": "static", "token": "any"}


class JavaClients:
    """The parts of Delta's jars that the tests need. `auth`: the settings `auth.…` of a Unity catalog in Spark."""

    def __init__(self, spark: SparkSession, url: str, auth: Mapping[str, str] = STATIC) -> None:
        # Spark has no public access to its JVM, and Delta's clients have no other access from Python.
        self.jvm: Java = spark._jvm
        self._new_array = spark.sparkContext._gateway.new_array
        configuration = spark._jsc.hadoopConfiguration()
        self.engine = self.jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(configuration)
        coordinator = self.jvm.io.delta.storage.commit.uccommitcoordinator
        token = self.jvm.io.unitycatalog.client.auth.TokenProvider.create(self.map(auth))
        self.older = coordinator.UCTokenBasedRestClient(url, token, self.map({"Delta": "4.4.0"}))
        supplier = self.jvm.com.google.common.base.Suppliers.ofInstance(configuration)
        settings = {"uri": url, **{f"auth.{name}": value for name, value in auth.items()}}
        self.newer = coordinator.UCDeltaTokenBasedRestClient(self.map(settings), supplier)
        self.unity = self.jvm.io.unitycatalog.client.ApiClientBuilder.create().uri(url).tokenProvider(token).build()

    def stage(self, family: str, name: str) -> tuple[JavaTable, dict[str, str]]:
        """Create a staging table, and return the properties that the catalog requires of its table."""
        if family == "preview":
            request = self.jvm.io.unitycatalog.client.model.CreateStagingTable()
            request = request.name(name).catalogName(CATALOG).schemaName(SCHEMA)
            staged = self.jvm.io.unitycatalog.client.api.TablesApi(self.unity).createStagingTable(request)
            return JavaTable(self, self.older, name, staged.getId(), staged.getStagingLocation()), {}
        staged_table = self.newer.createStagingTable(self.identifier(name))
        required = {str(key): str(value) for key, value in staged_table.getRequiredProperties().items()}
        del required["io.unitycatalog.tableId"]  # only the kernel may set it
        return JavaTable(
            self, self.newer, name, staged_table.getTableId().toString(), staged_table.getLocation()
        ), required

    def report(self, *, added: int, size: int, version: int) -> Java:
        """A report of a writer on a commit that added files."""
        none, models = self.jvm.java.util.Optional.empty(), self.jvm.io.delta.storage.commit.uccommitcoordinator
        counts = [self.longs(*numbers) for numbers in ((0, 1024), (added, 0), (size, 0))]
        histogram = self.jvm.java.util.Optional.of(models.UCDeltaModels.FileSizeHistogram(*counts, version))
        return models.UCDeltaModels.CommitReport(added, 0, size, 0, none, none, none, histogram)

    def identifier(self, name: str) -> Java:
        namespace = self._new_array(self.jvm.java.lang.String, 2)
        namespace[0], namespace[1] = CATALOG, SCHEMA
        return self.jvm.io.delta.storage.commit.TableIdentifier(namespace, name)

    def map(self, items: Mapping[str, str]) -> Java:
        java_map = self.jvm.java.util.HashMap()
        for key, value in items.items():
            java_map.put(key, value)
        return java_map

    def list(self, *items: Any) -> Java:
        java_list = self.jvm.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return java_list

    def longs(self, *numbers: int) -> Java:
        """A list of Long: the gateway would convert a small number to an Integer."""
        array = self._new_array(self.jvm.long, len(numbers))
        for index, number in enumerate(numbers):
            array[index] = number
        return self.jvm.java.util.Arrays.stream(array).boxed().toList()

    def optional_long(self, number: int) -> Java:
        """An Optional<Long>."""
        return self.longs(number).stream().findFirst()
