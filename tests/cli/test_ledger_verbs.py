"""`backup`, `restore`, `move` and `migrate` with real catalogs, running and stopped."""

import asyncio
import json
import os
import signal
import threading
from pathlib import Path

import asyncpg
import pytest

from moorage.client import Client
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.cli.conftest import Moorage


def feed_of(url: str) -> list[object]:
    with Client(url) as client:
        return list(client.feed.read(up_to=client.health().seq))


def write_until(done: threading.Event, url: str, name: str) -> None:
    with Client(url) as client:
        client.catalogs.create(name)
        number = 0
        while not done.is_set():
            client.namespaces.create(name, (f"n{number}",))
            number += 1


def test_a_backup_taken_beside_eight_writers_restores_a_prefix_of_the_feed(
    moorage: Moorage, catalog: ServerProcess, client: Client, tmp_path: Path
) -> None:
    done = threading.Event()
    writers = [threading.Thread(target=write_until, args=(done, catalog.url, f"writer{n}")) for n in range(8)]
    for writer in writers:
        writer.start()
    while client.health().seq < 200:
        done.wait(0.05)
    before = client.health().seq
    saved = moorage("backup", "--data", tmp_path / "data", "--to", tmp_path / "backup.db", "--json")
    after = client.health().seq
    done.set()
    for writer in writers:
        writer.join()
    assert (saved.returncode, saved.stderr) == (0, "")
    kept = json.loads(saved.stdout)["tables"]["entry"]["rows"]
    assert 200 <= before <= kept <= after

    restored = moorage("restore", "--from", tmp_path / "backup.db", "--data", tmp_path / "new", "--json")
    assert restored.stdout == saved.stdout
    with ServerProcess(tmp_path / "new") as other:
        assert feed_of(other.url) == feed_of(catalog.url)[:kept]
        with Client(other.url) as there:
            there.catalogs.create("afterwards")
            assert there.health().seq == kept + 1


@pytest.mark.postgres
def test_a_moved_catalog_continues_in_the_database(
    moorage: Moorage, catalog: ServerProcess, client: Client, tmp_path: Path, database_url: str
) -> None:
    client.catalogs.create("lake", key="once")
    job = client.jobs.create("audit")
    running = moorage("move", "--from-data", tmp_path / "data", "--to-database", database_url)
    assert (running.returncode, running.stdout) == (1, "")
    assert "another Moorage" in running.stderr
    before = feed_of(catalog.url)
    catalog.stop()

    moved = moorage("move", "--from-data", tmp_path / "data", "--to-database", database_url)
    assert (moved.returncode, moved.stderr) == (0, "")
    assert "entry                   3 rows  sha256 " in moved.stdout
    assert "moved and verified by hash" in moved.stdout
    with ServerProcess(tmp_path / "data", database=database_url) as other, Client(other.url) as there:
        assert there.health().ledger == "postgresql"
        assert feed_of(other.url) == before
        assert there.jobs.get(job.id).state == "queued"
        assert there.catalogs.create("lake", key="once").name == "lake"
        assert there.health().seq == 3


@pytest.mark.postgres
@pytest.mark.parametrize("sent_signal", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_backup_leaves_no_file(
    moorage: Moorage, database_url: str, tmp_path: Path, sent_signal: signal.Signals
) -> None:
    moorage("migrate", "--database", database_url)
    operator = await asyncpg.connect(database_url)
    try:
        async with operator.transaction():
            await operator.execute("lock table entry")  # the backup cannot finish
            backup = await asyncio.create_subprocess_exec(
                *COMMAND, "backup", "--database", database_url, "--to", tmp_path / "b.db", env=clean_environment()
            )
            while not await operator.fetchval(
                "select exists (select from pg_locks where not granted and relation = 'entry'::regclass)"
            ):
                await operator.execute("select pg_sleep(0.02)")
            assert [Path(name).suffix for name in os.listdir(tmp_path)] == [".moorage-partial"]
            backup.send_signal(sent_signal)
            assert await asyncio.wait_for(backup.wait(), 60) == 130
    finally:
        await operator.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.postgres
def test_migrate_reports_what_it_did_and_can_be_repeated(moorage: Moorage, database_url: str) -> None:
    first = moorage("migrate", "--database", database_url)
    assert first.stdout.startswith("the schema was upgraded from version 0 to ")
    assert moorage("migrate", "--database", database_url).stdout.startswith("the schema is up to date (version ")


def test_an_operation_that_fails_prints_one_line_and_exits_with_one(moorage: Moorage, tmp_path: Path) -> None:
    for args, words in (
        (("backup", "--data", tmp_path, "--to", tmp_path / "b"), "there is no ledger in"),
        (("restore", "--data", tmp_path / "x", "--from", tmp_path / "b"), "there is no backup"),
        (("migrate", "--data", tmp_path), "there is no ledger in"),
        (("migrate", "--database", "postgresql://127.0.0.1:1/x"), "the database failed or is unreachable"),
    ):
        refused = moorage(*args)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert words in refused.stderr
        assert refused.stderr.count("\n") == 1
