"""What only the store on PostgreSQL has to stand: many servers, lost connections, other people's settings."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from moorage import fresh
from moorage.core.callers import LOCAL
from moorage.core.entries import Done, Draft, HeadIs, Live, Receipt
from moorage.core.errors import InvalidInput, KeyReused, MoorageError, OutcomeUnknown, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Shelf
from moorage.ledger.migrations import CODE
from moorage.ledger.port import Stale
from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from moorage.testing.postgres import PostgresServer
from moorage.usecases.ports import Errand
from moorage.usecases.settle import NewFile, Part, settle
from tests.unit.chores.lakes import ports_on

pytestmark = pytest.mark.postgres

LEDGER_LOCK = 7667201

Open = Callable[..., Awaitable[PostgresLedger]]
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # a type to the checker, no generic to Python


@pytest.fixture
async def open_server(database_url: str) -> AsyncIterator[Open]:
    """Opens another server's ledger on the test's database."""
    opened: list[PostgresLedger] = []

    async def open_one(url: str = database_url, patience_s: float = 10.0) -> PostgresLedger:
        opened.append(await PostgresLedger.open(url, patience_s=patience_s))
        return opened[-1]

    yield open_one
    for ledger in opened:
        await ledger.close()


@pytest.fixture
async def ledger(open_server: Open) -> PostgresLedger:
    return await open_server()


@pytest.fixture
async def operator(database_url: str) -> AsyncIterator[Connection]:
    """Somebody at the database itself."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - the condition lies in the database
            await asyncio.sleep(0.01)


async def waits_for_the_lock(operator: Connection) -> int:
    """The process number of the writer whose call has arrived and is held up."""
    held_up = "select pid from pg_locks where locktype = 'advisory' and not granted"
    await until(lambda: operator.fetchval(f"select exists ({held_up})"))
    return int(await operator.fetchval(held_up))


async def sequence(ledger: PostgresLedger) -> list[int]:
    return [entry.seq for entry in await ledger.entries(0, limit=10_000)]


# --- many servers ------------------------------------------------------------------------------


async def test_servers_that_start_together_make_one_ledger(open_server: Open) -> None:
    servers = await asyncio.gather(*[open_server() for _ in range(4)])
    assert len({server.root for server in servers}) == 1
    assert len({await server.page_secret() for server in servers}) == 1
    assert await sequence(servers[0]) == [1]


async def test_servers_share_one_sequence_without_gaps(open_server: Open) -> None:
    servers = [await open_server() for _ in range(3)]
    lake = await make.lake(servers[0], *[f"t{n}" for n in range(12)])

    async def commit_often(n: int) -> None:
        table = lake.tables[n]
        for version in range(1, 21):
            await make.add(servers[n % 3], make.commit(table, version), expects=[HeadIs(table, MAIN, version - 1)])

    await asyncio.gather(*[commit_often(n) for n in range(12)])
    assert await sequence(servers[0]) == list(range(1, 2 + 1 + 12 * 20))
    assert [(await servers[1].head(table, MAIN)) for table in lake.tables] == [
        await servers[2].head(table, MAIN) for table in lake.tables
    ]
    assert {head.version for table in lake.tables if (head := await servers[0].head(table, MAIN))} == {20}


async def test_twenty_writers_on_two_servers_have_one_winner(open_server: Open) -> None:
    servers = [await open_server(), await open_server()]
    lake = await make.lake(servers[0])
    drafts = [make.draft(make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)]) for _ in range(20)]
    results = await asyncio.gather(
        *[servers[n % 2].append(draft) for n, draft in enumerate(drafts)], return_exceptions=True
    )
    assert sum(isinstance(result, Receipt) for result in results) == 1
    assert [result.actual for result in results if isinstance(result, Stale)] == [1] * 19


async def test_one_key_on_two_servers_at_once_has_one_outcome(open_server: Open) -> None:
    servers = [await open_server(), await open_server()]
    for n in range(20):
        catalogs = [make.catalog(servers[0].root, f"c{n}-{server}") for server in range(2)]
        drafts = [
            make.draft(catalog, claim=make.claim(f"key {n}"), outcome=Done(ids=(catalog.id,))) for catalog in catalogs
        ]
        receipts = await asyncio.gather(*[server.append(d) for server, d in zip(servers, drafts, strict=True)])
        assert {receipt.seq for receipt in receipts} == {n + 2}
        assert len({receipt.outcome for receipt in receipts}) == 1
        assert sorted(receipt.replayed for receipt in receipts) == [False, True]


