"""The object cache of a server on PostgreSQL: reads need no lookup, and see what other servers wrote."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from moorage.core.securables import MAIN, Kind, Shelf
from moorage.ledger.postgres import PostgresLedger, queries
from moorage.testing import builders as make
from moorage.testing.builders import Lake
from tests.contract.operators import until

pytestmark = pytest.mark.postgres

CHEAP = {queries.LAST_ENTRY, queries.CHANGES_SINCE, queries.CHANGES_AND_NOTES_SINCE}


class Server:
    """A ledger whose statements are counted, with another one on the same database."""

    def __init__(self, ledger: PostgresLedger, other: PostgresLedger) -> None:
        self.ledger, self.other = ledger, other
        self.statements: list[str] = []
        fetch = ledger._readers.fetch

        async def counted(sql: str, *args: object) -> list[object]:
            self.statements.append(sql)
            return await fetch(sql, *args)

        ledger._readers.fetch = counted  # type: ignore[method-assign]

    async def read(self, lake: Lake) -> list[str | None]:
        """The comment of the lake's table, by name, by id and in a list."""
        walk = await self.ledger.walk(make.path_to("lake", "sea", "t"))
        lineage = await self.ledger.lineage(lake.table)
        listing = await self.ledger.children(lake.namespace, Shelf.RELATION)
        return [found.doc.comment for found in (walk.chain[-1], lineage.chain[-1], listing.items[-1])]

    def lookups(self) -> list[str]:
        """The statements since the last call that are not cheap."""
        found, self.statements = [sql for sql in self.statements if sql not in CHEAP], []
        return found


@pytest.fixture
async def server(database_url: str) -> AsyncIterator[Server]:
    ledger, other = await PostgresLedger.open(database_url), await PostgresLedger.open(database_url)
    yield Server(ledger, other)
    await ledger.close()
    await other.close()


async def test_objects_that_were_read_before_need_no_lookup(server: Server) -> None:
    lake = await make.lake(server.ledger, "t")
    await server.read(lake)
    server.lookups()
    for comment in ("one", "two"):
        await make.add(server.ledger, make.update(lake.table, comment=comment))
        await make.add(server.other, make.commit(lake.table, int(comment == "two") + 1))
        assert await server.read(lake) == [comment] * 3
    assert server.lookups() == []


async def test_changes_of_another_server_are_seen_at_once(server: Server) -> None:
    lake = await make.lake(server.ledger, "t")
    for number in range(20):
        await make.add(server.other, make.update(lake.table, comment=str(number)))
        assert await server.read(lake) == [str(number)] * 3
    await make.add(server.other, make.table(lake.namespace, "u"), make.drop(lake.table))
    listing = await server.ledger.children(lake.namespace, Shelf.RELATION)
    assert [item.name for item in listing.items] == ["u"]
    assert len((await server.ledger.walk(make.path_to("lake", "sea", "t"))).chain) == 2
    assert (await server.ledger.lineage(lake.table)).chain[-1].dropped_at_ms is not None


async def test_a_read_sees_every_change_that_another_server_acknowledged_before_it(server: Server) -> None:
    lake = await make.lake(server.ledger, "t")
    last = 0

    async def write() -> None:
        nonlocal last
        for number in range(1, 60):
            await make.add(server.other, make.update(lake.table, comment=str(number)))
            last = number

    async def read() -> None:
        while not writing.done():
            acknowledged = last
            found = await server.ledger.walk(make.path_to("lake", "sea", "t"))
            assert int(found.chain[-1].doc.comment or 0) >= acknowledged

    writing = asyncio.create_task(write())
    await asyncio.gather(writing, *(read() for _ in range(4)))
    # Objects are cached although the ledger grows all the time.
    assert len(server.lookups()) < 10


