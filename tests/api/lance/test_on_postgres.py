"""Versions and batches of the Lance namespace on a PostgreSQL ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.ledger.postgres import PostgresLedger
from moorage.testing import lance_writer as write
from moorage.testing.builders import Clock
from tests.api.house import done, open_house
from tests.api.lance.lake import LanceClient, create, declare, delete, deregister, refused

pytestmark = pytest.mark.postgres

CONSOLE = "/api/moorage/v1"
T, U, V = "lake$sea$t", "lake$sea$u", "lake$sea$v"


@pytest.fixture
async def lake(database_url: str, tmp_path: Path) -> AsyncIterator[LanceClient]:
    ledger = await PostgresLedger.open(database_url, clock_ms=Clock())
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        await house.console.make("lake")
        await house.console.make("lake", "sea")
        yield LanceClient(house.console.http)


async def test_versions_are_created_concurrently_deleted_and_listed_on_postgres(lake: LanceClient) -> None:
    t = await lake.declare(T)
    for version in range(1, 5):
        answers = await asyncio.gather(*[lake.create(T, write.stage(t, version)) for _ in range(8)])
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    await lake.grow(T, t, 2, 3, branch="dev")
    assert await lake.versions(T, limit=2) == [4, 3]
    ranges = {"ranges": [{"start_version": 0, "end_version": 2}, {"start_version": 4, "end_version": -1}]}
    assert done(await lake.table(T, "version/delete", ranges))["deleted_count"] == 2
    assert (await lake.versions(T), await lake.versions(T, branch="dev")) == ([3, 2], [3, 2])
    refused(await lake.create(T, write.stage(t, 4)), 409, 14)


async def test_a_batch_of_every_operation_can_be_retried_on_postgres(lake: LanceClient) -> None:
    t, u = await lake.declare(T), await lake.declare(U)
    await lake.grow(T, t, 1)
    v = done(await lake.table(V, "stage"))["location"]
    operations = (
        declare(V, location=v),
        create(V, write.stage(v, 1)),
        create(V, write.stage(v, 2)),
        create(T, write.stage(t, 2)),
        delete(T, (0, 2)),
        create(T, write.stage(t, 3)),
        deregister(U),
        declare(U),
        declare("lake$brief"),
        deregister("lake$brief"),
    )
    first = done(await lake.commit(*operations))
    assert done(await lake.commit(*operations)) == first
    assert [await lake.versions(id) for id in (T, U, V)] == [[3, 2], [], [2, 1]]
    assert (await lake.look("/table"))["tables"] == [T, U, V]
    conflict = (create(V, write.stage(v, 3)), create(T, write.stage(t, 3)))
    refused(await lake.commit(*conflict), 409, 14, "operations[1]")
    assert await lake.versions(V) == [2, 1]
    write.stage(u, 1)
    refused(await lake.table("lake$again", "register", {"location": u}), 400, 13)
    done(await lake.table(T, "deregister"))
    done(await lake.table("lake$again", "register", {"location": t}))
    assert await lake.versions("lake$again") == [3, 2, 1]  # only the record of version 1 was deleted


async def test_a_deregistered_table_that_is_undropped_is_managed_again(lake: LanceClient) -> None:
    t = await lake.declare(T)
    await lake.grow(T, t, 1)
    done(await lake.table(T, "deregister"))
    where = {"kind": "table", "catalog": "lake", "namespace": "sea"}
    gone = done(await lake.http.get(f"{CONSOLE}/dropped", params=where))["items"][0]
    done(await lake.http.post(f"{CONSOLE}/undrop", json={"kind": "table", "id": gone["id"]}))
    done(await lake.table(T, "drop"))
    # The catalog owns its files again, and keeps them until the end of the hold.
    refused(await lake.table(U, "register", {"location": t}), 400, 13, "overlaps")
