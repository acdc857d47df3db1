"""The chores of two servers that share a PostgreSQL database and a storage folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.core.callers import LOCAL
from moorage.core.jobs import COMPACT
from moorage.core.quiet import QUIET_MS
from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.usecases.catalog.credentials import for_table
from moorage.usecases.catalog.write_access import NOTED_MS
from moorage.usecases.upkeep.publish import publish_due
from moorage.usecases.upkeep.purge import purge_due
from moorage.usecases.upkeep.quiet import must_wait
from tests.unit.chores.lakes import (
    ClockedPorts,
    commit,
    content,
    new_table,
    ports_on,
    published_versions,
    waiting,
)

pytestmark = pytest.mark.postgres

Two = tuple[ClockedPorts, ClockedPorts]


@pytest.fixture
async def servers(tmp_path: Path, database_url: str) -> AsyncIterator[Two]:
    clock = Clock()
    first, second = [await PostgresLedger.open(database_url, clock_ms=clock) for _ in range(2)]
    yield ports_on(first, tmp_path, clock), ports_on(second, tmp_path, clock)
    await first.close()
    await second.close()


async def test_two_publishers_write_each_version_once_and_completely(servers: Two) -> None:
    tables = [await new_table(servers[0], name) for name in ("a", "b")]
    for table in tables:
        await commit(servers[0], table, *range(60))
    await asyncio.gather(*[publish_due(server) for server in servers])
    for name in ("a", "b"):
        root = f"{servers[0].roots.managed}{name}/"
        assert await published_versions(servers[1].storage, root) == {n: content(n) for n in range(60)}
    assert await waiting(servers[0]) == await waiting(servers[1]) == []


async def test_two_concurrent_purges_erase_each_object_once(servers: Two) -> None:
    ledger = servers[0].ledger
    catalog = make.catalog(ledger.root, "c")
    await make.add(ledger, catalog, *[make.namespace(catalog.id, f"n{k}") for k in range(900)])
    tables = [await new_table(servers[0], f"t{n}") for n in range(5)]
    for n in range(5):
        await servers[0].storage.put_new(f"{servers[0].roots.managed}t{n}/", "deep/part", b"x")
    await make.add(ledger, make.drop(catalog.id, hold_ms=0), *[make.drop(table, hold_ms=0) for table in tables])
    assert sum(await asyncio.gather(*[purge_due(server) for server in servers])) == 906
    assert await purge_due(servers[1]) == 0
    assert await servers[1].storage.list(servers[1].roots.managed, "") == ()
    entries = await ledger.entries(0, limit=1000)
    erased = [id for entry in entries for change in entry.body.changes for id in getattr(change, "ids", ())]
    assert len(erased) == len(set(erased)) == 906


async def test_upkeep_on_one_server_waits_for_a_client_that_another_one_gave_write_access(servers: Two) -> None:
    table = await new_table(servers[0], "t")
    new = make.job(COMPACT, subject=table)
    await make.add(servers[0].ledger, make.commit(table, 0, operation="change"))
    await servers[0].ledger.append(make.draft(jobs=[new]))
    job, clock = await servers[1].ledger.job(new.id), servers[0].clock
    assert job is not None
    found = (await servers[1].ledger.lineage(table)).chain[-1]
    clock.advance(QUIET_MS)
    assert await must_wait(servers[1], found, job) is None
    await for_table(servers[0], LOCAL, table, write=False)
    assert await must_wait(servers[1], found, job) is None, "a reader disturbs nothing"
    for _ in range(3):
        await for_table(servers[0], LOCAL, table, write=True)
        waiting = await must_wait(servers[1], found, job)
        assert waiting is not None
        assert waiting.reason.startswith("waiting for a client that asked for write access")
        assert waiting.until_ms == clock() + NOTED_MS + QUIET_MS
        clock.advance(NOTED_MS)
    clock.advance(QUIET_MS)
    assert await must_wait(servers[1], found, job) is None
