"""A ledger that was transferred from one store to another is the same ledger, including every receipt."""

import asyncio
import contextlib
import time
from pathlib import Path

import asyncpg
import pytest

from moorage.core.errors import InvalidInput, Unavailable
from moorage.ledger.sqlite import SqliteLedger, checkpoints
from moorage.ledger.sqlite.connections import FILE, connect, migrate
from moorage.ledger.transfer import sqlite_file
from moorage.ledger.transfer.move import move
from moorage.ledger.transfer.tables import tables_in
from moorage.ledger.transfer.upgrade import upgrade_database, upgrade_folder
from moorage.testing import builders as make
from moorage.testing.postgres import PostgresServer
from tests.contract.operators import make_replica
from tests.transfer.stores import NewStore, Store, contents_of, fill, silent


@pytest.mark.postgres
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("source", ["sqlite", "postgres"])
async def test_a_restored_backup_is_the_same_ledger_and_accepts_entries(
    source: str, target: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(source), new_store(target)
    async with old.ledger() as ledger:
        await fill(ledger)
        saved = await old.back_up(tmp_path / "backup.db")
    assert all(digest.rows for digest in saved.values()), "a table without rows proves nothing"
    assert await new.restore(tmp_path / "backup.db") == saved
    assert await contents_of(new) == await contents_of(old)
    async with new.ledger() as ledger:
        last = (await ledger.position()).seq
        assert (await make.add(ledger, make.catalog(ledger.root, "afterwards"))).seq == last + 1


@pytest.mark.postgres
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
async def test_a_restore_extends_hold_periods_by_the_time_since_the_last_entry(
    target: str, new_store: NewStore, tmp_path: Path
) -> None:
    """Objects that were undropped after the backup can then be undropped again."""
    old, new = new_store("sqlite"), new_store(target)
    then_ms = time.time_ns() // 1_000_000 - 100 * make.HOUR_MS
    ledger = await SqliteLedger.open(old.folder, clock_ms=lambda: then_ms)
    lake = await make.lake(ledger)
    staged = make.stage(lake.namespace, "/lake/staged", lifetime_ms=24 * make.HOUR_MS)
    await make.add(ledger, make.drop(lake.table, hold_ms=24 * make.HOUR_MS), staged)
    await ledger.close()
    await old.back_up(tmp_path / "backup.db")
    await new.restore(tmp_path / "backup.db")
    if target == "postgres":
        await new.restore(tmp_path / "backup.db")  # an operator who does not know its outcome may repeat it
    async with new.ledger() as restored:
        assert await restored.due_for_purge() == ()
        rows = [(await restored.lineage(id)).chain[-1] for id in (lake.table, staged.id)]
        for ends_ms in (rows[0].purge_at_ms, rows[1].expires_at_ms):
            assert ends_ms is not None
            assert 0 <= ends_ms - then_ms - 124 * make.HOUR_MS < make.HOUR_MS
        await make.add(restored, make.undrop(lake.table, "back"))


@pytest.mark.postgres
async def test_tables_of_other_programs_in_the_database_are_ignored(new_store: NewStore, tmp_path: Path) -> None:
    old, new = new_store("postgres"), new_store("postgres")
    async with old.ledger() as ledger:
        await fill(ledger)
    for store in (old, new):  # as a monitoring extension does
        operator = await asyncpg.connect(store.url)
        await operator.execute("create table watched (x int); create view watching as select x from watched")
        await operator.close()
    saved = await old.back_up(tmp_path / "backup.db")
    assert await new.restore(tmp_path / "backup.db") == saved


@pytest.mark.postgres
async def test_the_backup_of_a_url_with_several_hosts_reads_the_primary(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    name = own_postgres.new_database().rpartition("/")[2]
    with PostgresServer.create() as standby:
        await asyncio.to_thread(make_replica, standby, own_postgres)
        operator = await asyncpg.connect(standby.url)
        await operator.execute("select pg_wal_replay_pause()")  # from now on it lags behind
        await operator.close()
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{own_postgres.port}"
        both = Store("postgres", tmp_path, f"postgresql://postgres@{hosts}/{name}")
        assert (await upgrade_database(both.url)).after > 0
        async with both.ledger() as ledger:
            await make.lake(ledger)
            last = (await ledger.position()).seq
        assert (await both.back_up(tmp_path / "backup.db"))["entry"].rows == last


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_backup_beside_eight_writers_is_a_prefix_of_the_feed(
    kind: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(kind), new_store("sqlite")
    async with old.ledger() as ledger:
        await fill(ledger)
        begun, done = asyncio.Event(), asyncio.Event()
        before = (await ledger.position()).seq

        async def write(name: str) -> None:
            lake = await make.lake(ledger, catalog_name=name)
            version = 0
            while not done.is_set():
                version += 1
                await make.add(ledger, make.commit(lake.table, version))
                begun.set()

        writers = [asyncio.create_task(write(f"writer{n}")) for n in range(8)]
        await begun.wait()
        during = (await ledger.position()).seq
        saved = await old.back_up(tmp_path / "backup.db")
        done.set()
        await asyncio.gather(*writers)
        everything = await ledger.entries(0, limit=1_000_000)
    assert await new.restore(tmp_path / "backup.db") == saved
    async with new.ledger() as ledger:
        kept = await ledger.entries(0, limit=1_000_000)
    assert before < during <= len(kept) <= len(everything)
    assert kept == everything[: len(kept)]


async def test_a_long_backup_does_not_block_writers(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_FILLED_BYTES", 256 * 1024)
    monkeypatch.setattr(checkpoints, "_FULL_BYTES", 512 * 1024)
    old = new_store("sqlite")
    async with old.ledger() as ledger:
        lake = await make.lake(ledger)
        with sqlite_file.reading(old.folder / FILE):
            slowest = 0.0
            for version in range(1, 150):
                began = time.monotonic()
                await make.add(ledger, make.commit(lake.table, version, details={"padding": "x" * 20_000}))
                slowest = max(slowest, time.monotonic() - began)
    assert slowest < 2.0


@pytest.mark.postgres
async def test_a_move_loses_nothing_and_can_be_repeated(new_store: NewStore) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    async with old.ledger() as ledger:
        await fill(ledger)
    before = await contents_of(old)
    moved = await move(old.folder, new.url, silent)
    assert all(digest.rows for digest in moved.values())
    assert await move(old.folder, new.url, silent) == moved
    assert await contents_of(new) == before


@pytest.mark.postgres
async def test_a_folder_whose_ledger_was_moved_is_refused_until_its_marker_is_deleted(
    new_store: NewStore, backup: Path, tmp_path: Path
) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    async with old.ledger() as ledger:
        await fill(ledger)
    await move(old.folder, new.url, silent)
    moved = pytest.raises(Unavailable, match="name the database with --database")
    with moved:
        await SqliteLedger.open(old.folder)
    with moved:
        await old.back_up(tmp_path / "old.db")
    with moved:
        upgrade_folder(old.folder)
    with moved:
        await move(old.folder, new_store("postgres").url, silent)
    with moved:
        await old.restore(backup)
    (old.folder / "ledger.moved").unlink()
    async with old.ledger():
        pass


@pytest.mark.postgres
async def test_a_move_refuses_a_folder_in_use_and_a_database_with_another_ledger(new_store: NewStore) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    async with old.ledger() as ledger:
        await fill(ledger)
        with pytest.raises(Unavailable, match=r"another Moorage .* is using the data folder"):
            await move(old.folder, new.url, silent)
    async with new.ledger() as ledger:
        await make.lake(ledger)
    before = await contents_of(new)
    with pytest.raises(InvalidInput, match=r"already holds another ledger \(2 entries\): choose an empty one"):
        await move(old.folder, new.url, silent)
    assert await contents_of(new) == before


@pytest.mark.postgres
async def test_a_move_refuses_another_ledger_of_the_same_size(new_store: NewStore) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    for each in (old, new):
        async with each.ledger() as ledger:
            await make.lake(ledger)
            await ledger.page_secret()
    with pytest.raises(InvalidInput, match="already holds another ledger"):
        await move(old.folder, new.url, silent)


@pytest.mark.postgres
async def test_both_stores_have_the_same_tables_columns_and_keys(database_url: str, tmp_path: Path) -> None:
    with contextlib.closing(connect(tmp_path / FILE)) as db:
        migrate(db)
        here = {table.name: (sorted(table.columns), table.key) for table in tables_in(db)}
    await upgrade_database(database_url)
    connection = await asyncpg.connect(database_url)
    there = {}
    for name in here:
        columns = await connection.fetch(
            "select column_name from information_schema.columns where table_name = $1", name
        )
        key = await connection.fetchval(
            "select array_agg(a.attname::text order by k.n) from pg_index i "
            "cross join unnest(i.indkey::int[]) with ordinality k (attnum, n) "
            "join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum "
            "where i.indrelid = $1::regclass and i.indisprimary",
            name,
        )
        there[name] = (sorted(row[0] for row in columns), tuple(key))
    extra = await connection.fetchval(
        "select array_agg(table_name::text) from information_schema.tables where table_schema = 'public' "
        "and table_name <> all ($1) and table_name <> 'schema_version'",
        list(here),
    )
    await connection.close()
    assert there == here
    assert extra is None
