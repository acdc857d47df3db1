"""Both stores keep the contract of the ledger."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from moorage import fresh
from moorage.core.entries import HeadIs
from moorage.core.errors import Unavailable
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger, Stale
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.testing.emptied import emptied
from moorage.testing.ledger_kit import LedgerKit, OpenLedger
from moorage.testing.postgres import PostgresServer


@pytest.fixture(scope="module")
def shared_url(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.new_database("ledger_kit")
    yield url
    postgres.drop_database(url)


class TestSqlite(LedgerKit):
    @pytest.fixture
    def open_ledger(self, tmp_path: Path, clock: Clock) -> OpenLedger:
        return lambda: SqliteLedger.open(tmp_path / "data", clock_ms=clock)

    async def test_a_second_process_is_refused_and_told_why(self, ledger: Ledger, open_ledger: OpenLedger) -> None:
        with pytest.raises(Unavailable, match=r"another Moorage .* is using the data folder .*--data.*--database"):
            await open_ledger()
        await ledger.close()
        await (await open_ledger()).close()


class TestPostgres(LedgerKit):
    @pytest.fixture
    async def open_ledger(self, shared_url: str, clock: Clock) -> OpenLedger:
        url = await emptied(shared_url)
        return lambda: PostgresLedger.open(url, clock_ms=clock)

    @pytest.fixture
    async def other(self, ledger: Ledger, open_ledger: OpenLedger) -> AsyncIterator[Ledger]:
        """A second server on the same database."""
        other = await open_ledger()
        yield other
        await other.close()

    async def test_servers_that_start_at_once_share_one_metastore(self, database_url: str, clock: Clock) -> None:
        ledgers = await asyncio.gather(*[PostgresLedger.open(database_url, clock_ms=clock) for _ in range(4)])
        assert len({ledger.root for ledger in ledgers}) == 1
        assert (await ledgers[0].mark()).seq == 1
        assert len({await ledger.page_secret() for ledger in ledgers}) == 1
        for ledger in ledgers:
            await ledger.close()

    async def test_writers_on_two_servers_have_one_winner(self, ledger: Ledger, other: Ledger) -> None:
        lake = await make.lake(ledger)
        results = await asyncio.gather(
            *[
                server.append(make.draft(make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)]))
                for server in (ledger, other) * 10
            ],
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == ["Receipt"] + ["Stale"] * 19
        assert {result.actual for result in results if isinstance(result, Stale)} == {1}

    async def test_one_key_on_two_servers_at_once_is_used_once(self, ledger: Ledger, other: Ledger) -> None:
        for n in range(10):
            drafts = [make.draft(make.catalog(ledger.root, f"c{n}"), claim=make.claim(f"k{n}")) for _ in range(2)]
            receipts = await asyncio.gather(ledger.append(drafts[0]), other.append(drafts[1]))
            assert sorted(receipt.replayed for receipt in receipts) == [False, True]
            assert len({receipt.seq for receipt in receipts}) == 1

    async def test_two_servers_number_their_entries_without_gaps(self, ledger: Ledger, other: Ledger) -> None:
        drafts = [make.draft(make.catalog(ledger.root, f"c{n}")) for n in range(200)]
        receipts = await asyncio.gather(*[(ledger if n % 2 else other).append(draft) for n, draft in enumerate(drafts)])
        assert sorted(receipt.seq or 0 for receipt in receipts) == list(range(2, 202))
        feed = await ledger.entries(0, limit=1000)
        assert [entry.seq for entry in feed] == list(range(1, 202))
        assert await other.entries(0, limit=1000) == feed

    async def test_a_server_hears_of_what_another_wrote(self, ledger: Ledger, other: Ledger) -> None:
        seq = (await ledger.mark()).seq
        waiting = asyncio.create_task(ledger.wait_past(seq, 20))
        await asyncio.sleep(0.05)
        receipt = await make.add(other, make.catalog(other.root, "c"))
        assert await waiting
        assert (await ledger.mark()).seq == receipt.seq

    async def test_workers_of_two_servers_take_different_jobs(self, ledger: Ledger, other: Ledger) -> None:
        jobs = [make.job() for _ in range(6)]
        await ledger.append(make.draft(jobs=jobs))
        leases = await asyncio.gather(
            *[server.take_job("w", ("compact",), fresh.fence(), 1000) for server in (ledger, other) * 5]
        )
        taken = [lease.job.id for lease in leases if lease is not None]
        assert sorted(taken) == sorted(job.id for job in jobs)

    async def test_a_draft_sent_to_two_servers_lands_once(self, ledger: Ledger, other: Ledger) -> None:
        draft = make.draft(make.catalog(ledger.root, "c"))
        results = await asyncio.gather(ledger.append(draft), other.append(draft))
        assert sorted(result.replayed for result in results) == [False, True]
