"""Walks and lineages that share one statement: each gets the result that it would get alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic

import pytest

from moorage import fresh
from moorage.core.errors import InvalidInput, Unavailable
from moorage.core.securables import Kind, Shelf
from moorage.ledger.port import Found, Step
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.postgres.lookups import A, Q, SharedLookups
from moorage.testing import builders as make

pytestmark = pytest.mark.postgres


@pytest.fixture
async def ledger(database_url: str) -> AsyncIterator[PostgresLedger]:
    opened = await PostgresLedger.open(database_url)
    yield opened
    await opened.close()


class Counted(Generic[Q, A]):
    """Runs lookups of the ledger, counts the statements, and blocks them while `open` is not set."""

    def __init__(self, run: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]) -> None:
        self._run = run
        self.statements = 0
        self.open = asyncio.Event()
        self.open.set()

    async def run(self, lookups: Sequence[Q]) -> Sequence[A]:
        self.statements += 1
        await self.open.wait()
        return await self._run(lookups)


async def test_many_walks_of_any_depth_each_get_their_own_result(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, *(f"t{n}" for n in range(40)))
    counted = Counted(ledger._walk_many)
    walks = SharedLookups(counted.run, alike=len)
    paths = [make.path_to("lake", "sea", f"t{n % 50}") for n in range(60)]
    paths += [make.path_to("lake", "sea", last=Shelf.NAMESPACE), (Step(Shelf.CATALOG, "nowhere"),)] * 3
    found = await asyncio.gather(*[walks.answer(path) for path in paths])
    assert [[part.id for part in one.chain] for one in found] == [
        [part.id for part in (await ledger.walk(path)).chain] for path in paths
    ]
    assert found[0].chain[-1].id == lake.tables[0]
    assert counted.statements == 3


async def test_a_walk_sees_every_change_that_was_acknowledged_before_it(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, "t")
    counted = Counted(ledger._walk_many)
    walks = SharedLookups(counted.run, alike=len)
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


async def test_an_unreachable_database_is_tried_once_for_all_lookups() -> None:
    async def fail(lookups: Sequence[str]) -> Sequence[Found]:
        lookup_counts.append(len(lookups))
        raise Unavailable("the database cannot be reached")

    lookup_counts: list[int] = []
    shared = SharedLookups(fail)
    answers = await asyncio.gather(*map(shared.answer, "abcd"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 4
    assert lookup_counts == [4]


async def test_a_cancelled_walk_does_not_affect_the_others(ledger: PostgresLedger) -> None:
    await make.lake(ledger, "t")
    counted = Counted(ledger._walk_many)
    walks = SharedLookups(counted.run, alike=len)
    counted.open.clear()
    cancelled, other = (asyncio.create_task(walks.answer(make.path_to("lake", "sea", "t"))) for _ in range(2))
    await asyncio.sleep(0.01)
    cancelled.cancel()
    counted.open.set()
    assert len((await other).chain) == 3


async def test_lineages_of_any_depth_each_get_their_own_result(ledger: PostgresLedger) -> None:
    lake = await make.lake(ledger, *(f"t{n}" for n in range(20)))
    await make.add(ledger, make.drop(lake.tables[1]))
    counted = Counted(ledger._lineages_many)
    lineages = SharedLookups(counted.run)
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


async def test_a_document_that_another_server_changed_is_read_again(ledger: PostgresLedger, database_url: str) -> None:
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
