"""A batch has the effect of its drafts one after another: SQLite reaches the same rows from a queue of them."""

import asyncio
import random
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from moorage import fresh
from moorage.core.entries import (
    AccessIs,
    Change,
    Draft,
    Empty,
    Expect,
    FinishJob,
    FloorAtMost,
    HeadIs,
    JobFree,
    JobHeld,
    JobState,
    Live,
    LocationFree,
    NewJob,
    Receipt,
    RevisionIs,
)
from moorage.core.ids import JobId, SecurableId
from moorage.core.securables import MAIN, Kind
from moorage.ledger.port import Stale
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make

pytestmark = pytest.mark.postgres

ORDER_OF = {
    "entry": "seq",
    "securable": "id",
    "place": "path",
    "head": "table_id, ref",
    "version": "table_id, ref, version",
    "receipt": "caller, key",
    "job": "id",
    "staged": "table_id, ref, version",
}
ROUNDS, WRITERS = 12, 40

Part = tuple[list[Expect], list[Change], list[NewJob]]


class Writers:
    """Writers that all decide on one view of a small catalog, so that most of them conflict."""

    def __init__(self, seed: int, root: SecurableId) -> None:
        self._pick = random.Random(seed)
        self._root = root
        self.objects: list[Any] = []
        self.heads: dict[SecurableId, int] = {}
        self.jobs: list[JobId] = []
        self.access_seq = 0

    async def read_view(self, database: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.objects = await database.fetch("select id, kind, parent, name, revision, dropped_at from securable")
        self.heads = {row[0]: row[1] for row in await database.fetch("select table_id, version from head")}
        self.jobs = [row[0] for row in await database.fetch("select id from job where state = 'open'")]
        self.access_seq = await database.fetchval("select max(access_seq) from entry")

    def draft(self) -> Draft:
        expects: list[Expect] = [AccessIs(self.access_seq)] if self._pick.random() < 0.5 else []
        changes: list[Change] = []
        jobs: list[NewJob] = []
        for _ in range(self._pick.choice([1, 1, 1, 2, 3])):
            for whole, part in zip((expects, changes, jobs), self._part(), strict=True):
                whole.extend(part)  # type: ignore[attr-defined]
        key = make.idempotency_key(f"key {self._pick.randrange(200)}") if self._pick.random() < 0.3 else None
        return make.draft(*changes, expects=expects, jobs=jobs, key=key)

    def _part(self) -> Part:
        parts = [self._create, self._create, self._commit, self._commit, self._commit, self._job, self._job]
        parts += [self._update, self._rename, self._drop, self._undrop, self._erase, self._floor, self._finish]
        return self._pick.choice(parts)()

    def _any(self, *kinds: Kind, live: bool = True) -> Any:
        fitting = [o for o in self.objects if o["kind"] in kinds and (o["dropped_at"] is None) is live]
        return self._pick.choice(fitting) if fitting else None

    def _create(self) -> Part:
        kind = self._pick.choice([Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.TABLE, Kind.VIEW])
        holder = None if kind is Kind.CATALOG else self._any(Kind.CATALOG, Kind.NAMESPACE)
        if holder is None:
            kind = Kind.CATALOG
        path = f"s3://b/{self._pick.choice(['x', 'x/y', 'x/z', 'w', 'w/x/y'])}/" if kind is Kind.TABLE else None
        new = make.create(kind, holder["id"] if holder else self._root, self._pick.choice("abcde"), place=path)
        expects: list[Expect] = [make.name_free(new), Live(new.parent)]
        return expects + ([LocationFree(path)] if path else []), [new], []

    def _commit(self) -> Part:
        table = self._any(Kind.TABLE)
        if table is None:
            return self._create()
        head = self.heads.get(table["id"])
        version = 0 if head is None else head + 1
        return [HeadIs(table["id"], MAIN, head)], [make.published_commit(table["id"], version)], []

    def _floor(self) -> Part:
        if not self.heads:
            return self._create()
        table, version = self._pick.choice(list(self.heads.items()))
        return [FloorAtMost(table, MAIN, version)], [make.raise_floor(table, version)], []

    def _update(self) -> Part:
        found = self._any(*Kind)
        owner = self._pick.choice([None, None, "bob"])
        return [RevisionIs(found["id"], found["revision"])], [make.update(found["id"], owner=owner)], []

    def _rename(self) -> Part:
        found, parent = self._any(Kind.TABLE, Kind.VIEW), self._any(Kind.CATALOG, Kind.NAMESPACE)
        if found is None or parent is None:
            return self._create()
        name = self._pick.choice("abcde")
        expects: list[Expect] = [Live(found["id"]), Live(parent["id"]), make.relation_free(parent["id"], name)]
        return expects, [make.rename(found["id"], parent["id"], name)], []

    def _drop(self) -> Part:
        found = self._any(Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        if found is None:
            return self._create()
        restricted: list[Expect] = [Empty(found["id"])] if self._pick.random() < 0.7 else []
        return [Live(found["id"]), *restricted], [make.drop(found["id"])], []

    def _undrop(self) -> Part:
        found = self._any(Kind.NAMESPACE, Kind.TABLE, live=False)
        if found is None:
            return self._create()
        return [RevisionIs(found["id"], found["revision"])], [make.undrop(found["id"], fresh.draft_id())], []

    def _erase(self) -> Part:
        found = self._any(Kind.TABLE, live=False)
        if found is None:
            return self._create()
        return [RevisionIs(found["id"], found["revision"])], [make.erase(found["id"])], []

    def _job(self) -> Part:
        dedupe = self._pick.choice(["p", "q", "r", None])
        needed: list[Expect] = [JobFree(dedupe)] if dedupe and self._pick.random() < 0.5 else []
        return needed, [], [make.job(dedupe=dedupe)]

    def _finish(self) -> Part:
        if not self.jobs:
            return self._job()
        job = self._pick.choice(self.jobs)
        return [JobHeld(job, None)], [FinishJob(job=job, state=JobState.SUCCEEDED)], []


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_drafts_leave_the_same_rows_as_a_queue(database_url: str, tmp_path: Path, seed: int) -> None:
    clock = make.Clock()
    ledger = await PostgresLedger.open(database_url, clock_ms=clock)
    database = await asyncpg.connect(database_url)
    writers = Writers(seed, ledger.root)
    drafts: dict[str, Draft] = {}
    results: list[Receipt | BaseException] = []
    for _ in range(ROUNDS):
        await writers.read_view(database)
        clock.advance(1000)
        new = [writers.draft() for _ in range(WRITERS)]
        drafts |= {draft.id: draft for draft in new}
        results += await asyncio.gather(*map(ledger.append, new), return_exceptions=True)
    assert sum(isinstance(result, Receipt) for result in results) > ROUNDS * WRITERS / 5
    assert sum(isinstance(result, Stale) for result in results) > ROUNDS * WRITERS / 10

    queue_clock = make.Clock()
    folder = tmp_path / "queue"
    queue = await SqliteLedger.open(folder, clock_ms=queue_clock)
    await copy_metastore_id(folder, database)
    for entry in await ledger.entries(1, limit=100_000):
        queue_clock.now_ms = entry.at_ms
        receipt = await queue.append(drafts[entry.draft])  # raises Stale if the draft relied on outdated state
        assert (receipt.seq, receipt.replayed) == (entry.seq, False)
    await queue.close()
    await ledger.close()
    with sqlite3.connect(folder / "ledger.db") as db:
        for table, order in ORDER_OF.items():
            where = "where seq > 1" if table == "entry" else ""
            here = await database.fetch(f"select * from {table} {where} order by {order}")
            assert [tuple(row) for row in here] == db.execute(
                f"select * from {table} {where} order by {order}"
            ).fetchall()
    db.close()
    await database.close()


async def copy_metastore_id(folder: Path, database: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Each ledger creates its own metastore. Give the queue the one that the drafts refer to."""
    id = await database.fetchval("select id from securable where kind = 'metastore'")
    with sqlite3.connect(folder / "ledger.db") as db:
        db.execute("update securable set id = ? where kind = 'metastore'", (id,))
    db.close()
