"""Cases of the PostgreSQL store only: several servers, and settings that operators control."""

import asyncio

import asyncpg
import pytest

from moorage import fresh
from moorage.core.entries import Done, HeadIs, Live, Receipt
from moorage.core.errors import InvalidInput, KeyReused, MoorageError, Unavailable
from moorage.core.securables import MAIN
from moorage.ledger.migrations import CODE
from moorage.ledger.port import Stale
from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from moorage.testing.postgres import PostgresServer
from tests.contract.operators import Connection, DatabaseProxy, Open, sequence, until

pytestmark = pytest.mark.postgres

SSL_REQUEST = bytes.fromhex("00000008 04d2162f")


@pytest.fixture
async def ledger(open_server: Open) -> PostgresLedger:
    return await open_server()


# --- many servers ------------------------------------------------------------------------------


async def test_servers_that_start_together_create_one_ledger(open_server: Open) -> None:
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


async def test_one_key_sent_to_two_servers_concurrently_has_one_outcome(open_server: Open) -> None:
    servers = [await open_server(), await open_server()]
    for n in range(20):
        catalogs = [make.catalog(servers[0].root, f"c{n}-{server}") for server in range(2)]
        drafts = [
            make.draft(catalog, key=make.idempotency_key(f"key {n}"), outcome=Done(ids=(catalog.id,)))
            for catalog in catalogs
        ]
        receipts = await asyncio.gather(*[server.append(d) for server, d in zip(servers, drafts, strict=True)])
        assert {receipt.seq for receipt in receipts} == {n + 2}
        assert len({receipt.outcome for receipt in receipts}) == 1
        assert sorted(receipt.replayed for receipt in receipts) == [False, True]


async def test_one_key_for_two_requests_is_refused_on_another_server(open_server: Open) -> None:
    here, there = await open_server(), await open_server()
    await here.append(make.draft(make.catalog(here.root, "c"), key=make.idempotency_key("key", "one request")))
    with pytest.raises(KeyReused):
        await there.append(make.draft(make.catalog(here.root, "d"), key=make.idempotency_key("key", "another")))


async def test_a_waiting_reader_is_woken_by_an_entry_from_another_server(open_server: Open) -> None:
    here, there = await open_server(), await open_server()
    waiting = [asyncio.create_task(here.wait_for_entry_after(1, 10)) for _ in range(3)]
    await asyncio.sleep(0)
    await make.add(there, make.catalog(there.root, "c"))
    async with asyncio.timeout(2):
        assert await asyncio.gather(*waiting) == [True] * 3
    assert await here.wait_for_entry_after(2, 0.2) is False


async def test_two_servers_never_lease_one_job(open_server: Open) -> None:
    servers = [await open_server(), await open_server()]
    await servers[0].append(make.draft(jobs=[make.job() for _ in range(10)]))
    leases = await asyncio.gather(
        *[servers[n % 2].lease_job(f"w{n}", ["compact"], fresh.fence(), 60_000) for n in range(12)]
    )
    taken = [lease.job.id for lease in leases if lease is not None]
    assert len(taken) == len(set(taken)) == 10


# --- settings and schemas that operators control ----------------------------------------------------


async def test_a_database_with_asynchronous_commits_is_refused(database_url: str, operator: Connection) -> None:
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


async def test_a_read_only_database_is_refused(database_url: str, operator: Connection) -> None:
    await operator.execute(f"alter database {database_url.rpartition('/')[2]} set default_transaction_read_only = on")
    with pytest.raises(InvalidInput, match="the database is read-only"):
        await PostgresLedger.open(database_url)


async def test_a_pooler_that_shares_sessions_is_refused(proxied: tuple[DatabaseProxy, str]) -> None:
    proxy, url = proxied
    proxy.is_pool = True
    with pytest.raises(InvalidInput, match="PgBouncer"):
        await PostgresLedger.open(url)


