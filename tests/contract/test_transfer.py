"""A ledger that was carried from one store to another is the same ledger, down to the last receipt."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from moorage.core.entries import Attachment, FinishJob, JobHeld, JobState, Refused
from moorage.core.errors import Damaged, InvalidInput, MoorageError, Unavailable
from moorage.core.ids import Fence
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.ledger.sqlite.connections import FILE, connect, migrate
from moorage.ledger.transfer.backup import back_up_database, back_up_folder
from moorage.ledger.transfer.digests import Digest
from moorage.ledger.transfer.move import move
from moorage.ledger.transfer.restore import restore_database, restore_folder
from moorage.ledger.transfer.tables import tables_in
from moorage.ledger.transfer.upgrade import upgrade_database, upgrade_folder
from moorage.testing import builders as make

Digests = dict[str, Digest]


def silent(words: str) -> None:
    """Nobody listens to the progress here."""


class Store:
    """A place where a ledger may live, named by its kind."""

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self.kind, self.folder, self.url = kind, folder, url

    @contextlib.asynccontextmanager
    async def ledger(self) -> AsyncIterator[Ledger]:
        opened = await (SqliteLedger.open(self.folder) if self.kind == "sqlite" else PostgresLedger.open(self.url))
        try:
            yield opened
        finally:
            await opened.close()

    async def back_up(self, to: Path) -> Digests:
        if self.kind == "sqlite":
            return await asyncio.to_thread(back_up_folder, self.folder, to, silent)
        return await back_up_database(self.url, to, silent)

    async def restore(self, backup: Path) -> Digests:
        if self.kind == "sqlite":
            return await asyncio.to_thread(restore_folder, backup, self.folder, silent)
        return await restore_database(backup, self.url, silent)


NewStore = Callable[[str], Store]


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    """Empty stores; databases are made only for tests that ask for one."""

    def new(kind: str) -> Store:
        if kind == "sqlite":
            folder = Path(request.getfixturevalue("tmp_path_factory").mktemp("store"))
            return Store(kind, folder, "")
        postgres = request.getfixturevalue("postgres")
        url = postgres.new_database("transfer")
        request.addfinalizer(lambda: postgres.drop_database(url))
        return Store(kind, tmp_path, url)

    return new


async def fill(ledger: Ledger) -> None:
    """Leave something in every table of the ledger."""
    lake = await make.lake(ledger, "orders", "Größe 🌊")
    placed = make.table(lake.namespace, "placed", path="/lake/placed")
    bytes_of_it = Attachment(table=placed.id, ref=MAIN, version=0, document=b'{"a": "\xc3\xa9"}', staged=b"\x00\xff")
    await ledger.append(
        make.draft(placed, make.published_commit(placed.id, 0, digest="abc"), attachments=[bytes_of_it])
    )
    for version in range(1, 40):
        await make.add(ledger, make.commit(lake.table, version, details={"n": version}))
    await ledger.published(lake.table, MAIN, 3)
    await make.add(ledger, make.drop(lake.tables[1]), make.update(lake.table, owner="bob", comment="c"))
    await ledger.append(make.draft(make.catalog(ledger.root, "second"), claim=make.claim("k1")))
    refused = Refused(error="NameTaken", message="taken", details={"id": "x"})
    await ledger.append(make.draft(claim=make.claim("k2"), outcome=refused))
    await ledger.append(make.draft(jobs=[make.job("audit", args={"deep": [1, None]}), make.job("compact")]))
    taken = await ledger.take_job("w", ["audit"], Fence("f1"), 60_000)
    assert taken is not None
    await ledger.renew_lease(taken.job.id, Fence("f1"), 60_000, {"half": True})
    ended = make.job("ended")
    await ledger.append(make.draft(jobs=[ended]))
    finish = FinishJob(job=ended.id, state=JobState.SUCCEEDED, result={"ok": 1})
    await ledger.append(make.draft(finish, expects=[JobHeld(ended.id, None)]))
    await ledger.page_secret()


async def story_of(store: Store) -> tuple[object, ...]:
    """What a ledger tells through its port: the whole feed, a receipt, the jobs, the page secret."""
    async with store.ledger() as ledger:
        entries = await ledger.entries(0, limit=1000)
        return entries, await ledger.receipt("ann", "k2"), await ledger.jobs(), await ledger.page_secret()


@pytest.mark.postgres
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("source", ["sqlite", "postgres"])
async def test_a_restored_backup_is_the_same_ledger_and_goes_on(
    source: str, target: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(source), new_store(target)
    async with old.ledger() as ledger:
        await fill(ledger)
        saved = await old.back_up(tmp_path / "backup.db")
    assert all(digest.rows for digest in saved.values()), "a table without rows proves nothing"
    assert await new.restore(tmp_path / "backup.db") == saved
    assert await story_of(new) == await story_of(old)
    async with new.ledger() as ledger:
        last = (await ledger.mark()).seq
        assert (await make.add(ledger, make.catalog(ledger.root, "afterwards"))).seq == last + 1


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_backup_beside_eight_writers_is_one_moment_of_their_history(
    kind: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(kind), new_store("sqlite")
    async with old.ledger() as ledger:
        await fill(ledger)
        done = asyncio.Event()
        before = (await ledger.mark()).seq

        async def write(name: str) -> None:
            lake = await make.lake(ledger, catalog_name=name)
            version = 0
            while not done.is_set():
                version += 1
                await make.add(ledger, make.commit(lake.table, version))

        writers = [asyncio.create_task(write(f"writer{n}")) for n in range(8)]
        await asyncio.sleep(0.2)
        during = (await ledger.mark()).seq
        saved = await old.back_up(tmp_path / "backup.db")
        done.set()
        await asyncio.gather(*writers)
        everything = await ledger.entries(0, limit=1_000_000)
    assert await new.restore(tmp_path / "backup.db") == saved
    async with new.ledger() as ledger:
        kept = await ledger.entries(0, limit=1_000_000)
    assert before < during <= len(kept) <= len(everything)
    assert kept == everything[: len(kept)]


@pytest.mark.postgres
async def test_a_move_loses_nothing_and_may_be_repeated(new_store: NewStore) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    async with old.ledger() as ledger:
        await fill(ledger)
    before = await story_of(old)
    moved = await move(old.folder, new.url, silent)
    assert all(digest.rows for digest in moved.values())
    assert await move(old.folder, new.url, silent) == moved
    assert await story_of(new) == before


@pytest.mark.postgres
async def test_a_move_refuses_a_running_folder_and_a_database_that_is_in_use(new_store: NewStore) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    async with old.ledger() as ledger:
        await fill(ledger)
        with pytest.raises(Unavailable, match=r"another Moorage .* is using the data folder"):
            await move(old.folder, new.url, silent)
    async with new.ledger() as ledger:
        await make.lake(ledger)
    before = await story_of(new)
    with pytest.raises(InvalidInput, match=r"holds another ledger already \(2 entries\): choose an empty one"):
        await move(old.folder, new.url, silent)
    assert await story_of(new) == before


@pytest.mark.postgres
async def test_a_ledger_of_the_same_size_is_still_another_ledger(new_store: NewStore) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    for store in (old, new):
        async with store.ledger() as ledger:
            await make.lake(ledger)
            await ledger.page_secret()
    with pytest.raises(InvalidInput, match="holds another ledger already"):
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


# --- where it must refuse ----------------------------------------------------------------------


@pytest.fixture
async def backup(new_store: NewStore, tmp_path: Path) -> Path:
    old = new_store("sqlite")
    async with old.ledger() as ledger:
        await fill(ledger)
    await old.back_up(tmp_path / "good.db")
    return tmp_path / "good.db"


def forge(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("update entry set caller = 'mallory' where seq = 2")
        db.commit()


def lose_a_row(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("delete from receipt where key = 'k2'")
        db.commit()


def truncate(backup: Path) -> None:
    os.truncate(backup, backup.stat().st_size // 2)


def scribble(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as db:
        size = db.execute("pragma page_size").fetchone()[0]
        page = db.execute("select rootpage from sqlite_schema where name = 'entry'").fetchone()[0]
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xaa" * 100)


def unseal(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("drop table backup_info")


def replace_with_words(backup: Path) -> None:
    backup.write_text("This is no database at all. " * 1000)


def come_from_the_future(backup: Path) -> None:
    with contextlib.closing(sqlite3.connect(backup)) as db:
        db.execute("insert into schema_version values (99, 99)")
        db.commit()


SPOILED: list[tuple[Callable[[Path], None], type[MoorageError], str]] = [
    (forge, Damaged, r"good.db is damaged, use another one: its table 'entry' has \d+ rows with"),
    (lose_a_row, Damaged, "good.db is damaged, use another one: its table 'receipt' has 1 rows with"),
    (truncate, Damaged, "good.db is damaged"),
    (scribble, Damaged, "good.db is damaged"),
    (unseal, InvalidInput, "good.db is no backup: make one with `moorage backup`"),
    (replace_with_words, Damaged, "good.db is damaged or no ledger: file is not a database"),
    (come_from_the_future, Unavailable, "needs Moorage with schema code 99 or newer"),
    (Path.unlink, InvalidInput, "there is no backup .*good.db"),
]


@pytest.mark.parametrize(("spoil", "error", "words"), SPOILED, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_spoiled_backup_is_refused_and_leaves_an_empty_folder(
    spoil: Callable[[Path], None], error: type[MoorageError], words: str, backup: Path, new_store: NewStore
) -> None:
    spoil(backup)
    new = new_store("sqlite")
    with pytest.raises(error, match=words):
        await new.restore(backup)
    assert [path.name for path in new.folder.iterdir()] in ([], ["ledger.lock"])


@pytest.mark.postgres
async def test_a_spoiled_backup_is_refused_and_leaves_an_empty_database(backup: Path, new_store: NewStore) -> None:
    forge(backup)
    new = new_store("postgres")
    with pytest.raises(Damaged, match=r"good.db is damaged, use another one: its table 'entry'"):
        await new.restore(backup)
    async with new.ledger() as ledger:
        assert (await ledger.mark()).seq == 1


async def test_a_damaged_ledger_makes_no_backup(new_store: NewStore, tmp_path: Path) -> None:
    old = new_store("sqlite")
    async with old.ledger() as ledger:
        await fill(ledger)
    scribble(old.folder / FILE)
    target = tmp_path / "out" / "backup.db"
    target.parent.mkdir()
    with pytest.raises(Damaged, match=r"ledger.db is damaged.*use a good backup"):
        await old.back_up(target)
    assert list(target.parent.iterdir()) == []


async def test_nothing_that_exists_is_overwritten(backup: Path, new_store: NewStore) -> None:
    used = new_store("sqlite")
    async with used.ledger() as ledger:
        await make.lake(ledger)
        with pytest.raises(InvalidInput, match=r"good.db exists already: choose another name"):
            await used.back_up(backup)
        with pytest.raises(Unavailable, match=r"another Moorage .* is using the data folder"):
            await used.restore(backup)
    with pytest.raises(InvalidInput, match=r"holds a ledger \(ledger.db\): restore into an empty one"):
        await used.restore(backup)
    async with used.ledger() as ledger:
        assert (await ledger.mark()).seq == 2


async def test_a_write_ahead_log_without_its_ledger_is_not_played_into_a_restored_one(
    backup: Path, new_store: NewStore
) -> None:
    new = new_store("sqlite")
    (new.folder / f"{FILE}-wal").write_bytes(b"from a ledger that was deleted")
    with pytest.raises(InvalidInput, match=r"holds a ledger \(ledger.db-wal\)"):
        await new.restore(backup)


@pytest.mark.parametrize("act", [lambda f: back_up_folder(f, f / "b", silent), upgrade_folder])
def test_a_folder_without_a_ledger_is_named_and_left_empty(act: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no ledger in"):
        act(tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_database_that_is_not_there_is_named(backup: Path) -> None:
    with pytest.raises(Unavailable, match=r"the database refused or went away: .*run the same command again"):
        await restore_database(backup, "postgresql://127.0.0.1:1/nothing", silent)


# --- killed half-way ---------------------------------------------------------------------------

IN_A_CHILD = """
import asyncio, sys
from pathlib import Path
from moorage.ledger.transfer.backup import back_up_database, back_up_folder
from moorage.ledger.transfer.move import move
from moorage.ledger.transfer.restore import restore_database, restore_folder
act, one, two = sys.argv[1:]
tell = lambda words: None
match act:
    case "back_up_folder": back_up_folder(Path(one), Path(two), tell)
    case "back_up_database": asyncio.run(back_up_database(one, Path(two), tell))
    case "restore_folder": restore_folder(Path(one), Path(two), tell)
    case "restore_database": asyncio.run(restore_database(Path(one), two, tell))
    case "move": asyncio.run(move(Path(one), two, tell))
