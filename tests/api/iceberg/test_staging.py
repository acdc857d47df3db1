"""Staging tables: their first commit makes them tables; without a commit they are purged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import force_setattr

from moorage.ledger.postgres import PostgresLedger
from moorage.testing.builders import Clock
from moorage.usecases.upkeep.purge import purge, purge_due
from tests.api.house import done, open_house
from tests.api.iceberg.lake import SPACE, Lake, refused, to_space, to_table
from tests.api.iceberg.test_commits import change, transact
from tests.api.iceberg.test_locations import move
from tests.api.iceberg.test_tables import CREATE, building, stage

DAY_MS = 24 * 3_600_000


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def lake(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Lake]:
    clock, ledger = Clock(), None
    if request.param == "postgresql":
        ledger = await PostgresLedger.open(request.getfixturevalue("database_url"), clock_ms=clock)
    (tmp_path / "own").mkdir()
    async with open_house(tmp_path / "data", ledger=ledger, external_folder=tmp_path / "own") as house:
        if ledger is not None:
            house.clock = clock
            force_setattr(house.ports, "clock", clock)
        await house.console.make("lake")
        lake = Lake(house, tmp_path / "data")
        done(await lake.create_space(*SPACE))
        yield lake


def write_into(location: str) -> Path:
    """Write a file as a client does before it commits."""
    file = Path(location.removeprefix("file://")) / "data" / "a.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    return file


async def wait_a_day(lake: Lake) -> int:
    """Advance the clock by a day and purge; returns the number of purged objects."""
    lake.house.clock.advance(DAY_MS + 1)
    return await purge_due(lake.house.ports)


async def test_a_staging_table_without_a_commit_is_purged_after_a_day(lake: Lake) -> None:
    staged = await stage(lake, "orders")
    file = write_into(staged["location"])
    assert await purge_due(lake.house.ports) == 0
    assert await wait_a_day(lake) == 1
    assert not file.parent.parent.exists()
    late = await lake.commit("orders", *building(staged), requires=CREATE)
    refused(late, 400, "BadRequestException", "stage the table again")
    assert lake.metadata_files() == set()


async def test_a_staging_table_committed_just_before_its_purge_is_kept(lake: Lake) -> None:
    early, late = await stage(lake, "early"), await stage(lake, "late")
    files = [write_into(staged["location"]) for staged in (early, late)]
    done(await lake.commit("early", *building(early), requires=CREATE))
    lake.house.clock.advance(DAY_MS + 1)
    (due,) = await lake.house.ledger.due_for_purge()
    done(await lake.commit("late", *building(late), requires=CREATE))
    assert await purge(lake.house.ports, due) == 0
    assert await wait_a_day(lake) == 0
    assert [file.exists() for file in files] == [True, True]
    done(await lake.load("late"))


async def test_a_table_committed_at_another_location_keeps_files_in_its_staging_location(
    lake: Lake, tmp_path: Path
) -> None:
    staged = await stage(lake, "orders")
    file = write_into(staged["location"])
    location = f"file://{tmp_path}/own/orders"
    done(await lake.commit("orders", *building(staged), move(location), requires=CREATE))
    assert (await lake.metadata("orders"))["location"] == location
    refused(await lake.create("other", location=location), 400, "BadRequestException", "overlaps")
    assert await wait_a_day(lake) == 0
    assert file.exists()
    await lake.ask("DELETE", to_table("orders"), purgeRequested="true")
    lake.house.clock.advance(lake.house.ports.hold_ms + 1)
    assert await purge_due(lake.house.ports) == 1
    assert not file.exists()


async def test_a_staging_table_can_be_used_once_and_only_by_its_creator(lake: Lake) -> None:
    staged = await stage(lake, "a")
    both = [change(name, *building(staged), requires=CREATE) for name in ("a", "b")]
    refused(await transact(lake, *both), 400, "BadRequestException", "table-changes[1]")
    ann = Lake(lake.house, lake.managed.parent, **{"x-caller": "ann"})
    theft = await ann.commit("a", *building(staged), requires=CREATE)
    refused(theft, 403, "ForbiddenException", "staged by another caller")
    assert lake.metadata_files() == set()
    done(await lake.commit("b", *building(staged), requires=CREATE))
    again = await lake.commit("a", *building(staged), requires=CREATE)
    refused(again, 400, "BadRequestException", "stage the table again")


async def test_a_retry_of_a_stage_request_returns_the_first_staging_table(lake: Lake) -> None:
    key, seq = str(uuid4()), (await lake.house.ledger.position()).seq
    first, again = [done(await lake.create("orders", stage=True, key=key))["metadata"] for _ in range(2)]
    assert (again["table-uuid"], again["location"]) == (first["table-uuid"], first["location"])
    assert (await lake.house.ledger.position()).seq == seq + 1


async def test_a_retry_of_a_stage_request_with_a_location_returns_the_same_id(lake: Lake, tmp_path: Path) -> None:
    key, seq, own = str(uuid4()), (await lake.house.ledger.position()).seq, f"file://{tmp_path}/own"
    first, again = [
        done(await lake.create("orders", stage=True, key=key, location=f"{own}/t"))["metadata"] for _ in range(2)
    ]
    assert (again["table-uuid"], again["location"]) == (first["table-uuid"], f"{own}/t")
    refused(await lake.create("orders", stage=True, key=key, location=f"{own}/u"), 422, "UnprocessableEntityException")
    assert (await lake.house.ledger.position()).seq == seq
    done(await lake.commit("orders", *building(first), requires=CREATE))


async def test_an_invalid_stage_request_reserves_no_location(lake: Lake) -> None:
    seq = (await lake.house.ledger.position()).seq
    broken = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "no type", "required": False}]}
    refused(await lake.create("orders", stage=True, schema=broken), 400, "BadRequestException")
    refused(await lake.create("orders", stage=True, location="/etc/x"), 400, "BadRequestException")
    assert (await lake.house.ledger.position()).seq == seq


async def test_a_namespace_with_only_staging_tables_is_empty(lake: Lake) -> None:
    await stage(lake, "orders")
    assert (await lake.ask("DELETE", to_space(*SPACE))).status_code == 204