async def test_a_walk_at_a_position_that_was_read_needs_no_statement(server: Server) -> None:
    """A request reads its token first. It then reads its table as of the same position, or a later one."""
    lake = await make.lake(server.ledger, "t")
    path = make.path_to("lake", "sea", "t")
    await server.ledger.record_published(lake.table, MAIN, 0)
    await server.read(lake)
    for number in range(5):
        changed = await make.add(server.other, make.update(lake.table, comment=str(number)))
        since = (await server.ledger.lineage(lake.namespace)).position.seq
        assert since == changed.seq
        server.statements.clear()
        found = await server.ledger.walk(path, since=since)
        assert (found.chain[-1].doc.comment, server.statements) == (str(number), [])
    later = await make.add(server.other, make.update(lake.table, comment="later"))
    for position in (later.seq, None):
        assert (await server.ledger.walk(path, since=position)).chain[-1].doc.comment == "later"
    await make.add(server.other, make.drop(lake.table))
    assert len((await server.ledger.walk(path)).chain) == 2


async def test_a_cache_that_is_far_behind_is_cleared(server: Server) -> None:
    lake = await make.lake(server.ledger, "t")
    await server.read(lake)
    changes = [make.draft(make.update(lake.table, comment=str(n))) for n in range(queries.MAX_CHANGES + 1)]
    for change in changes:
        await server.other.append(change)
    assert await server.read(lake) == [str(queries.MAX_CHANGES)] * 3


async def test_an_entry_that_is_too_large_to_follow_clears_the_cache(server: Server) -> None:
    lake = await make.lake(server.ledger, "t")
    await server.read(lake)
    await make.add(server.other, make.update(lake.table, comment="x" * 100_000))
    assert await server.read(lake) == ["x" * 100_000] * 3


async def test_a_change_that_only_a_later_release_knows_clears_the_cache(server: Server, database_url: str) -> None:
    lake = await make.lake(server.ledger, "t")
    await server.read(lake)
    operator = await asyncpg.connect(database_url)
    await operator.execute(
        "insert into entry select seq + 1, at_ms, access_seq, 'later', caller, api, request, $1 from entry "
        "order by seq desc limit 1",
        b'{"changes":[{"type":"to_come","id":"x"}]}',
    )
    await operator.execute("""update securable set doc = '{"comment":"later"}' where id = $1""", lake.table)
    await operator.close()
    assert await server.read(lake) == ["later"] * 3


async def test_a_failover_that_lost_entries_clears_the_cache(server: Server, database_url: str) -> None:
    lake = await make.lake(server.ledger, "t")
    before = (await server.ledger.position()).seq
    await make.add(server.ledger, make.update(lake.table, comment="lost"))
    assert await server.read(lake) == ["lost"] * 3
    operator = await asyncpg.connect(database_url)
    await operator.execute("delete from entry where seq > $1", before)
    await operator.execute("update securable set doc = '{}', revision = 1 where id = $1", lake.table)
    await operator.close()
    assert await server.read(lake) == [None] * 3
    await make.add(server.other, make.update(lake.table, comment="found"))
    assert await server.read(lake) == ["found"] * 3


async def test_notes_are_seen_at_once_here_and_soon_elsewhere(server: Server) -> None:
    lake = await make.lake(server.ledger, "t")
    await make.add(server.ledger, make.published_commit(lake.table, 1), make.published_commit(lake.table, 2))

    async def is_published(version: int | None) -> bool:
        head = (await server.ledger.lineage(lake.table)).chain[-1].head
        return head is not None and head.published == version

    assert await is_published(None)
    await server.ledger.record_published(lake.table, MAIN, 1)
    assert await is_published(1)
    await server.other.record_published(lake.table, MAIN, 2)
    await until(lambda: is_published(2))


async def test_a_page_of_one_kind_keeps_its_limit(server: Server) -> None:
    lake = await make.lake(server.ledger, "a", "b", "c")
    for _ in range(2):
        listing = await server.ledger.children(lake.namespace, Shelf.RELATION, limit=2, kinds=[Kind.TABLE])
        assert [item.name for item in listing.items] == ["a", "b"]
        listing = await server.ledger.children(lake.namespace, Shelf.RELATION, after="b", since=listing.position.seq)
        assert [item.name for item in listing.items] == ["c"]
