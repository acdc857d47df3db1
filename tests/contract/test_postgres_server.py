"""The throw-away PostgreSQL server keeps the promises that other tests build on."""

import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from moorage.testing.postgres import PostgresServer

pytestmark = pytest.mark.postgres

MAKE_ONE_AND_WAIT = """
from moorage.testing.postgres import PostgresServer
server = PostgresServer.create()
print(server.home, flush=True)
input()
"""


async def execute(url: str, *statements: str) -> object:
    """Run statements on a connection of their own; the last one's first value."""
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


async def test_what_was_committed_survives_a_kill_and_open_sessions_do_not(
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


async def test_a_stopped_server_comes_back_at_the_same_url(own_postgres: PostgresServer) -> None:
    url = own_postgres.url
    own_postgres.stop()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncpg.connect(url)
    own_postgres.start()
    assert await execute(url, "select 7") == 7


async def test_names_sort_by_language_so_that_byte_order_must_be_asked_for(database_url: str) -> None:
    sort = "select string_agg(name, '' order by name {}) from unnest(array['b', 'C', 'a']) name"
    assert await execute(database_url, sort.format("")) == "abC"
    assert await execute(database_url, sort.format('collate "C"')) == "Cab"


def test_processes_that_meet_share_one_server_until_the_last_leaves(tmp_path: Path) -> None:
    first = PostgresServer.shared(tmp_path)
    second = PostgresServer.shared(tmp_path)
    assert first.home == second.home
    first.release()
    second.drop_database(second.new_database())
    second.release()
    assert_gone(first.home)
    with PostgresServer.shared(tmp_path) as newcomer:
        assert newcomer.home != first.home


def test_a_killed_test_run_leaves_no_server_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKE_ONE_AND_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        home = Path(run.stdout.readline().strip())
        assert (home / "data" / "postmaster.pid").exists()
        run.kill()
    assert_gone(home)


def assert_gone(home: Path) -> None:
    deadline = time.monotonic() + 20
    while home.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not home.exists()