async def test_one_key_for_two_requests_is_refused_on_another_server(open_server: Open) -> None:
    here, there = await open_server(), await open_server()
    await here.append(make.draft(make.catalog(here.root, "c"), claim=make.claim("key", "one request")))
    with pytest.raises(KeyReused):
        await there.append(make.draft(make.catalog(here.root, "d"), claim=make.claim("key", "another")))


async def test_a_waiting_reader_hears_of_an_entry_from_another_server(open_server: Open) -> None:
    here, there = await open_server(), await open_server()
    waiting = [asyncio.create_task(here.wait_past(1, 10)) for _ in range(3)]
    await asyncio.sleep(0)
    await make.add(there, make.catalog(there.root, "c"))
    async with asyncio.timeout(2):
        assert await asyncio.gather(*waiting) == [True] * 3
    assert await here.wait_past(2, 0.2) is False


async def test_two_servers_never_lease_one_job(open_server: Open) -> None:
    servers = [await open_server(), await open_server()]
    await servers[0].append(make.draft(jobs=[make.job() for _ in range(10)]))
    leases = await asyncio.gather(
        *[servers[n % 2].take_job(f"w{n}", ["compact"], fresh.fence(), 60_000) for n in range(12)]
    )
    taken = [lease.job.id for lease in leases if lease is not None]
    assert len(taken) == len(set(taken)) == 10


# --- when something breaks -----------------------------------------------------------------------


async def test_a_poisoned_draft_of_a_batch_fails_alone(ledger: PostgresLedger, operator: Connection) -> None:
    lake = await make.lake(ledger, *"abcdef")
    drafts = [make.draft(make.commit(table, 1), expects=[HeadIs(table, MAIN, 0)]) for table in lake.tables]
    drafts[2] = make.draft(make.commit(lake.tables[2], 1, file="zero \x00 byte"))
    drafts[3] = make.draft(make.commit(lake.tables[3], 0))  # this version row exists
    drafts[4] = make.draft(make.commit(lake.tables[4], 2**63))
    results = await append_as_one_batch(ledger, operator, drafts)
    assert [type(result) for result in results] == [Receipt, Receipt, InvalidInput, Unavailable, InvalidInput, Receipt]
    assert await sequence(ledger) == [1, 2, 3, 4, 5]
    assert "version" not in str(results[3])  # the database's words are for the log


async def append_as_one_batch(
    ledger: PostgresLedger, operator: Connection, drafts: list[Draft]
) -> list[Receipt | BaseException]:
    """Hold the ledger's lock until all of them wait behind a first draft."""
    await operator.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    first = asyncio.create_task(ledger.append(make.draft(claim=make.claim("first"))))
    await waits_for_the_lock(operator)
    rest = [asyncio.create_task(ledger.append(draft)) for draft in drafts]
    await asyncio.sleep(0)
    await operator.execute("select pg_advisory_unlock($1)", LEDGER_LOCK)
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


async def test_a_draft_stands_though_its_caller_has_gone(ledger: PostgresLedger, operator: Connection) -> None:
    await operator.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    sent = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "sent")))
    await waits_for_the_lock(operator)
    queued = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "queued")))
    await asyncio.sleep(0)
    sent.cancel()
    queued.cancel()
    await operator.execute("select pg_advisory_unlock($1)", LEDGER_LOCK)
    await make.add(ledger, make.catalog(ledger.root, "z last"))
    found = await ledger.children(ledger.root, Shelf.CATALOG)
    assert [one.name for one in found.items] == ["queued", "sent", "z last"]


async def test_closing_finishes_what_was_accepted(open_server: Open) -> None:
    ledger, other = await open_server(), await open_server()
    accepted = [asyncio.create_task(make.add(ledger, make.catalog(ledger.root, f"c{n}"))) for n in range(300)]
    await asyncio.sleep(0)
    await ledger.close()
    assert sorted([(await one).seq or 0 for one in accepted]) == list(range(2, 302))
    assert (await other.mark()).seq == 301


async def test_an_ended_session_is_replaced_and_its_draft_appended_once(
    ledger: PostgresLedger, operator: Connection
) -> None:
    lake = await make.lake(ledger)
    await operator.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    commit = asyncio.create_task(make.add(ledger, make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)]))
    pid = await waits_for_the_lock(operator)
    await operator.execute("select pg_terminate_backend($1)", pid)
    await operator.execute("select pg_advisory_unlock($1)", LEDGER_LOCK)
    assert (await commit).seq == 3
    assert await sequence(ledger) == [1, 2, 3]


