"""Both stores keep the ledger contract."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from moorage import fresh
from moorage.core.entries import JobHeld
from moorage.core.errors import Unavailable
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.testing.empty_database import emptied
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

    async def test_a_second_process_is_refused_with_the_reason(self, ledger: Ledger, open_ledger: OpenLedger) -> None:
        with pytest.raises(Unavailable, match=r"another Moorage .* is using the data folder .*--data.*--database"):
            await open_ledger()
        await ledger.close()
        await (await open_ledger()).close()


class TestPostgres(LedgerKit):
    @pytest.fixture
    async def open_ledger(self, shared_url: str, clock: Clock) -> OpenLedger:
        url = await emptied(shared_url)
        return lambda: PostgresLedger.open(url, clock_ms=clock)

    async def test_a_draft_sent_to_two_servers_is_appended_once(self, ledger: Ledger, open_ledger: OpenLedger) -> None:
        other = await open_ledger()
        draft = make.draft(make.catalog(ledger.root, "c"))
        receipts = await asyncio.gather(ledger.append(draft), other.append(draft))
        assert sorted(receipt.replayed for receipt in receipts) == [False, True]
        await other.close()

    async def test_a_job_is_not_leased_again_while_its_holder_is_writing(
        self, ledger: Ledger, open_ledger: OpenLedger, clock: Clock, shared_url: str
    ) -> None:
        other = await open_ledger()
        job = make.job()
        await ledger.append(make.draft(jobs=[job]))
        lease = await ledger.lease_job("slow", ("compact",), fresh.fence(), 1000)
        assert lease is not None
        clock.advance(1000)
        operator = await asyncpg.connect(shared_url)
        async with operator.transaction():
            await operator.execute("lock table entry in exclusive mode")  # reads pass, the append waits
            work = make.draft(make.catalog(ledger.root, "c"), expects=[JobHeld(job.id, lease.fence)])
            writing = asyncio.ensure_future(ledger.append(work))
            while not await operator.fetchval("select exists (select from pg_locks where not granted)"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            taking = asyncio.create_task(other.lease_job("next", ("compact",), fresh.fence(), 1000))
            await asyncio.wait([taking], timeout=0.3)
            # If the next worker had its fence now, the effect of the previous worker would come after it.
            assert not taking.done()
        await writing
        assert (await taking) is not None
        await operator.close()
        await other.close()
