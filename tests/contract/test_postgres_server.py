"""The temporary PostgreSQL server has the properties that other tests rely on."""

import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from moorage.testing.postgres import PostgresServer

pytestmark = pytest.mark.postgres

CREATE_AND_WAIT = """
from moorage.testing.postgres import PostgresServer
server = PostgresServer.create()
print(server.home, flush=True)
input()
"""


async def execute(url: str, *statements: str) -> object:
    """Run statements on a new connection, and return the first value of the last one."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


async def test_a_test_sees_only_its_own_database(postgres: PostgresServer, database_url: str) -> None:
    other = postgres.new_database("other")
    await execute(other, "create table boats (name text)", "select 1")
    assert await execute(database_url, "select to_regclass('boats')") is None
    assert await execute(other, "select to_regclass('boats')") == "boats"
    postgres.drop_database(other)


async def test_committed_rows_survive_a_kill_and_open_sessions_do_not(
    own_postgres: PostgresServer,
) -> None:
    session = await asyncpg.connect(own_postgres.url)
    await session.execute("create table boats (name text)")
    await session.execute("insert into boats values ('Nellie')")
    own_postgres.kill()
    with pytest.raises((OSError, asyncpg.PostgresError)):
        await session.fetchval("select 1")
    session.terminate()
    own_postgres.start()
    assert await execute(own_postgres.url, "select name from boats") == "Nellie"


async def test_a_restarted_server_has_the_same_url(own_postgres: PostgresServer) -> None:
    url = own_postgres.url
    own_postgres.stop()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncpg.connect(url)
    own_postgres.start()
    assert await execute(url, "select 7") == 7


async def test_names_sort_by_language_unless_byte_order_is_requested(database_url: str) -> None:
    sort = "select string_agg(name, '' order by name {}) from unnest(array['b', 'C', 'a']) name"
    assert await execute(database_url, sort.format("")) == "abC"
    assert await execute(database_url, sort.format('collate "C"')) == "Cab"


def test_processes_share_one_server_until_the_last_releases_it(tmp_path: Path) -> None:
    first = PostgresServer.shared(tmp_path)
    second = PostgresServer.shared(tmp_path)
    assert first.home == second.home
    first.release()
    second.drop_database(second.new_database())
    second.release()
    require_deleted(first.home)
    with PostgresServer.shared(tmp_path) as later:
        assert later.home != first.home


def test_a_killed_test_run_leaves_no_server_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CREATE_AND_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        home = Path(run.stdout.readline().strip())
        assert (home / "data" / "postmaster.pid").exists()
        run.kill()
    require_deleted(home)


def require_deleted(home: Path) -> None:
    deadline = time.monotonic() + 20
    while home.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not home.exists()
