"""The ledger operations that the Unity API uses beyond catalogs and namespaces, on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.ledger.postgres import PostgresLedger
from tests.api.house import done, open_house
from tests.api.unity.unity import IN_S, Unity, external, invalid, refused

pytestmark = pytest.mark.postgres


@pytest.fixture
async def uc(database_url: str, tmp_path: Path) -> AsyncIterator[Unity]:
    ledger = await PostgresLedger.open(database_url)
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        yield Unity(house.console.http)


async def test_a_location_is_used_once_and_released_when_its_table_is_dropped(uc: Unity) -> None:
    await uc.schema()
    answers = await asyncio.gather(*[uc.post("/tables", external(f"t{n}", "/lakes/one")) for n in range(6)])
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 5
    name = (await uc.names("tables", **IN_S))[0]
    assert "overlaps" in invalid(await uc.post("/tables", external("u", "/lakes/one/inner")))
    done(await uc.delete(f"/tables/lake.s.{name}"))
    await uc.external("u", "/lakes/one/inner")
    done(await uc.delete("/schemas/lake.s", force="true"))
    done(await uc.post("/schemas", {"name": "s", "catalog_name": "lake"}))
    await uc.external("u", "/lakes")


async def test_comment_retention_and_name_change_in_one_step(uc: Unity) -> None:
    await uc.schema()
    made = await uc.external("t")
    after = done(await uc.patch("/tables/lake.s.t", {"comment": "c", "new_name": "T", "retention_days": 3}))
    assert after | {"updated_at": 0} == made | {"comment": "c", "name": "T", "retention_days": 3, "updated_at": 0}
    assert done(await uc.get("/tables/lake.s.t")) == after
    assert done(await uc.get("/tables", **IN_S))["tables"] == [after]


async def test_concurrently_registered_versions_get_different_numbers(uc: Unity) -> None:
    await uc.schema()
    done(await uc.post("/models", {"name": "m", **IN_S}))
    body = {"model_name": "m", **IN_S, "source": "s"}
    made = await asyncio.gather(*[uc.post("/models/versions", body) for _ in range(5)])
    assert sorted(done(answer)["version"] for answer in made) == [1, 2, 3, 4, 5]
    listed = done(await uc.get("/models/lake.s.m/versions", max_results=3))
    assert [version["version"] for version in listed["model_versions"]] == [1, 2, 3]
    refused(await uc.delete("/models/lake.s.m"), 400, "FAILED_PRECONDITION")
    done(await uc.delete("/models/lake.s.m", force="true"))
