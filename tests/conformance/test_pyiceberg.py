"""PyIceberg against a real server."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from moorage.testing.server import ServerProcess

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data: Path = tmp_path_factory.mktemp("pyiceberg") / "data"
    with ServerProcess(data) as server:
        created = httpx.post(
            f"{server.url}/api/moorage/v1/catalogs", json={"name": "lake"}, trust_env=False, timeout=60
        )
        assert created.status_code == 201
        yield server


def client_of(url: str) -> RestCatalog:
    catalog = load_catalog("lake", type="rest", uri=f"{url}/iceberg", warehouse="lake")
    assert isinstance(catalog, RestCatalog)
    return catalog


@pytest.fixture
def catalog(server: ServerProcess, request: pytest.FixtureRequest) -> RestCatalog:
    catalog = client_of(server.url)
    catalog.create_namespace(request.node.name)
    return catalog


@pytest.fixture
def table(catalog: RestCatalog, request: pytest.FixtureRequest) -> Table:
    created: Table = catalog.create_table((request.node.name, "orders"), schema=ROWS.schema)
    return created


def ids(table: Table, **how: Any) -> list[int]:
    return sorted(table.scan(**how).to_arrow()["id"].to_pylist())


def test_rows_are_appended_overwritten_deleted_and_upserted(table: Table) -> None:
    table.append(ROWS)
    table.append(ROWS)
    assert ids(table) == [1, 1, 2, 2, 3, 3]
    table.overwrite(ROWS)
    table.delete("id = 2")
    assert ids(table) == [1, 3]
    with table.update_schema() as update:
        update.set_identifier_fields()
    result = table.upsert(pa.table({"id": pa.array([3, 4], pa.int64()), "city": ["Lviv", "Bonn"]}), join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert sorted(table.scan().to_arrow()["city"].to_pylist()) == ["Bonn", "Lviv", "Oslo"]


def test_another_client_sees_what_was_committed(server: ServerProcess, table: Table) -> None:
    table.append(ROWS)
    again = client_of(server.url).load_table(table.name())
    assert again.metadata == table.metadata
    assert again.metadata_location == table.metadata_location


def test_schemas_and_partitions_evolve(table: Table) -> None:
    table.append(ROWS)
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("at", TimestamptzType())
            update.rename_column("city", "town")
        with transaction.update_spec() as spec:
            spec.add_identity("town")
            spec.add_identity("id")
        transaction.set_properties(owner="ann")
    table.append(
        pa.table({"id": pa.array([4], pa.int64()), "town": ["Bonn"], "at": pa.array([0], pa.timestamp("us", "UTC"))})
    )
    assert ids(table) == [1, 2, 3, 4]
    with table.update_spec() as spec:
        spec.remove_field("town")
    with table.update_schema() as update:
        update.delete_column("town")
    table.refresh()
    assert table.schema().column_names == ["id", "at"]
    assert [field.name for field in table.spec().fields] == ["id"]
    assert table.properties["owner"] == "ann"
    assert len(table.metadata.schemas) == 3


def test_branches_and_tags_are_created_read_and_removed(table: Table) -> None:
    table.append(ROWS)
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").create_branch(first.snapshot_id, "audit").commit()
    table.append(ROWS, branch="audit")
    table.append(ROWS)
    table.append(ROWS)
    assert [len(ids(table, snapshot_id=first.snapshot_id)), len(ids(table))] == [3, 9]
    audit = table.snapshot_by_name("audit")
    assert audit is not None
    assert len(ids(table, snapshot_id=audit.snapshot_id)) == 6
    table.manage_snapshots().remove_tag("v1").remove_branch("audit").commit()
    table.refresh()
    assert set(table.refs()) == {"main"}


def test_old_snapshots_expire(table: Table) -> None:
    for _ in range(3):
        table.append(ROWS)
    first = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    table.refresh()
    assert first not in {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    assert len(table.history()) == 2


def test_a_table_is_created_with_its_first_rows(catalog: RestCatalog, request: pytest.FixtureRequest) -> None:
    name = (request.node.name, "staged")
    with catalog.create_table_transaction(name, schema=ROWS.schema, properties={"a": "1"}) as transaction:
        assert not catalog.table_exists(name)
        transaction.append(ROWS)
    loaded = catalog.load_table(name)
    assert (ids(loaded), loaded.properties["a"]) == ([1, 2, 3], "1")


def test_every_format_version_returns_the_schema_that_was_sent(
    catalog: RestCatalog, request: pytest.FixtureRequest
) -> None:
    schema = Schema(
        NestedField(7, "id", LongType(), required=True),
        NestedField(9, "name", StringType(), doc="who"),
        identifier_field_ids=[7],
    )
    for version in ("1", "2", "3"):
        created = catalog.create_table(
            (request.node.name, f"v{version}"), schema=schema, properties={"format-version": version}
        )
        assert created.metadata.format_version == int(version)
        assert created.schema().column_names == ["id", "name"]
        assert created.schema().identifier_field_names() == {"id"}


def test_tables_are_renamed_dropped_and_registered_again(
    catalog: RestCatalog, table: Table, request: pytest.FixtureRequest
) -> None:
    space = request.node.name
    table.append(ROWS)
    catalog.rename_table((space, "orders"), (space, "sold"))
    assert catalog.list_tables(space) == [(space, "sold")]
    location = catalog.load_table((space, "sold")).metadata_location
    catalog.drop_table((space, "sold"))
    assert ids(catalog.register_table((space, "back"), location)) == [1, 2, 3]
    catalog.purge_table((space, "back"))
    assert catalog.list_tables(space) == []


def test_errors_arrive_as_the_exceptions_that_clients_catch(
    catalog: RestCatalog, table: Table, request: pytest.FixtureRequest
) -> None:
    space = request.node.name
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(space)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((space, "orders"), schema=ROWS.schema)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(space)
    with pytest.raises(NoSuchTableError):
        catalog.load_table((space, "none"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table(("none", "orders"), schema=ROWS.schema)
    stale = catalog.load_table((space, "orders"))
    with table.update_schema() as update:
        update.add_column("x", LongType())
    late = stale.update_schema().add_column("y", LongType())
    with pytest.raises(CommitFailedException):
        late.commit()


def test_namespaces_nest_and_keep_properties(catalog: RestCatalog, request: pytest.FixtureRequest) -> None:
    space = request.node.name
    catalog.create_namespace(
        (
            space,
            "eu",
        ),
        {"owner": "ann"},
    )
    catalog.create_namespace((space, "eu", "with.dot"))
    assert catalog.list_namespaces((space, "eu")) == [(space, "eu", "with.dot")]
    summary = catalog.update_namespace_properties((space, "eu"), removals={"owner", "none"}, updates={"a": "1"})
    assert (summary.removed, summary.updated, summary.missing) == (["owner"], ["a"], ["none"])
    assert catalog.load_namespace_properties((space, "eu")) == {"a": "1"}


def append_many(url: str, name: tuple[str, str], start: int, count: int) -> None:
    """A writer that retries after a conflict, and does not coordinate with the others."""
    catalog = client_of(url)
    for id in range(start, start + count):
        rows = pa.table({"id": pa.array([id], pa.int64()), "city": [str(id)]})
        while True:
            try:
                catalog.load_table(name).append(rows)
                break
            except CommitFailedException:
                continue


@pytest.mark.slow
def test_eight_processes_append_concurrently_and_no_row_is_lost(
    server: ServerProcess, catalog: RestCatalog, table: Table, request: pytest.FixtureRequest
) -> None:
    name, each = (request.node.name, "orders"), 5
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=append_many, args=(server.url, name, writer * each, each)) for writer in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(110)
    assert [writer.exitcode for writer in writers] == [0] * 8
    loaded = catalog.load_table(name)
    assert ids(loaded) == list(range(8 * each))
    assert len(loaded.metadata.snapshots) == 8 * each
    assert len({snapshot.sequence_number for snapshot in loaded.metadata.snapshots}) == 8 * each


def test_a_client_with_credentials_receives_a_token(server: ServerProcess) -> None:
    settings = {"credential": "ann:secret", "oauth2-server-uri": f"{server.url}/iceberg/v1/oauth/tokens"}
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake", **settings)
    assert isinstance(catalog, RestCatalog)
    assert (
        catalog._session.get(f"{server.url}/iceberg/v1/lake/namespaces").request.headers["Authorization"]
        == "Bearer open"
    )
