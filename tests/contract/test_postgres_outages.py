"""If the database, a session or the network fails, no draft is lost and none is appended twice."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from moorage.core.callers import LOCAL, Caller
from moorage.core.entries import Draft, HeadIs, Receipt
from moorage.core.errors import InvalidInput, OutcomeUnknown, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Shelf
from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from moorage.testing.postgres import PostgresServer, run_program
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand
from moorage.usecases.settling.settle import settle
from tests.contract.operators import (
    LEDGER_LOCK,
    Connection,
    DatabaseProxy,
    Open,
    make_replica,
    sequence,
    until,
    wait_for_blocked_writer,
)
from tests.unit.chores.lakes import ports_on

pytestmark = pytest.mark.postgres


@pytest.fixture
async def ledger(open_server: Open) -> PostgresLedger:
    return await open_server()


async def test_an_invalid_draft_in_a_batch_fails_alone(ledger: PostgresLedger, operator: Connection) -> None:
    lake = await make.lake(ledger, *"abcdef")
    drafts = [make.draft(make.commit(table, 1), expects=[HeadIs(table, MAIN, 0)]) for table in lake.tables]
    drafts[2] = make.draft(make.commit(lake.tables[2], 1, file="zero \x00 byte"))
    drafts[3] = make.draft(make.commit(lake.tables[3], 0))  # this version row exists
    drafts[4] = make.draft(make.commit(lake.tables[4], 2**63))
    results = await append_as_one_batch(ledger, operator, drafts)
    assert [type(result) for result in results] == [Receipt, Receipt, InvalidInput, Unavailable, InvalidInput, Receipt]
    assert await sequence(ledger) == [1, 2, 3, 4, 5]
    assert "version" not in str(results[3])  # the message of the database is only logged


async def append_as_one_batch(
    ledger: PostgresLedger, operator: Connection, drafts: list[Draft]
) -> list[Receipt | BaseException]:
    """Hold the lock of the ledger until all drafts wait behind a first one."""
    await operator.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    first = asyncio.create_task(ledger.append(make.draft(key=make.idempotency_key("first"))))
    await wait_for_blocked_writer(operator)
    rest = [asyncio.create_task(ledger.append(draft)) for draft in drafts]
    await asyncio.sleep(0)
    await operator.execute("select pg_advisory_unlock($1)", LEDGER_LOCK)
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


async def test_a_draft_is_appended_though_its_caller_was_cancelled(
    ledger: PostgresLedger, operator: Connection
) -> None:
    await operator.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    sent = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "sent")))
    await wait_for_blocked_writer(operator)
    queued = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "queued")))
    await asyncio.sleep(0)
    sent.cancel()
    queued.cancel()
    await operator.execute("select pg_advisory_unlock($1)", LEDGER_LOCK)
    await make.add(ledger, make.catalog(ledger.root, "z last"))
    found = await ledger.children(ledger.root, Shelf.CATALOG)
    assert [one.name for one in found.items] == ["queued", "sent", "z last"]


async def test_closing_waits_for_all_accepted_drafts(open_server: Open) -> None:
    ledger, other = await open_server(), await open_server()
    accepted = [asyncio.create_task(make.add(ledger, make.catalog(ledger.root, f"c{n}"))) for n in range(300)]
    await asyncio.sleep(0)
    await ledger.close()
    assert sorted([(await one).seq or 0 for one in accepted]) == list(range(2, 302))
    assert (await other.position()).seq == 301


async def test_a_terminated_session_is_replaced_and_its_draft_is_appended_once(
    ledger: PostgresLedger, operator: Connection
) -> None:
    lake = await make.lake(ledger)
    await operator.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    commit = asyncio.create_task(make.add(ledger, make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)]))
    pid = await wait_for_blocked_writer(operator)
    await operator.execute("select pg_terminate_backend($1)", pid)
    await operator.execute("select pg_advisory_unlock($1)", LEDGER_LOCK)
    assert (await commit).seq == 3
    assert await sequence(ledger) == [1, 2, 3]


async def test_a_commit_whose_response_was_lost_is_found_and_its_files_exist(
    proxied: tuple[DatabaseProxy, str], open_server: Open, tmp_path: Path
) -> None:
    proxy, url = proxied
    ledger, witness = await open_server(url), await open_server()
    lake, ports = await make.lake(witness), ports_on(ledger, tmp_path, make.Clock())
    file = NewFile(ports.roots.managed, "metadata/1.json", b"{}")

    async def prepare(_: Caller) -> Part:
        return Part(expects=(HeadIs(lake.table, MAIN, 0),), changes=(make.commit(lake.table, 1),), files=(file,))

    proxy.lose_responses = True
    commit = asyncio.create_task(settle(ports, Errand(caller=LOCAL, api="test", request="r"), prepare))
    await proxy.lost.wait()
    await until(lambda: is_at(witness, 3))
    proxy.lose_responses = False
    proxy.cut()
    receipt = (await commit).receipt
    assert (receipt.seq, receipt.replayed) == (3, False)
    assert await ports.storage.read(file.root, file.path, limit=10) == b"{}"
    assert await sequence(witness) == [1, 2, 3]


async def is_at(ledger: PostgresLedger, seq: int) -> bool:
    return (await ledger.position()).seq == seq


async def commit_until(stop: asyncio.Event, ledger: PostgresLedger, table: SecurableId) -> int:
    """Commit until stopped, and return the number of acknowledged commits."""
    version = 0
    while not stop.is_set():
        version += 1
        await make.add(ledger, make.commit(table, version), expects=[HeadIs(table, MAIN, version - 1)])
    return version


async def require_acknowledged(ledger: PostgresLedger, lake: make.Lake, versions: list[int]) -> None:
    """Every acknowledged commit exists exactly once."""
    heads = [await ledger.head(table, MAIN) for table in lake.tables]
    assert [head and head.version for head in heads] == versions
    assert await sequence(ledger) == list(range(1, 3 + sum(versions)))


async def test_a_killed_database_loses_and_duplicates_nothing(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=30)
    lake = await make.lake(ledger, *[f"t{n}" for n in range(8)])
    stop = asyncio.Event()
    writers = [asyncio.create_task(commit_until(stop, ledger, table)) for table in lake.tables]
    for _ in range(2):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.to_thread(own_postgres.start)
    await asyncio.sleep(0.3)
    stop.set()
    await require_acknowledged(ledger, lake, await asyncio.gather(*writers))
    await ledger.close()


async def test_only_a_draft_that_was_sent_has_an_unknown_outcome(own_postgres: PostgresServer) -> None:
    url = own_postgres.new_database()
    ledger = await PostgresLedger.open(url, patience_s=0.5)
    holder = await asyncpg.connect(url)
    await holder.execute("select pg_advisory_lock($1)", LEDGER_LOCK)
    sent = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "sent")))
    await wait_for_blocked_writer(holder)
    queued = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "queued")))
    await asyncio.to_thread(own_postgres.kill)
    with pytest.raises(OutcomeUnknown):
        await sent
    with pytest.raises(Unavailable):
        await queued
    with pytest.raises(Unavailable):
        await ledger.position()
    await asyncio.to_thread(own_postgres.start)
    assert (await make.add(ledger, make.catalog(ledger.root, "after"))).seq == 2
    await ledger.close()


async def test_a_draft_that_could_not_be_sent_does_not_have_an_unknown_outcome(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=0.5)
    await make.add(ledger, make.catalog(ledger.root, "before"))
    await asyncio.to_thread(own_postgres.stop)  # no draft is in progress
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await make.add(ledger, make.catalog(ledger.root, "during"))
    await asyncio.to_thread(own_postgres.start)
    assert (await make.add(ledger, make.catalog(ledger.root, "after"))).seq == 3
    await ledger.close()


async def test_reads_and_drafts_survive_a_restart_of_the_database(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=60)
    lake = await make.lake(ledger)
    await asyncio.to_thread(own_postgres.stop)
    waiting = [
        asyncio.create_task(ledger.position()),
        asyncio.create_task(ledger.lineage(lake.table)),
        asyncio.create_task(ledger.walk(make.path_to("lake", "sea"))),
        asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "new"))),
    ]
    done, _ = await asyncio.wait(waiting, timeout=0.5)
    assert not done
    await asyncio.to_thread(own_postgres.start)
    await asyncio.gather(*waiting)
    await ledger.close()


async def test_only_the_first_read_waits_for_an_unreachable_database(own_postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(own_postgres.new_database(), patience_s=2)
    await asyncio.to_thread(own_postgres.stop)
    async with asyncio.timeout(30):  # 60 seconds if each read waited
        for _ in range(30):
            with pytest.raises(Unavailable):
                await ledger.position()
    await asyncio.to_thread(own_postgres.start)
    assert (await ledger.position()).seq == 1
    await ledger.close()


async def test_reads_survive_terminated_sessions(ledger: PostgresLedger, operator: Connection) -> None:
    assert (await ledger.position()).seq == 1
    await operator.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'moorage'"
        " and datname = current_database()"
    )
    assert (await ledger.position()).seq == 1


async def test_reads_do_not_wait_for_responses_that_the_network_lost(proxied: tuple[DatabaseProxy, str]) -> None:
    proxy, url = proxied
    ledger = await PostgresLedger.open(url, patience_s=60, answer_s=2)
    lake = await make.lake(ledger)
    await asyncio.gather(*[ledger.position() for _ in range(8)])  # opens eight connections
    proxy.lose_responses = True
    waiting = []
    for n in range(2):  # as many as walks may have in progress
        waiting.append(asyncio.create_task(ledger.walk(make.path_to("lake", "sea", f"missing{n}"))))
        await proxy.lost.wait()
        proxy.lost.clear()
    proxy.lose_responses = False
    async with asyncio.timeout(60):
        assert (await ledger.walk(make.path_to("lake", "sea", "t"))).chain[-1].id == lake.table
        assert [len(one.chain) for one in await asyncio.gather(*waiting)] == [2, 2]
    await ledger.close()


async def test_drafts_do_not_wait_for_a_session_whose_responses_are_lost(proxied: tuple[DatabaseProxy, str]) -> None:
    proxy, url = proxied
    ledger = await PostgresLedger.open(url, patience_s=60, answer_s=1.5)
    proxy.lose_responses_once_open = True
    proxy.cut()
    sent = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "c")))
    await proxy.lost.wait()  # a new session has asked for the state of the old one
    proxy.lose_responses_once_open = False
    async with asyncio.timeout(60):
        assert (await sent).seq == 2
    await ledger.close()


async def test_a_failover_to_a_synchronous_replica_loses_and_duplicates_nothing(own_postgres: PostgresServer) -> None:
    name = own_postgres.new_database().rpartition("/")[2]
    with PostgresServer.create() as standby:
        await asyncio.to_thread(make_replica, standby, own_postgres)
        operator = await asyncpg.connect(own_postgres.url)
        await operator.execute("alter system set synchronous_standby_names = '*'")
        await operator.execute("select pg_reload_conf()")
        followed = "select exists (select from pg_stat_replication where sync_state = 'sync')"
        await until(lambda: operator.fetchval(followed))
        await operator.close()
        with pytest.raises(InvalidInput, match="replica"):
            await PostgresLedger.open(f"postgresql://postgres@127.0.0.1:{standby.port}/{name}")

        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{own_postgres.port}"
        ledger = await PostgresLedger.open(f"postgresql://postgres@{hosts}/{name}", patience_s=60)
        lake = await make.lake(ledger, *[f"t{n}" for n in range(4)])
        stop = asyncio.Event()
        writers = [asyncio.create_task(commit_until(stop, ledger, table)) for table in lake.tables]
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.to_thread(run_program, standby.home, "pg_ctl", "promote", "-w", "-D", str(standby.data))
        before = (await ledger.position()).seq
        await until(lambda: is_past(ledger, before))
        stop.set()
        await require_acknowledged(ledger, lake, await asyncio.gather(*writers))
        await ledger.close()


async def is_past(ledger: PostgresLedger, seq: int) -> bool:
    return (await ledger.position()).seq > seq