"""


async def killed(act: str, one: object, two: object, at: str) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", IN_A_CHILD, act, str(one), str(two), env={**os.environ, "MOORAGE_DIE_AT": at}
    )
    assert await child.wait() == -signal.SIGKILL


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["transfer.copied", "transfer.compared"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_killed_backup_leaves_nothing_under_its_name_and_the_next_one_cleans_up(
    kind: str, step: str, new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store(kind)
    async with store.ledger() as ledger:
        await fill(ledger)
    target = tmp_path / "out" / "backup.db"
    target.parent.mkdir()
    where = store.folder if kind == "sqlite" else store.url
    await killed("back_up_folder" if kind == "sqlite" else "back_up_database", where, target, at=step)
    assert not target.exists()
    await store.back_up(target)
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("step", ["transfer.copied", "transfer.compared"])
async def test_a_killed_restore_into_a_folder_can_be_repeated(backup: Path, step: str, new_store: NewStore) -> None:
    new = new_store("sqlite")
    await killed("restore_folder", backup, new.folder, at=step)
    assert not (new.folder / FILE).exists()
    await new.restore(backup)
    assert sorted(path.name for path in new.folder.iterdir()) == [FILE, "ledger.lock"]


async def test_a_restore_killed_after_its_last_step_is_complete(backup: Path, new_store: NewStore) -> None:
    new = new_store("sqlite")
    await killed("restore_folder", backup, new.folder, at="transfer.renamed")
    async with new.ledger() as ledger:
        last = (await ledger.mark()).seq
        assert (await make.add(ledger, make.catalog(ledger.root, "afterwards"))).seq == last + 1


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["transfer.filled", "transfer.compared", "transfer.committed"])
@pytest.mark.parametrize("act", ["restore_database", "move"])
async def test_a_killed_way_into_a_database_can_be_repeated(
    act: str, step: str, backup: Path, new_store: NewStore
) -> None:
    old, new = new_store("sqlite"), new_store("postgres")
    await old.restore(backup)
    before = await story_of(old)
    await killed(act, backup if act == "restore_database" else old.folder, new.url, at=step)
    again: Awaitable[Digests] = new.restore(backup) if act == "restore_database" else move(old.folder, new.url, silent)
    await again
    assert await story_of(new) == before
