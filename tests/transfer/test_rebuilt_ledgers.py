"""Replaying the feed into an empty store gives an equal catalog. The tables are compared row by row."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moorage.core.entries import Entry
from moorage.core.errors import Damaged, InvalidInput
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.replay import replay
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from tests.transfer.stores import NewStore, Store, fill

REPLAYED_TABLES = ("entry", "securable", "place", "head", "version", "job")


async def append_every_change(ledger: Ledger, clock: Clock) -> None:
    """Append every kind of change, some of them in one draft, with a clock that jumps."""
    await fill(ledger)
    lake = await make.lake(ledger, "a", "b", "c", "gone", catalog_name="busy")
    a, b, c, gone = lake.tables
    clock.advance(5000)
    await make.add(ledger, make.rename(a, lake.namespace, "b"), make.rename(b, lake.namespace, "a"))
    clock.advance(-9000)
    stage = make.stage(lake.namespace, "s3://bucket/stage", lifetime_ms=500)
    await make.add(ledger, stage)
    table = make.table(lake.namespace, "staged", id=stage.id, path="s3://bucket/stage")
    await make.add(ledger, make.erase(stage.id), table, make.commit(table.id, 0))
    await make.add(ledger, make.commit(a, 1, row_id_mark=7), make.commit(a, 2), make.raise_floor(a, 1))
    await make.add(ledger, make.drop(c), make.table(lake.namespace, "c"))
    clock.advance(9000)
    await make.add(ledger, make.undrop(c, "c again"), make.update(c, owner=make.BOB, comment="é"))
    await make.add(ledger, make.drop(gone))
    await make.add(ledger, make.purge(gone))
    await make.add(ledger, make.erase(gone))
    await ledger.append(make.draft(jobs=[make.job(dedupe="d"), make.job(dedupe="d"), make.job(delay_ms=9)]))


def opener(store: Store) -> Any:
    return (
        partial(SqliteLedger.open, store.folder) if store.kind == "sqlite" else partial(PostgresLedger.open, store.url)
    )


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("source", ["sqlite", "postgres"])
async def test_the_feed_rebuilds_an_equal_catalog(
    source: str, target: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(source), new_store(target)
    clock = Clock()
    ledger = await opener(old)(clock_ms=clock)
    await append_every_change(ledger, clock)
    known = await ledger.position()
    assert await replay(ledger, opener(new)) == known.seq
    await ledger.close()

    before = await old.back_up(tmp_path / "before.db")
    after = await new.back_up(tmp_path / "after.db")
    assert {name: after[name] for name in REPLAYED_TABLES} == {name: before[name] for name in REPLAYED_TABLES}
    assert all(before[name].rows for name in REPLAYED_TABLES)
    async with new.ledger() as rebuilt:
        assert await rebuilt.position() == known
        await make.add(rebuilt, make.catalog(rebuilt.root, "afterwards"))


@pytest.mark.parametrize("names", [[], ["c"]], ids=["new", "in use"])
async def test_a_replay_into_a_store_with_a_ledger_is_refused(new_store: NewStore, names: list[str]) -> None:
    old, taken = new_store("sqlite"), new_store("sqlite")
    async with taken.ledger() as ledger:
        for name in names:
            await make.add(ledger, make.catalog(ledger.root, name))
        known = await ledger.entries(0)
    async with old.ledger() as ledger:
        await make.lake(ledger)
        with pytest.raises(InvalidInput, match="choose an empty one"):
            await replay(ledger, opener(taken))
    async with taken.ledger() as ledger:
        assert await ledger.entries(0) == known


async def test_a_feed_with_a_gap_is_refused(new_store: NewStore) -> None:
    class WithGap(SqliteLedger):
        async def entries(self, after: int, *, limit: int = 100) -> tuple[Entry, ...]:
            return tuple(entry for entry in await super().entries(after, limit=limit) if entry.seq != 2)

    source = await WithGap.open(new_store("sqlite").folder)
    await make.lake(source)
    await make.add(source, make.catalog(source.root, "c"))
    with pytest.raises(Damaged, match="the feed is incomplete"):
        await replay(source, opener(new_store("sqlite")))
    await source.close()
