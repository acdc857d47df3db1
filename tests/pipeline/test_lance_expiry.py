"""What the expiry of a Lance table keeps: versions in use, and the marks of streams. It needs no Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa

from moorage.client import Client
from moorage.client.answers import LocatedTable
from moorage.client.lance import Lake
from moorage.client.lance.marks import Mark, commit_with_mark
from moorage.client.lance.transaction import Transaction
from moorage.client.spark import SparkSettings
from moorage.core.ids import JobId
from moorage.pipeline.lance_upkeep import expire_lance
from moorage.pipeline.warm_session import WarmSession
from moorage.testing.server import ServerProcess

SCHEMA = pa.schema([("id", pa.int64())])


class Table:
    """A Lance table with one row for each version."""

    def __init__(self, server: ServerProcess, client: Client, schema: str) -> None:
        self.lake, self.client, self.id = Lake(server.url), client, [*schema.split("."), "t"]
        self.write(0, self.lake, mode="create")

    def write(self, number: int, namespace: Lake | Transaction, *, mode: str = "append") -> None:
        rows = pa.table({"id": [number]}, SCHEMA)
        lance.write_dataset(rows, namespace_client=namespace, table_id=self.id, mode=mode)

    def replace(self) -> None:
        """Make a version that has no file of the one before it."""
        lance.write_dataset(
            pa.table({"id": self.ids()}, SCHEMA), namespace_client=self.lake, table_id=self.id, mode="overwrite"
        )

    def open(self, version: int | None = None) -> lance.LanceDataset:
        return lance.dataset(namespace_client=self.lake, table_id=self.id, version=version)

    def ids(self, version: int | None = None) -> list[int]:
        return sorted(self.open(version).to_table()["id"].to_pylist())

    def expire(self, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Remove all versions that are not current. `meanwhile` runs when the program has decided which."""
        catalog, space, name = self.id
        (found,) = [each for each in self.client.namespaces.tables(catalog, [space]) if each.name == name]
        table = self.client.namespaces.table_by_id(found.id)
        assert isinstance(table, LocatedTable)
        job = self.client.namespaces.create_job(catalog, [space], name, "expire", {"older_than_days": 0})

        def progress(state: dict[str, Any]) -> None:
            if "records" in state["step"]:
                meanwhile()

        try:
            return expire_lance(job, table, self.client, progress, WarmSession(SparkSettings()))
        finally:
            self.client.jobs.cancel(JobId(job.id))


def test_a_version_that_a_query_reads_stays_although_others_are_committed_during_the_expiry(
    server: ServerProcess, client: Client, schema: str
) -> None:
    table = Table(server, client, schema)
    table.replace()
    current = table.open().version

    def write_more() -> None:
        for _ in range(3):
            table.replace()

    found = table.expire(write_more)
    assert (found["versions"], found["old_versions"]) == (1, 1)
    assert table.ids(current) == [0]
    assert table.open().version == current + 3


def test_a_write_that_is_repeated_after_its_version_is_old_adds_nothing(
    server: ServerProcess, client: Client, schema: str
) -> None:
    table = Table(server, client, schema)
    assert commit_with_mark(table.lake, table.id, Mark("stream", 1), lambda to: table.write(1, to))
    assert commit_with_mark(table.lake, table.id, Mark("stream", 2), lambda to: table.write(2, to))
    for number in (3, 4, 5):
        table.write(number, table.lake)
    found = table.expire()
    assert found["versions"] == 4, "of the marks, only the newest one is needed"
    assert not commit_with_mark(table.lake, table.id, Mark("stream", 2), lambda to: table.write(2, to))
    assert table.ids() == [0, 1, 2, 3, 4, 5]


def test_an_expiry_that_may_remove_nothing_is_futile(server: ServerProcess, client: Client, schema: str) -> None:
    """Without that, the server would enqueue another one every hour."""
    table = Table(server, client, schema)
    for number in range(1, 4):
        table.open().tags.create(f"v{number}", number)
        table.write(number, table.lake)
    found = table.expire()
    assert (found["versions"], found["before"]) == (0, {"stored_versions": 4})
    assert found["before"] == found["after"]
    table.write(4, table.lake)
    found = table.expire()
    assert (found["versions"], found["after"]) == (1, {"stored_versions": 4})
