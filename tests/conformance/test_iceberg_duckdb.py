"""DuckDB against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck
from tests.conformance.lakes import lake_server, pyiceberg_of

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("duckdb") / "data") as server:
        yield server


@pytest.fixture
def db(server: ServerProcess) -> Iterator[Any]:
    with duck("avro", "httpfs", "iceberg") as db:
        attach(db, server)
        yield db


# Needed to create a table from a query: DuckDB creates no folders on local disk, but the server creates the table's.
UNSTAGED = "STAGE_CREATE_TABLES false"


def attach(db: Any, server: ServerProcess, option: str = UNSTAGED) -> None:
    endpoint = f"ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none'"
    db.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, {endpoint}, {option})")


@pytest.fixture
def space(db: Any, request: pytest.FixtureRequest) -> str:
    db.execute(f"CREATE SCHEMA lake.{request.node.name}")
    return str(request.node.name)


@pytest.fixture
def table(db: Any, space: str) -> str:
    name = f"lake.{space}.orders"
    db.execute(f"CREATE TABLE {name} (id BIGINT, city VARCHAR)")
    db.execute(f"INSERT INTO {name} VALUES (1, 'Oslo'), (2, 'Rome'), (3, 'Kyiv')")
    return name


def rows_of(db: Any, table: str, rest: str = "") -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = db.execute(f"SELECT * FROM {table} {rest} ORDER BY id").fetchall()
    return found


def test_rows_are_inserted_updated_and_deleted(db: Any, server: ServerProcess, table: str, space: str) -> None:
    db.execute(f"UPDATE {table} SET city = 'Roma' WHERE id = 2")
    db.execute(f"DELETE FROM {table} WHERE id = 1")
    assert rows_of(db, table) == [(2, "Roma"), (3, "Kyiv")]
    scan = pyiceberg_of(server).load_table((space, "orders")).scan().to_arrow()
    assert sorted(zip(scan["id"].to_pylist(), scan["city"].to_pylist(), strict=True)) == rows_of(db, table)


def test_a_partitioned_table_is_staged_and_created_by_its_first_commit(
    db: Any, server: ServerProcess, space: str
) -> None:
    db.execute("DETACH lake")
    attach(db, server, "STAGE_CREATE_TABLES true")
    table = f"lake.{space}.staged"
    db.execute(f"CREATE TABLE {table} (id BIGINT) PARTITIONED BY (bucket(4, id))")
    db.execute(f"INSERT INTO {table} VALUES (1)")
    assert rows_of(db, table) == [(1,)]
    fields = pyiceberg_of(server).load_table((space, "staged")).spec().fields
    assert [str(field.transform) for field in fields] == ["bucket[4]"]


def test_a_table_is_created_from_a_query_altered_and_dropped(db: Any, space: str) -> None:
    table = f"lake.{space}.numbers"
    db.execute(f"CREATE TABLE {table} AS SELECT range AS id FROM range(1000)")
    assert db.execute(f"SELECT count(*), sum(id) FROM {table}").fetchall() == [(1000, 499500)]
    db.execute(f"ALTER TABLE {table} ADD COLUMN name VARCHAR")
    db.execute(f"INSERT INTO {table} VALUES (1000, 'last')")
    assert rows_of(db, table, "WHERE id > 998") == [(999, None), (1000, "last")]
    db.execute(f"DROP TABLE {table}")
    assert db.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = ?", [space]).fetchall() == []


def test_a_table_that_pyiceberg_wrote_is_read_at_any_version(db: Any, server: ServerProcess, space: str) -> None:
    written = pyiceberg_of(server).create_table((space, "orders"), schema=ROWS.schema)
    written.append(ROWS)
    first = written.metadata.current_snapshot_id
    written.delete("id = 2")
    table = f"lake.{space}.orders"
    assert rows_of(db, table) == [(1, "Oslo"), (3, "Kyiv")]
    assert rows_of(db, table, f"AT (VERSION => {first})") == [(1, "Oslo"), (2, "Rome"), (3, "Kyiv")]


def test_tables_with_any_characters_and_depth_in_their_names_are_read(
    db: Any, server: ServerProcess, space: str
) -> None:
    catalog, names = pyiceberg_of(server), ((space, "eu west", "t.t"), ("with space/ünïcode", "a b"))
    for *levels, name in names:
        catalog.create_namespace(tuple(levels))
        catalog.create_table((*levels, name), schema=ROWS.schema).append(ROWS)
    db.execute("DETACH lake")
    attach(db, server, "SUPPORT_NESTED_NAMESPACES true")
    for *levels, name in names:
        assert len(rows_of(db, f'lake."{".".join(levels)}"."{name}"')) == 3


def test_a_transaction_changes_two_tables_or_none(db: Any, table: str, space: str) -> None:
    other = f"lake.{space}.paid"
    db.execute(f"CREATE TABLE {other} (id BIGINT)")
    for ending, counts in (("ROLLBACK", [3, 0]), ("COMMIT", [4, 1])):
        db.execute("BEGIN")
        db.execute(f"INSERT INTO {table} VALUES (4, 'Bonn')")
        db.execute(f"INSERT INTO {other} VALUES (4)")
        db.execute(ending)
        assert [len(rows_of(db, table)), len(rows_of(db, other))] == counts


def test_a_transaction_that_lost_a_race_fails_and_changes_nothing(db: Any, server: ServerProcess, table: str) -> None:
    with duck("avro", "httpfs", "iceberg") as late:
        attach(late, server)
        late.execute("BEGIN")
        late.execute(f"INSERT INTO {table} VALUES (9, 'late')")
        db.execute(f"INSERT INTO {table} VALUES (4, 'Bonn')")
        with pytest.raises(duckdb.Error, match="409"):
            late.execute("COMMIT")
    assert [row[0] for row in rows_of(db, table)] == [1, 2, 3, 4]
