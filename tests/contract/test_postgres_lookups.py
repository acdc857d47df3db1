"""Walks and lineages that share a statement: each gets its own answer, as if it had been asked for alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic

import pytest

from moorage import fresh
from moorage.core.errors import InvalidInput, Unavailable
from moorage.core.securables import Kind, Shelf
from moorage.ledger.port import Found, Step
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.postgres.lookups import Q, SharedLookups
from moorage.testing import builders as make

pytestmark = pytest.mark.postgres


@pytest.fixture
async def ledger(database_url: str) -> AsyncIterator[PostgresLedger]:
    opened = await PostgresLedger.open(database_url)
    yield opened
    await opened.close()


class Counted(Generic[Q]):
    """The ledger's own way to an answer, counting statements and holding them up at will."""

    def __init__(self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[Found]]]) -> None:
        self._ask = ask
        self.statements = 0
        self.open = asyncio.Event()
        self.open.set()

    async def ask(self, questions: Sequence[Q]) -> Sequence[Found]:
        self.statements += 1
        await self.open.wait()
        return await self._ask(questions)


async def test_walks_of_any_depth_and_number_each_find_their_own(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, *(f"t{n}" for n in range(40)))
    counted = Counted(ledger._walk_many)
    walks = SharedLookups(counted.ask, alike=len)
    paths = [make.path_to("lake", "sea", f"t{n % 50}") for n in range(60)]
    paths += [make.path_to("lake", "sea", last=Shelf.NAMESPACE), (Step(Shelf.CATALOG, "nowhere"),)] * 3
    found = await asyncio.gather(*[walks.answer(path) for path in paths])
    assert [[part.id for part in one.chain] for one in found] == [
        [part.id for part in (await ledger.walk(path)).chain] for path in paths
    ]
    assert found[0].chain[-1].id == lake.tables[0]
    assert counted.statements == 3


async def test_a_walk_sees_what_was_answered_before_it_was_asked_for(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, "t")
    counted = Counted(ledger._walk_many)
    walks = SharedLookups(counted.ask, alike=len)
    path = make.path_to("lake", "sea", "t")
    counted.open.clear()
    before = [asyncio.create_task(walks.answer(path)) for _ in range(2)]
    await asyncio.sleep(0)
    await make.add(ledger, make.update(lake.table, comment="new"))
    after = asyncio.create_task(walks.answer(path))
    await asyncio.sleep(0)
    counted.open.set()
    await asyncio.gather(*before)
    assert (await after).chain[-1].doc.comment == "new"


async def test_a_name_that_cannot_be_looked_up_fails_alone(ledger: PostgresLedger) -> None:
    await make.lake(ledger, "t")
    good, bad = make.path_to("lake", "sea", "t"), make.path_to("lake", "sea", "\x00")
    walks = SharedLookups(ledger._walk_many, alike=len)
    answers = await asyncio.gather(*[walks.answer(path) for path in (good, bad, good)], return_exceptions=True)
    assert isinstance(answers[1], InvalidInput)
    assert [len(one.chain) for one in answers if not isinstance(one, BaseException)] == [3, 3]


async def test_a_database_that_cannot_be_reached_is_asked_once_for_all() -> None:
    async def wait_in_vain(questions: Sequence[str]) -> Sequence[Found]:
        asked.append(len(questions))
        raise Unavailable("the database cannot be reached")

    asked: list[int] = []
    together = SharedLookups(wait_in_vain)
    answers = await asyncio.gather(*map(together.answer, "abcd"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 4
    assert asked == [4]


async def test_who_goes_away_takes_no_answer_along(ledger: PostgresLedger) -> None:
    await make.lake(ledger, "t")
    counted = Counted(ledger._walk_many)
    walks = SharedLookups(counted.ask, alike=len)
    counted.open.clear()
    leaving, staying = (asyncio.create_task(walks.answer(make.path_to("lake", "sea", "t"))) for _ in range(2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    counted.open.set()
    assert len((await staying).chain) == 3


async def test_lineages_of_any_depth_each_find_their_own(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, *(f"t{n}" for n in range(20)))
    await make.add(ledger, make.drop(lake.tables[1]))
    counted = Counted(ledger._lineages_many)
    lineages = SharedLookups(counted.ask)
    unknown = fresh.securable_id()
    found = await asyncio.gather(
        *map(lineages.answer, (*lake.tables, lake.namespace, lake.catalog, ledger.root, unknown))
    )
    above = [lake.catalog, lake.namespace]
    assert [[part.id for part in one.chain] for one in found] == [
        *([*above, table] for table in lake.tables),
        above,
        above[:1],
        [ledger.root],
        [],
    ]
    assert all(one.chain[-1].head is not None for one in found[:20])
    assert [one.chain[-1].dropped_at_ms is not None for one in found[:3]] == [False, True, False]
    assert {one.position.seq for one in found} == {(await ledger.position()).seq}
    assert counted.statements == 1


async def test_a_document_that_another_server_changed_is_read_anew(ledger: PostgresLedger, database_url: str) -> None:
    other = await PostgresLedger.open(database_url)
    lake = await make.lake(ledger, "t")

    async def comments() -> list[str | None]:
        listing = await ledger.children(lake.namespace, Shelf.RELATION, kinds=[Kind.TABLE])
        walk, lineage = await ledger.walk(make.path_to("lake", "sea", "t")), await ledger.lineage(lake.table)
        return [one.doc.comment for one in (listing.items[0], walk.chain[-1], lineage.chain[-1])]

    for comment in ("one", "two", "one"):
        await make.add(other, make.update(lake.table, comment=comment))
        assert await comments() == [comment] * 3
    await other.close()
