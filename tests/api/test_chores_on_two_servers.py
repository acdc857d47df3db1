"""The chores of two servers that share a PostgreSQL database and a storage folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.usecases.upkeep.publish import publish_due
from moorage.usecases.upkeep.purge import purge_due
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