async def test_a_pooler_that_rejects_our_startup_parameters_is_refused() -> None:
    async def refuse(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        while await client.read(1024) == SSL_REQUEST:
            to_client.write(b"N")
        message = b"SFATAL\0C08P01\0Munsupported startup parameter: jit\0\0"
        to_client.write(b"E" + (4 + len(message)).to_bytes(4, "big") + message)
        to_client.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as pool:
        port = pool.sockets[0].getsockname()[1]
        with pytest.raises(InvalidInput, match="PgBouncer"):
            await PostgresLedger.open(f"postgresql://postgres@127.0.0.1:{port}/lake")


async def test_only_notes_are_committed_asynchronously(ledger: PostgresLedger) -> None:
    query = "show synchronous_commit"
    assert ledger._writer is not None
    assert await ledger._writer._connection.fetchval(query) == "on"
    assert await ledger._value(query) == "off"


async def test_staged_bytes_are_not_compressed_while_the_lock_is_held(
    ledger: PostgresLedger, operator: Connection
) -> None:
    lake = await make.lake(ledger)
    staged = make.attached(lake.table, 1, staged=b"much the same " * 10_000)
    await ledger.append(make.draft(make.published_commit(lake.table, 1), attachments=[staged]))
    assert await operator.fetchval("select pg_column_size(bytes) from staged") == 140_000


async def test_a_role_that_can_only_read_and_write_rows_is_sufficient(database_url: str, operator: Connection) -> None:
    """The owner upgrades the schema, with `moorage migrate`."""
    await (await PostgresLedger.open(database_url)).close()
    role = f"clerk_of_{database_url.rpartition('/')[2]}"
    await operator.execute(f"create role {role} login")
    await operator.execute(f"grant select, insert, update, delete on all tables in schema public to {role}")
    ledger = await PostgresLedger.open(database_url.replace("//postgres@", f"//{role}@"))
    lake = await make.lake(ledger)
    await make.add(ledger, make.drop(lake.table, hold_ms=0))
    await operator.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
    await make.add(ledger, make.catalog(ledger.root, "again"))
    await ledger.close()
    await operator.execute(f"drop owned by {role}")
    await operator.execute(f"drop role {role}")


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://postgres@127.0.0.1:1/nothing", Unavailable),
        ("mysql://localhost/lake", InvalidInput),
    ],
)
async def test_a_url_without_a_database_is_refused_with_a_reason(url: str, error: type[MoorageError]) -> None:
    with pytest.raises(error, match="database"):
        await PostgresLedger.open(url)


async def test_a_newer_schema_is_accepted_unless_it_requires_newer_code(
    open_server: Open, operator: Connection
) -> None:
    await open_server()
    await operator.execute("insert into schema_version (version, oldest_code) values (900, $1)", CODE)
    await make.add(await open_server(), make.catalog((await open_server()).root, "c"))
    await operator.execute("insert into schema_version (version, oldest_code) values (901, $1)", CODE + 1)
    with pytest.raises(Unavailable, match="upgrade Moorage"):
        await open_server()


async def test_a_server_that_may_not_migrate_names_the_command_that_does(database_url: str) -> None:
    with pytest.raises(Unavailable, match="moorage migrate"):
        await PostgresLedger.open(database_url, migrate=False)
    await (await PostgresLedger.open(database_url)).close()
    await (await PostgresLedger.open(database_url, migrate=False)).close()


async def test_no_statement_of_an_append_scans_a_table(ledger: PostgresLedger, operator: Connection) -> None:
    # A plan from when the catalog was small is cached. If it scans a table, it gets slower with every new row.
    lake = await make.lake(ledger, *[f"t{n}" for n in range(50)])
    await operator.execute("analyze")
    for version in (1, 2):
        for table in lake.tables:
            await make.add(
                ledger, make.commit(table, version), expects=[HeadIs(table, MAIN, version - 1), Live(lake.namespace)]
            )
    await asyncio.sleep(1.1)  # sessions report statistics at the end of a statement, at most once a second
    await make.add(ledger, make.commit(lake.table, 3))
    reported = "select idx_scan >= 100 from pg_stat_user_tables where relname = 'head'"
    await until(lambda: operator.fetchval(reported))
    scanned = await operator.fetch(
        "select relname, seq_tup_read from pg_stat_user_tables where relname <> 'schema_version' and seq_tup_read > 0"
    )
    assert [tuple(row) for row in scanned] == []
