"""The contract of the ledger port as tests. Every store runs all of them.

    class TestSqlite(LedgerKit):
        @pytest.fixture
        def open_ledger(self, tmp_path, clock):
            return lambda: SqliteLedger.open(tmp_path, clock_ms=clock)

Each test gets its own ledger with a clock that only the test moves. `open_ledger` reopens the same
ledger, so that a test can close it and check what was stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from moorage.ledger.port import Ledger
from moorage.testing.builders import Clock
from moorage.testing.ledger_kit.changes import Changes
from moorage.testing.ledger_kit.expectations import Expectations
from moorage.testing.ledger_kit.failures import Failures
from moorage.testing.ledger_kit.feed import Feed
from moorage.testing.ledger_kit.jobs import Jobs
from moorage.testing.ledger_kit.locations import Locations
from moorage.testing.ledger_kit.publishing import Publishing
from moorage.testing.ledger_kit.races import Races
from moorage.testing.ledger_kit.reads import Reads
from moorage.testing.ledger_kit.receipts import Receipts
from moorage.testing.ledger_kit.reports import Reports
from moorage.testing.ledger_kit.trees import Trees

OpenLedger = Callable[[], Awaitable[Ledger]]


class LedgerKit(
    Expectations, Changes, Trees, Locations, Reads, Feed, Receipts, Jobs, Publishing, Reports, Races, Failures
):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    async def ledger(self, open_ledger: OpenLedger) -> AsyncIterator[Ledger]:
        ledger = await open_ledger()
        yield ledger
        await ledger.close()
