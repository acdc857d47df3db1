"""Reads beside the writer, at moments that rarely occur by chance."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from moorage import fresh
from moorage.core.entries import Receipt
from moorage.core.securables import MAIN, Kind, Shelf
from moorage.ledger import rows
from moorage.ledger.sqlite import SqliteLedger, writer
from moorage.testing import builders as make

ANOTHER_WRITE = "insert into entry select max(seq) + 1, 0, 0, 'x', 'x', 'x', 'x', x'' from entry"


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = await SqliteLedger.open(tmp_path)
    yield ledger
    await ledger.close()


@pytest.mark.parametrize("read", ["children", "dropped", "lineage"])
async def test_an_empty_result_never_has_a_later_position(ledger: SqliteLedger, tmp_path: Path, read: str) -> None:
    before = await ledger.position()
    writer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    statements: list[str] = []

    def between_two_statements(statement: str) -> None:
        statements.append(statement)
        if len(statements) == 2:
            writer.execute(ANOTHER_WRITE)

    reading = ledger._connection()
    reading.set_trace_callback(between_two_statements)
    if read == "children":
        position = (await ledger.children(ledger.root, Shelf.CATALOG)).position
    elif read == "dropped":
        position = (await ledger.dropped(ledger.root, Shelf.CATALOG)).position
    else:
        position = (await ledger.lineage(fresh.securable_id())).position
    reading.set_trace_callback(None)
    assert statements
    writer.close()
    assert position == before


async def test_a_walk_that_reads_the_file_does_not_use_cached_parents(ledger: SqliteLedger, tmp_path: Path) -> None:
    lake = await make.lake(ledger)
    assert len((await ledger.walk(make.path_to("lake", "sea", "t"))).chain) == 3
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as writer:
        writer.execute("update securable set dropped_at = 1 where id = ?", (lake.namespace,))
        writer.execute(ANOTHER_WRITE)
    found = await ledger.walk(make.path_to("lake", "sea", "new"))
    assert [part.name for part in found.chain] == ["lake"]


async def test_a_published_version_is_visible_though_its_publisher_was_cancelled(ledger: SqliteLedger) -> None:
    lake = await make.lake(ledger)
    path = make.path_to("lake", "sea", "t")
    assert len((await ledger.walk(path)).chain) == 3
    publisher = asyncio.create_task(ledger.record_published(lake.table, MAIN, 0))
    await asyncio.sleep(0)
    publisher.cancel()
    await asyncio.gather(publisher, return_exceptions=True)
    await make.add(ledger, make.update(lake.namespace, comment="behind the note"))
    head = (await ledger.walk(path)).chain[-1].head
    assert head is not None
    assert head.published == 0


async def test_a_cached_list_equals_the_list_in_the_file(ledger: SqliteLedger) -> None:
    lake = await make.lake(ledger)
    tables = [make.table(lake.namespace, name) for name in "abcd"]
    await make.add(ledger, *tables)
    a, b, c, d = (table.id for table in tables)
    await ledger.children(lake.namespace, Shelf.RELATION)
    for change in (
        make.update(a, comment="new"),
        make.commit(a, 0),
        make.commit(a, 1, row_id_mark=7),
        make.rename(b, lake.namespace, "z"),
        make.rename(a, lake.namespace, "b"),
        make.drop(c),
        make.undrop(c, "y"),
        make.raise_floor(a, 1),
        make.drop(d),
        make.erase(d),
        make.table(lake.namespace, "a"),
    ):
        await make.add(ledger, change)
        listed = (await ledger.children(lake.namespace, Shelf.RELATION)).items
        for _ in range(3):  # the first read caches the objects and the list
            assert (await ledger.children(lake.namespace, Shelf.RELATION)).items == listed
            assert (await ledger.children(lake.namespace, Shelf.RELATION, limit=1)).items == listed[:1]
            assert (await ledger.children(lake.namespace, Shelf.RELATION, kinds=[Kind.VIEW])).items == ()
        assert [table.name for table in listed] == sorted(table.name for table in listed)
        assert list(listed) == [(await ledger.lineage(table.id)).chain[-1] for table in listed]
    await ledger.record_published(a, MAIN, 1)
    heads = {table.id: table.head for table in (await ledger.children(lake.namespace, Shelf.RELATION)).items}
    assert heads[a] == await ledger.head(a, MAIN)


async def test_a_cached_newest_version_equals_the_one_in_the_file(ledger: SqliteLedger) -> None:
    lake = await make.lake(ledger)
    table = lake.table
    await ledger.walk(make.path_to("lake", "sea", "t"))
    for change, kept in (
        (make.commit(table, 1), [0, 1]),
        (make.update(table, comment="new"), [0, 1]),
        (make.commit(table, 7, ref="branch"), [0, 1]),
        (make.commit(table, 2), [0, 1, 2]),
        (make.drop_versions(table, 2, 2), [0, 1]),
        (make.commit(table, 3), [0, 1, 3]),
        (make.raise_floor(table, 3), [0, 1, 3]),
    ):
        await make.add(ledger, change)
        await ledger.walk(make.path_to("lake", "sea", "t"))
        for first in (1, 2, 3) * 2:  # the first read caches the newest version
            found = await ledger.versions(table, first=first)
            assert [each.version for each in found] == [version for version in kept if version >= first]
            assert await ledger.versions(table, first=first, last=first - 1) == ()
            downwards = await ledger.versions(table, first=first, limit=1, descending=True)
            assert downwards == found[-1:]
            below = await ledger.versions(table, last=first - 1, limit=1, descending=True)
            assert [each.version for each in below] == [version for version in kept if version < first][-1:]


async def test_drafts_on_a_slow_disk_are_answered_in_order(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_FAST_DISK_SECONDS", 0.0)
    before = (await ledger.position()).seq
    drafts = [make.draft(make.catalog(ledger.root, f"c{n}")) for n in range(40)]
    receipts = [answer for answer in await make.gather(ledger, *drafts) if isinstance(answer, Receipt)]
    assert [receipt.seq for receipt in receipts] == list(range(before + 1, before + 41))
    assert len((await ledger.children(ledger.root, Shelf.CATALOG)).items) == 40


async def test_an_entry_that_waits_for_a_slow_disk_is_not_visible(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_FAST_DISK_SECONDS", 0.0)
    waiting, release = asyncio.Event(), asyncio.Event()
    to_disk = ledger._writer._disk.execute

    async def wait_and_commit(sql: str) -> None:
        waiting.set()
        await release.wait()
        await to_disk(sql)

    monkeypatch.setattr(ledger._writer._disk, "execute", wait_and_commit)
    append = asyncio.create_task(make.add(ledger, make.catalog(ledger.root, "late")))
    await waiting.wait()
    seen = (await ledger.position()).seq, (await ledger.children(ledger.root, Shelf.CATALOG)).items
    release.set()
    await append
    assert seen == (1, ())
    assert [each.name for each in (await ledger.children(ledger.root, Shelf.CATALOG)).items] == ["late"]


async def test_all_children_of_a_parent_are_found_by_index(ledger: SqliteLedger) -> None:
    plan = ledger._rows(f"explain query plan {rows.below_sql('?1', '?2')}", ledger.root, 10)
    steps = [step for *_, step in plan]
    assert [step for step in steps if "INDEX securable_name" in step]
    assert [step for step in steps if "INDEX securable_dropped" in step]
    assert not [step for step in steps if step.startswith("SCAN")]
