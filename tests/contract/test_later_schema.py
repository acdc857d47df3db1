"""A release runs on the schema of the next one: migrations only add, so that a downgrade is possible."""

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg

from moorage import fresh
from moorage.core.entries import FinishJob, JobHeld, JobState
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make

OpenLedger = Callable[[], Awaitable[Ledger]]


async def use_every_table(ledger: Ledger) -> None:
    lake = await make.lake(ledger)
    t, job = lake.table, make.job()
    kept = make.attached(t, 1, document=b"{}", staged=b"bytes")
    placed = make.table(lake.namespace, "placed", path="s3://b/placed")
    await ledger.append(
        make.draft(placed, make.published_commit(t, 1), attachments=[kept], jobs=[job], key=make.idempotency_key("k"))
    )
    await ledger.record_published(t, MAIN, 1)
    lease = await ledger.lease_job("w", (job.kind,), fresh.fence(), 1000)
    assert lease is not None
    assert await ledger.renew_lease(job.id, lease.fence, 1000, {"n": 1}) is not None
    done = FinishJob(job=job.id, state=JobState.SUCCEEDED)
    await make.add(ledger, done, expects=[JobHeld(job.id, lease.fence)])
    await make.add(ledger, make.update(t, comment="c"), make.rename(t, lake.namespace, "u"), make.raise_floor(t, 1))
    await make.add(ledger, make.drop(placed.id))
    await make.add(ledger, make.purge(placed.id), make.erase(placed.id))
    found = (await ledger.walk(make.path_to("lake", "sea", "u"))).chain[-1]
    assert found.head is not None
    assert (found.revision, found.head.version, found.head.floor, found.head.published) == (3, 1, 1, 1)
    assert await ledger.document(t, MAIN, 1) == b"{}"
    assert await ledger.receipt(make.ANN, "k") is not None
    assert await ledger.page_secret()
    assert len(await ledger.entries(0)) == (await ledger.position()).seq


async def test_sqlite_runs_on_a_later_schema(tmp_path: Path) -> None:
    await (await SqliteLedger.open(tmp_path)).close()
    db = sqlite3.connect(tmp_path / "ledger.db")
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")]
    for table in tables:
        db.execute(f"alter table {table} add column to_come text")
    db.close()
    ledger = await SqliteLedger.open(tmp_path)
    await use_every_table(ledger)
    await ledger.close()


async def test_postgres_runs_on_a_later_schema(database_url: str) -> None:
    await (await PostgresLedger.open(database_url)).close()
    operator = await asyncpg.connect(database_url)
    for (table,) in await operator.fetch("select tablename from pg_tables where schemaname = 'public'"):
        await operator.execute(f"alter table {table} add column to_come text")
    await operator.close()
    ledger = await PostgresLedger.open(database_url)
    await use_every_table(ledger)
    await ledger.close()
