"""Walks that share a statement: each gets its own answer, as if it had walked alone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moorage.core.errors import InvalidInput
from moorage.core.securables import Shelf
from moorage.ledger.port import Step
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.postgres.walks import Walks
from moorage.testing import builders as make

pytestmark = pytest.mark.postgres


@pytest.fixture
async def ledger(database_url: str) -> AsyncIterator[PostgresLedger]:
    opened = await PostgresLedger.open(database_url)
    yield opened
    await opened.close()


class Counted:
    """The ledger's own way to the database, counting statements and holding them up at will."""

    def __init__(self, ledger: PostgresLedger) -> None:
        self._ledger = ledger
        self.statements = 0
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        self.statements += 1
        await self.open.wait()
        return await self._ledger._rows(sql, *args)


async def test_walks_of_any_depth_and_number_each_find_their_own(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, *(f"t{n}" for n in range(40)))
    counted = Counted(ledger)
    walks = Walks(counted.fetch)
    paths = [make.path_to("lake", "sea", f"t{n % 50}") for n in range(60)]
    paths += [make.path_to("lake", "sea", last=Shelf.NAMESPACE), (Step(Shelf.CATALOG, "nowhere"),)] * 3
    found = await asyncio.gather(*[walks.walk(ledger.root, path) for path in paths])
    assert [[part.id for part in one.chain] for one in found] == [
        [part.id for part in (await ledger.walk(path)).chain] for path in paths
    ]
    assert found[0].chain[-1].id == lake.tables[0]
    assert counted.statements == 3


async def test_a_walk_sees_what_was_answered_before_it_was_asked_for(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, "t")
    counted = Counted(ledger)
    walks = Walks(counted.fetch)
    path = make.path_to("lake", "sea", "t")
    counted.open.clear()
    before = [asyncio.create_task(walks.walk(ledger.root, path)) for _ in range(2)]
    await asyncio.sleep(0)
    await make.add(ledger, make.update(lake.table, comment="new"))
    after = asyncio.create_task(walks.walk(ledger.root, path))
    await asyncio.sleep(0)
    counted.open.set()
    await asyncio.gather(*before)
    assert (await after).chain[-1].doc.comment == "new"


async def test_a_name_that_cannot_be_looked_up_fails_alone(ledger: PostgresLedger) -> None:
    await make.lake(ledger, "t")
    good, bad = make.path_to("lake", "sea", "t"), make.path_to("lake", "sea", "\x00")
    walks = Walks(ledger._rows)
    answers = await asyncio.gather(
        *[walks.walk(ledger.root, path) for path in (good, bad, good)], return_exceptions=True
    )
    assert isinstance(answers[1], InvalidInput)
    assert [len(one.chain) for one in answers if not isinstance(one, BaseException)] == [3, 3]


async def test_who_goes_away_takes_no_answer_along(ledger: PostgresLedger) -> None:
    await make.lake(ledger, "t")
    counted = Counted(ledger)
    walks = Walks(counted.fetch)
    counted.open.clear()
    leaving, staying = (
        asyncio.create_task(walks.walk(ledger.root, make.path_to("lake", "sea", "t"))) for _ in range(2)
    )
    await asyncio.sleep(0.01)
    leaving.cancel()
    counted.open.set()
    assert len((await staying).chain) == 3
