"""Delta's kernel and both of its REST clients work against a real server, unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from email.message import Message
from typing import TYPE_CHECKING

import httpx
import pytest

from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.conformance.delta_java import CATALOG, SCHEMA, JavaClients, JavaTable
from tests.conformance.lossy_proxy import lossy_proxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNITY = "/api/2.1/unity-catalog"
LOSSES = 5
"""More than the attempts of a REST client."""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    # No chores run: only the clients publish.
    flags = ("--chores-interval-seconds", "3600")
    with (
        ServerProcess(tmp_path_factory.mktemp("java") / "data", flags=flags) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        http.post(f"{UNITY}/catalogs", json={"name": CATALOG}).raise_for_status()
        http.post(f"{UNITY}/schemas", json={"name": SCHEMA, "catalog_name": CATALOG}).raise_for_status()
        yield http
        assert all("was never ratified" in error for error in server.errors()), "only the unratified files of one test"


@pytest.fixture(scope="module")
def clients(spark: SparkSession, http: httpx.Client) -> JavaClients:
    return JavaClients(spark, str(http.base_url).rstrip("/"))


@pytest.fixture(params=["preview", "v1"])
def table(request: pytest.FixtureRequest, clients: JavaClients) -> JavaTable:
    """A table at version 0, created by the client of each API family."""
    name = f"t{abs(hash(request.node.name))}"
    table, properties = clients.stage(request.param, name)
    assert table.create(properties) == 0
    return table


def test_a_table_that_the_kernel_created_is_found_by_its_name(table: JavaTable, http: httpx.Client) -> None:
    shown = http.get(f"{UNITY}/tables/{CATALOG}.{SCHEMA}.{table.name}").json()
    assert shown["table_id"] == table.id
    assert [column["type_text"] for column in shown["columns"]] == ["bigint"]
    assert table.snapshot().getVersion() == 0
    assert table.unpublished() == ([], 0)


def test_rows_that_the_kernel_commits_are_read_before_they_are_published(table: JavaTable) -> None:
    assert table.append(table.snapshot(), 1, 2) == 1
    assert table.append(table.snapshot(), 3) == 2
    assert write.published(table.folder) == [0]
    assert table.unpublished() == ([1, 2], 2)
    assert table.rows() == [1, 2, 3]


def test_the_writer_that_lost_a_race_rebases_and_commits_the_next_version(table: JavaTable) -> None:
    """The kernel reads the winning commit from the folder, so the winner must have published it."""
    before = table.snapshot()
    assert table.append(before, 1) == 1
    table.publish()
    assert table.append(before, 2) == 2
    assert table.rows() == [1, 2]


def test_the_writer_that_lost_a_race_continues_the_row_ids_of_the_winner(
    clients: JavaClients, http: httpx.Client
) -> None:
    table, properties = clients.stage("v1", "counted")
    table.create({**properties, "delta.enableRowTracking": "true"})
    before = table.snapshot()
    assert table.append(before, 1, 2) == 1
    table.publish()
    assert table.append(before, 3) == 2
    shown = http.get(f"{UNITY}/delta/v1/catalogs/{CATALOG}/schemas/{SCHEMA}/tables/{table.name}").json()
    assert shown["metadata"]["properties"]["delta.rowTracking.rowIdHighWaterMark"] == "2"


@pytest.mark.parametrize("family", ["preview", "v1"])
def test_rows_are_committed_once_though_all_responses_to_a_request_are_lost(
    clients: JavaClients, http: httpx.Client, spark: SparkSession, family: str
) -> None:
    """The REST client retries a few times. Then the kernel stages the commit again, under another name."""
    table, properties = clients.stage(family, f"lost_{family}")
    table.create(properties)
    with lossy_proxy(str(http.base_url).rstrip("/"), key_of=_commit_key, losses=LOSSES) as proxy:
        behind = JavaClients(spark, proxy.url)
        rest = behind.older if family == "preview" else behind.newer
        lossy = JavaTable(behind, rest, table.name, table.id, table.location)
        assert lossy.append(lossy.snapshot(), 1, 2) == 1
    assert len(proxy.answered["commit"]) > LOSSES
    assert set(proxy.answered["commit"]) == {200}
    assert len(list((table.folder / "_delta_log/_staged_commits").glob("*.json"))) > 1
    assert table.rows() == [1, 2]


def _commit_key(_: Message, body: bytes) -> str | None:
    return "commit" if b"add-commit" in body or b"commit_info" in body else None


def test_the_kernel_continues_after_the_ledger_has_lost_commits(table: JavaTable) -> None:
    """As after restoring an older ledger: the folder has a commit and a checkpoint that the ledger never ratified."""
    table.append(table.snapshot(), 1)
    table.publish()
    log = table.folder / "_delta_log"
    unratified = write.lines(write.commit_info(1), write.add("forgotten.parquet"))
    for name, data in ((f"{2:020}.json", unratified), (f"{2:020}.checkpoint.parquet", b"forgotten")):
        (log / name).write_bytes(data)
        os.utime(log / name, (1, 1))
    assert table.append(table.snapshot(), 2) == 2
    table.publish()
    assert write.published(table.folder) == [0, 1, 2]
    assert not list(log.glob("*.checkpoint.parquet"))
    assert unratified in [file.read_bytes() for file in (log / "_staged_commits").glob(f"{2:020}.*.json")]
    assert table.append(table.snapshot(), 3) == 3
    assert table.rows() == [1, 2, 3]


def test_a_lost_race_is_a_retryable_conflict_to_the_client(table: JavaTable) -> None:
    before = table.snapshot()
    table.append(before, 1)
    with pytest.raises(Exception, match="failed with a retryable exception") as lost:
        table.append(before, 2, retries=0)
    cause = lost.value.java_exception.getCause()  # type: ignore[attr-defined]
    assert (cause.isRetryable(), cause.isConflict()) == (True, True)
    assert table.rows() == [1]


def test_commits_that_the_kernel_published_are_no_longer_returned(table: JavaTable) -> None:
    table.append(table.snapshot(), 1)
    table.append(table.snapshot(), 2)
    table.publish()
    assert write.published(table.folder) == [0, 1, 2]
    table.report_published(2)
    assert table.unpublished() == ([], 2)
    assert table.append(table.snapshot(), 3) == 3
    assert table.unpublished() == ([3], 3)
    assert table.rows() == [1, 2, 3]


def test_a_report_of_an_unpublished_version_is_refused(table: JavaTable) -> None:
    table.append(table.snapshot(), 1)
    with pytest.raises(Exception, match="does not exist, so it is not published"):
        table.report_published(1)
    assert table.unpublished() == ([1], 1)


def test_a_property_that_the_kernel_sets_is_shown_by_the_catalog(table: JavaTable, http: httpx.Client) -> None:
    assert table.set_property(table.snapshot(), "owner.team", "harbour") == 1
    shown = http.get(f"{UNITY}/tables/{CATALOG}.{SCHEMA}.{table.name}").json()
    assert shown["properties"]["owner.team"] == "harbour"
    assert shown["properties"]["delta.lastUpdateVersion"] == "1"
    assert table.snapshot().getTableProperties()["owner.team"] == "harbour"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.enableDeletionVectors", "false"),
        ("delta.checkpointPolicy", "classic"),
        ("delta.checkpoint.writeStatsAsJson", "false"),
    ],
)
def test_a_property_that_the_specification_only_recommends_can_be_changed(
    table: JavaTable, http: httpx.Client, key: str, value: str
) -> None:
    assert table.set_property(table.snapshot(), key, value) == 1
    assert http.get(f"{UNITY}/tables/{CATALOG}.{SCHEMA}.{table.name}").json()["properties"][key] == value
    table.append(table.snapshot(), 1)
    assert table.rows() == [1]


def test_both_rest_clients_use_one_table(clients: JavaClients) -> None:
    """The older client reads and writes a table that the newer client created."""
    table, properties = clients.stage("v1", "shared")
    table.create(properties)
    table.append(table.snapshot(), 1)
    older = JavaTable(clients, clients.older, table.name, table.id, table.location)
    older.append(older.snapshot(), 2)
    assert table.rows() == older.rows() == [1, 2]
    assert clients.older.getMetastoreId() == clients.newer.getMetastoreId()


def test_the_newer_client_loads_a_table_and_reports_on_its_commits(clients: JavaClients, http: httpx.Client) -> None:
    table, properties = clients.stage("v1", "reported")
    table.create(properties)
    table.append(table.snapshot(), 1)
    loaded = clients.newer.loadTable(clients.identifier(table.name))
    assert (loaded.getTableId().toString(), loaded.getLocation()) == (table.id, table.location)
    assert loaded.getTableType().toString() == "MANAGED"
    assert "bigint" not in loaded.getMetadata().getSchemaString()  # Delta's own type names
    clients.newer.reportMetrics(table.id, clients.identifier(table.name), clients.report(added=1, size=700, version=1))
    kept = http.get(f"/api/moorage/v1/catalogs/{CATALOG}/namespaces/{SCHEMA}/tables/{table.name}/reports").json()
    (report,) = kept["items"]
    assert (report["version"], report["report"]["num_files_added"], report["report"]["num_bytes_added"]) == (1, 1, 700)


def test_a_missing_table_is_reported_as_the_exception_of_the_client(clients: JavaClients) -> None:
    with pytest.raises(Exception, match="NoSuchTableException"):
        clients.newer.loadTable(clients.identifier("nowhere"))
