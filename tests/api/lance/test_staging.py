"""Staging tables: locations for tables that are written before they are declared."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moorage.core.securables import Securable
from moorage.testing import lance_writer as write
from moorage.usecases.upkeep.purge import purge, purge_due
from tests.api.house import House, done, until
from tests.api.lance.lake import LANCE, LanceClient
from tests.datasets.lines import stream_of

NEW = "lake$sea$new"
A_DAY_MS = 24 * 60 * 60 * 1000


async def staged(lake: LanceClient, id: str = NEW) -> str:
    return str(done(await lake.table(id, "stage"))["location"])


async def test_a_table_is_declared_where_it_was_staged_and_is_managed(lake: LanceClient, house: House) -> None:
    location = await staged(lake)
    assert await lake.declare(NEW, location=location) == location
    table = done(await house.console.get("/catalogs/lake/namespaces/sea/tables/new"))
    assert (table["managed"], table["location"]) == (True, f"{location}/")
    assert table["id"] == location.rpartition("/")[2]


async def test_a_batch_declares_a_table_together_with_the_version_that_was_written_there(lake: LanceClient) -> None:
    location = await staged(lake)
    names = NEW.split("$")
    operations = [
        {"declare_table": {"id": names, "location": location}},
        {"create_table_version": {"id": names, **write.stage(location, 1)}},
    ]
    done(await lake.ask("/table/batch-commit", {"operations": operations}))
    described = done(await lake.table(NEW, "describe"))
    assert (described["location"], described["version"]) == (location, 1)


async def test_two_tables_may_be_staged_under_one_name_and_one_can_be_declared(lake: LanceClient) -> None:
    one, two = await staged(lake), await staged(lake)
    assert one != two
    await lake.declare(NEW, location=one)
    answer = await lake.table(NEW, "declare", {"location": two})
    assert (answer.status_code, answer.json()["code"]) == (409, 5)


async def test_an_assigned_location_belongs_to_one_table_only(lake: LanceClient) -> None:
    location = await staged(lake)
    await lake.declare(NEW, location=location)
    for wrong in (location, f"{location}/inside", location.rpartition("/")[0], f"{location[:-1]}!"):
        answer = await lake.table("lake$sea$other", "declare", {"location": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, 13), wrong
        assert "location" in answer.json()["detail"]


async def test_staging_refuses_what_declaring_would_refuse(lake: LanceClient, tmp_path: Path) -> None:
    await lake.declare(NEW)
    for table, body, status, code in (
        (NEW, {}, 409, 5),
        ("lake$nowhere$t", {}, 404, 1),
        ("nowhere$t", {}, 404, 1),
        ("t", {}, 400, 13),
        ("lake$sea$t", {"location": "not a location"}, 400, 13),
        ("lake$sea$t", {"location": str(tmp_path / "data")}, 400, 13),
    ):
        answer = await lake.table(table, "stage", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), table


async def waiting(house: House) -> list[Securable]:
    """Advance the clock by a day; the staging tables that were not declared in time."""
    house.clock.advance(A_DAY_MS + 1)
    return list(await house.ledger.due_for_purge())


async def test_a_staging_table_that_is_not_declared_is_deleted_after_a_day(lake: LanceClient, house: House) -> None:
    kept, left = await staged(lake), await staged(lake)
    for location in (kept, left):
        write.stage(location, 1)
    await lake.declare(NEW, location=kept)
    house.clock.advance(A_DAY_MS - 1)
    late = await staged(lake, "lake$sea$late")
    write.stage(late, 1)
    assert await purge_due(house.ports) == 0
    house.clock.advance(2)
    assert await purge_due(house.ports) == 1
    assert [write.folder_of(each).exists() for each in (kept, left, late)] == [True, False, True]
    answer = await lake.table("lake$sea$other", "declare", {"location": left})
    assert (answer.status_code, answer.json()["code"]) == (400, 13)
    await lake.declare("lake$sea$late", location=late)
    await lake.grow("lake$sea$late", late, 1)


async def test_a_table_that_is_declared_at_the_last_moment_is_not_purged(lake: LanceClient, house: House) -> None:
    location = await staged(lake)
    write.stage(location, 1)
    (stage,) = await waiting(house)
    await lake.declare(NEW, location=location)
    assert await purge(house.ports, stage) == 0
    assert write.folder_of(location).exists()
    await lake.grow(NEW, location, 1)


async def test_a_purged_staging_table_cannot_be_declared(lake: LanceClient, house: House) -> None:
    location = await staged(lake)
    (stage,) = await waiting(house)
    assert await purge(house.ports, stage) == 1
    answer = await lake.table(NEW, "declare", {"location": location})
    assert (answer.status_code, answer.json()["code"]) == (400, 13)


async def test_a_staged_location_may_be_staged_again(lake: LanceClient) -> None:
    location = await staged(lake)
    assert done(await lake.table(NEW, "stage", {"location": location}))["location"] == location
    assert await lake.declare(NEW, location=location) == location


async def test_a_table_that_another_caller_staged_cannot_be_declared(lake: LanceClient) -> None:
    location = await staged(lake)
    answer = await lake.http.post(
        f"{LANCE}/table/{NEW}/declare", json={"location": location}, headers={"x-caller": "bob"}
    )
    assert (answer.status_code, answer.json()["code"]) == (403, 15)


async def test_a_creation_that_is_refused_or_cancelled_leaves_no_files(lake: LanceClient, house: House) -> None:
    tables = Path(house.ports.roots.managed.removeprefix("file://")) / "tables"

    def create(content: bytes) -> asyncio.Task[object]:
        return asyncio.create_task(lake.http.post(f"{LANCE}/table/{NEW}/create", content=content))

    async def has_begun() -> bool:
        return tables.exists() and any(tables.iterdir())

    await create(b"no Arrow")
    assert await waiting(house) == []
    cancelled = create(stream_of({"id": list(range(2_000_000))}))
    await until(has_begun)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert len(await waiting(house)) == 1
    await purge_due(house.ports)
    assert await waiting(house) == [] == list(tables.iterdir())