class Wire:
    """Carries bytes between a ledger and its database, and can lose an answer."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition("@")[2].partition(":")[2].partition("/")[0])
        self._ends: set[asyncio.StreamWriter] = set()
        self.swallow_answers = False
        self.swallowed = asyncio.Event()

    async def carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends |= {to_client, to_server}
        await asyncio.gather(self._pump(client, to_server), self._pump(server, to_client, is_answer=True))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool = False) -> None:
        try:
            while data := await source.read(65536):
                if is_answer and self.swallow_answers:
                    self.swallowed.set()
                    continue
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        sink.close()

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[tuple[Wire, str]]:
    wire = Wire(database_url)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield wire, f"postgresql://postgres@127.0.0.1:{port}/{database_url.rpartition('/')[2]}"
    server.close()
    wire.cut()
    await asyncio.sleep(0.05)


async def test_a_commit_whose_answer_was_lost_is_found_again_with_its_files(
    wire: tuple[Wire, str], open_server: Open, tmp_path: Path
) -> None:
    line, url = wire
    ledger, witness = await open_server(url), await open_server()
    lake, ports = await make.lake(witness), ports_on(ledger, tmp_path, make.Clock())
    file = NewFile(ports.managed_root, "metadata/1.json", b"{}")

    async def prepare() -> Part:
        return Part(expects=(HeadIs(lake.table, MAIN, 0),), changes=(make.commit(lake.table, 1),), files=(file,))

    line.swallow_answers = True
    commit = asyncio.create_task(settle(ports, Errand(caller=LOCAL, api="test", request="r"), prepare))
    await line.swallowed.wait()
    await until(lambda: is_at(witness, 3))
    line.swallow_answers = False
    line.cut()
    receipt = (await commit).receipt
    assert (receipt.seq, receipt.replayed) == (3, False)
    assert await ports.storage.read(file.root, file.path, limit=10) == b"{}"
    assert await sequence(witness) == [1, 2, 3]


async def is_at(ledger: PostgresLedger, seq: int) -> bool:
    return (await ledger.mark()).seq == seq


async def test_a_killed_database_loses_and_doubles_nothing(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=30)
    lake = await make.lake(ledger, *[f"t{n}" for n in range(8)])
    stop = asyncio.Event()

    async def commit_until_stopped(table: SecurableId) -> int:
        version = 0
        while not stop.is_set():
            version += 1
            await make.add(ledger, make.commit(table, version), expects=[HeadIs(table, MAIN, version - 1)])
        return version

    writers = [asyncio.create_task(commit_until_stopped(table)) for table in lake.tables]
    for _ in range(2):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.to_thread(own_postgres.start)
    await asyncio.sleep(0.3)
    stop.set()
    versions = await asyncio.gather(*writers)
    heads = [await ledger.head(table, MAIN) for table in lake.tables]
    assert [head and head.version for head in heads] == versions
    assert await sequence(ledger) == list(range(1, 3 + sum(versions)))
    await ledger.close()


async def test_only_a_draft_that_was_sent_has_an_unknown_outcome(own_postgres: PostgresServer) -> None:
    url = own_postgres.new_database()
    ledger = await PostgresLedger.open(url, patience_s=0.5)
    holder = await asyncpg.connect(url)
    await holder.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    sent = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "sent")))
    await waits_for_the_lock(holder)
    queued = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "queued")))
    await asyncio.to_thread(own_postgres.kill)
    with pytest.raises(OutcomeUnknown):
        await sent
    with pytest.raises(Unavailable):
        await queued
    with pytest.raises(Unavailable):
        await ledger.mark()
    await asyncio.to_thread(own_postgres.start)
    assert (await make.add(ledger, make.catalog(ledger.root, "after"))).seq == 2
    await ledger.close()


async def test_reads_and_drafts_outlast_a_restart_of_the_database(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=60)
    lake = await make.lake(ledger)
    await asyncio.to_thread(own_postgres.stop)
    waiting = [
        asyncio.create_task(ledger.mark()),
        asyncio.create_task(ledger.lineage(lake.table)),
        asyncio.create_task(ledger.walk(make.path_to("lake", "sea"))),
        asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "new"))),
    ]
    done, _ = await asyncio.wait(waiting, timeout=0.5)
    assert not done
    await asyncio.to_thread(own_postgres.start)
    await asyncio.gather(*waiting)
    await ledger.close()


async def test_only_the_first_wait_for_a_database_that_stays_away(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=2)
    await asyncio.to_thread(own_postgres.stop)
    async with asyncio.timeout(30):  # a wait each would be 60 seconds
        for _ in range(30):
            with pytest.raises(Unavailable):
                await ledger.mark()
    await asyncio.to_thread(own_postgres.start)
    assert (await ledger.mark()).seq == 1
    await ledger.close()


async def test_reads_survive_sessions_that_were_ended(ledger: PostgresLedger, operator: Connection) -> None:
    assert (await ledger.mark()).seq == 1
    await operator.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'moorage'"
        " and datname = current_database()"
    )
    assert (await ledger.mark()).seq == 1


# --- other people's settings and schemas ---------------------------------------------------------


async def test_a_database_that_may_forget_commits_is_refused(database_url: str, operator: Connection) -> None:
    await operator.execute(f"alter database {database_url.rpartition('/')[2]} set synchronous_commit = off")
    with pytest.raises(InvalidInput, match="synchronous_commit=off"):
        await PostgresLedger.open(database_url)


async def test_a_server_without_fsync_is_refused(own_postgres: PostgresServer) -> None:
    operator = await asyncpg.connect(own_postgres.url)
    await operator.execute("alter system set fsync = off")
    await operator.execute("select pg_reload_conf()")
    await until(lambda: operator.fetchval("select current_setting('fsync') = 'off'"))
    await operator.close()
    with pytest.raises(InvalidInput, match="fsync=off"):
        await PostgresLedger.open(own_postgres.url)


async def test_a_role_that_may_only_read_and_write_rows_can_serve(database_url: str, operator: Connection) -> None:
    """The schema is brought up to date by its owner, with `moorage migrate`."""
    await (await PostgresLedger.open(database_url)).close()
    clerk = f"clerk_of_{database_url.rpartition('/')[2]}"
    await operator.execute(f"create role {clerk} login")
    await operator.execute(f"grant select, insert, update, delete on all tables in schema public to {clerk}")
    ledger = await PostgresLedger.open(database_url.replace("//postgres@", f"//{clerk}@"))
    lake = await make.lake(ledger)
    await make.add(ledger, make.drop(lake.table, hold_ms=0))
    await operator.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", clerk)
    await make.add(ledger, make.catalog(ledger.root, "again"))
    await ledger.close()
    await operator.execute(f"drop owned by {clerk}")
    await operator.execute(f"drop role {clerk}")


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://postgres@127.0.0.1:1/nothing", Unavailable),
        ("mysql://localhost/lake", InvalidInput),
    ],
)
async def test_an_address_without_a_database_is_refused_in_plain_words(url: str, error: type[MoorageError]) -> None:
    with pytest.raises(error, match="database"):
        await PostgresLedger.open(url)


async def test_a_newer_schema_is_tolerated_until_it_says_otherwise(open_server: Open, operator: Connection) -> None:
    await open_server()
    await operator.execute("insert into schema_version (version, oldest_code) values (900, $1)", CODE)
    await make.add(await open_server(), make.catalog((await open_server()).root, "c"))
    await operator.execute("insert into schema_version (version, oldest_code) values (901, $1)", CODE + 1)
    with pytest.raises(Unavailable, match="upgrade Moorage"):
        await open_server()


async def test_a_server_that_may_not_migrate_says_who_should(database_url: str) -> None:
    with pytest.raises(Unavailable, match="moorage migrate"):
        await PostgresLedger.open(database_url, migrate=False)
    await (await PostgresLedger.open(database_url)).close()
    await (await PostgresLedger.open(database_url, migrate=False)).close()


async def test_no_statement_of_an_append_reads_a_table_from_end_to_end(
    ledger: PostgresLedger, operator: Connection
) -> None:
    # Planned while the catalog was small and kept: such a plan gets slower with every table that is made.
    lake = await make.lake(ledger, *[f"t{n}" for n in range(50)])
    await operator.execute("analyze")
    for version in (1, 2):
        for table in lake.tables:
            await make.add(
                ledger, make.commit(table, version), expects=[HeadIs(table, MAIN, version - 1), Live(lake.namespace)]
            )
    await asyncio.sleep(1.1)  # sessions report what they did at the end of a statement, once a second
    await make.add(ledger, make.commit(lake.table, 3))
    reported = "select idx_scan >= 100 from pg_stat_user_tables where relname = 'head'"
    await until(lambda: operator.fetchval(reported))
    scanned = await operator.fetch(
        "select relname, seq_tup_read from pg_stat_user_tables where relname <> 'schema_version' and seq_tup_read > 0"
    )
    assert [tuple(row) for row in scanned] == []
