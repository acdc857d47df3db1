"""Delta's own Java clients, driven through PySpark's gateway: the kernel above, one of two REST clients below."""

from __future__ import annotations

from collections.abc import Mapping
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
"""An object on the other side of the gateway."""


class JavaTable:
    """A managed table as the kernel sees it through one REST client."""

    def __init__(self, clients: JavaClients, rest: Java, name: str, id: str, location: str) -> None:
        self._clients, self._rest, self._kernel = clients, rest, clients.jvm.io.delta.kernel
        self.name, self.id, self.location = name, id, location
        self.folder = write.folder_of(location)
        self._managed = self._kernel.unitycatalog.UCCatalogManagedClient(rest)
        self._named = self._kernel.unitycatalog.UCTableIdentifier(CATALOG, SCHEMA, name)

    def create(self, properties: Mapping[str, str]) -> int:
        """Write 0.json and register the table; its version."""
        types = self._kernel.types
        schema = types.StructType().add("id", types.LongType.LONG)
        builder = self._managed.buildCreateTableTransaction(self.id, self.location, schema, ENGINE, self._named)
        made = builder.withTableProperties(self._clients.map(properties)).build(self._clients.engine)
        return int(made.commit(self._clients.engine, self._kernel.utils.CloseableIterable.emptyIterable()).getVersion())

    def snapshot(self) -> Java:
        """The newest version, from the catalog's word and the folder."""
        anything = self._clients.jvm.java.util.Optional.empty()
        return self._managed.loadSnapshot(self._clients.engine, self.id, self.location, self._named, anything, anything)

    def append(self, snapshot: Java, *ids: int, retries: int = 10) -> int:
        """Commit a new file on top of a snapshot; the version that it became."""
        builder = snapshot.buildUpdateTableTransaction(ENGINE, self._kernel.Operation.WRITE)
        transaction = builder.withMaxRetries(retries).build(self._clients.engine)
        state = transaction.getTransactionState(self._clients.engine)
        context = self._kernel.Transaction.getWriteContext(self._clients.engine, state, self._clients.map({}))
        file = self._written(ids)
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
        """How many rows a file has: row tracking counts them."""
        nothing, none = self._clients.map({}), self._clients.jvm.java.util.Optional.empty()
        counted = self._kernel.statistics.DataFileStatistics(rows, nothing, nothing, nothing, none)
        return self._clients.jvm.java.util.Optional.of(counted)

    def _written(self, ids: tuple[int, ...]) -> Path:
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

    def publish(self) -> None:
        """Copy every ratified commit to its final name."""
        self.snapshot().publish(self._clients.engine)

    def claim(self, version: int) -> None:
        """Tell the catalog that all versions up to this one are published."""
        none, java = self._clients.jvm.java.util.Optional.empty(), self._clients.jvm.java
        self._rest.commit(
            self.id,
            java.net.URI(self.location),
            self._clients.identifier(self.name),
            none,
            self._clients.a_long(version),
            none,
            none,
            none,
            none,
            java.util.Collections.emptyList(),
            none,
        )

    def told(self, *, first: int = 0) -> tuple[list[int], int]:
        """The commits that the catalog names from a version on, and the latest version."""
        uri, none = self._clients.jvm.java.net.URI(self.location), self._clients.jvm.java.util.Optional.empty()
        named = self._clients.identifier(self.name)
        found = self._rest.getCommits(self.id, uri, named, self._clients.a_long(first), none)
        return sorted(int(each.getVersion()) for each in found.getCommits()), int(found.getLatestTableVersion())


class JavaClients:
    """What the tests need of a JVM that has Delta's jars."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        # Spark offers no public way to its JVM, and Delta's clients no other way to Python.
        self.jvm: Java = spark._jvm
        self._new_array = spark.sparkContext._gateway.new_array
        configuration = spark._jsc.hadoopConfiguration()
        self.engine = self.jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(configuration)
        coordinator = self.jvm.io.delta.storage.commit.uccommitcoordinator
        token = self.jvm.io.unitycatalog.client.auth.TokenProvider.create(self.map({"type": "static", "token": "any"}))
        self.older = coordinator.UCTokenBasedRestClient(url, token, self.map({"Delta": "4.4.0"}))
        supplier = self.jvm.com.google.common.base.Suppliers.ofInstance(configuration)
        self.newer = coordinator.UCDeltaTokenBasedRestClient(self.map({"uri": url, "token": "any"}), supplier)
        self.unity = self.jvm.io.unitycatalog.client.ApiClientBuilder.create().uri(url).tokenProvider(token).build()

    def stage(self, family: str, name: str) -> tuple[JavaTable, dict[str, str]]:
        """A place for a table, and the properties that the catalog asks of it."""
        if family == "preview":
            wanted = self.jvm.io.unitycatalog.client.model.CreateStagingTable()
            wanted = wanted.name(name).catalogName(CATALOG).schemaName(SCHEMA)
            staged = self.jvm.io.unitycatalog.client.api.TablesApi(self.unity).createStagingTable(wanted)
            return JavaTable(self, self.older, name, staged.getId(), staged.getStagingLocation()), {}
        given = self.newer.createStagingTable(self.identifier(name))
        asked = {str(key): str(value) for key, value in given.getRequiredProperties().items()}
        del asked["io.unitycatalog.tableId"]  # the kernel sets it by itself, and nobody else may
        return JavaTable(self, self.newer, name, given.getTableId().toString(), given.getLocation()), asked

    def report(self, *, added: int, size: int, version: int) -> Java:
        """What a writer tells of a commit that added files."""
        none, models = self.jvm.java.util.Optional.empty(), self.jvm.io.delta.storage.commit.uccommitcoordinator
        counts = [self.longs(*numbers) for numbers in ((0, 1024), (added, 0), (size, 0))]
        histogram = self.jvm.java.util.Optional.of(models.UCDeltaModels.FileSizeHistogram(*counts, version))
        return models.UCDeltaModels.CommitReport(added, 0, size, 0, none, none, none, histogram)

    def identifier(self, name: str) -> Java:
        namespace = self._new_array(self.jvm.java.lang.String, 2)
        namespace[0], namespace[1] = CATALOG, SCHEMA
        return self.jvm.io.delta.storage.commit.TableIdentifier(namespace, name)

    def map(self, items: Mapping[str, str]) -> Java:
        made = self.jvm.java.util.HashMap()
        for key, value in items.items():
            made.put(key, value)
        return made

    def list(self, *items: Any) -> Java:
        made = self.jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def longs(self, *numbers: int) -> Java:
        """A list of Long: the gateway would make a small number an Integer."""
        array = self._new_array(self.jvm.long, len(numbers))
        for index, number in enumerate(numbers):
            array[index] = number
        return self.jvm.java.util.Arrays.stream(array).boxed().toList()

    def a_long(self, number: int) -> Java:
        """An Optional<Long>."""
        return self.longs(number).stream().findFirst()
