"""Places for tables that are written before anybody declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.house import House, done

NEW = "/lance/v1/table/lake$sea$new"


@pytest.fixture
async def lake(house: House) -> House:
    await house.console.make("lake")
    await house.console.make("lake", "sea")
    await house.console.make("lake", "land")
    return house


async def ask(house: House, path: str, body: Any = None) -> httpx.Response:
    return await house.console.http.post(path, json=body or {})


async def test_a_table_is_declared_where_it_was_staged_and_is_managed(lake: House) -> None:
    before = (await lake.ledger.mark()).seq
    staged = done(await ask(lake, f"{NEW}/stage"))
    assert (await lake.ledger.mark()).seq == before
    declared = done(await ask(lake, f"{NEW}/declare", {"location": staged["location"]}))
    assert declared == staged
    table = done(await lake.console.get("/catalogs/lake/namespaces/sea/tables/new"))
    assert (table["managed"], table["location"]) == (True, staged["location"] + "/")
    assert table["id"] == staged["location"].rpartition("/")[2]


async def test_two_may_be_staged_under_one_name_and_one_will_have_it(lake: House) -> None:
    one, two = [done(await ask(lake, f"{NEW}/stage"))["location"] for _ in range(2)]
    assert one != two
    done(await ask(lake, f"{NEW}/declare", {"location": one}))
    answer = await ask(lake, f"{NEW}/declare", {"location": two})
    assert (answer.status_code, answer.json()["code"]) == (409, 5)


async def test_a_place_of_ours_is_given_to_one_table_only(lake: House) -> None:
    staged = done(await ask(lake, f"{NEW}/stage"))["location"]
    done(await ask(lake, f"{NEW}/declare", {"location": staged}))
    for location in (staged, f"{staged}/inside", staged.rpartition("/")[0], f"{staged[:-1]}!"):
        answer = await ask(lake, "/lance/v1/table/lake$sea$other/declare", {"location": location})
        assert (answer.status_code, answer.json()["code"]) == (400, 13), location
        assert "location" in answer.json()["detail"]


async def test_staging_refuses_what_declaring_would_refuse(lake: House, tmp_path: Path) -> None:
    done(await ask(lake, f"{NEW}/declare"))
    for table, body, status, code in (
        ("lake$sea$new", {}, 409, 5),
        ("lake$nowhere$t", {}, 404, 1),
        ("nowhere$t", {}, 404, 1),
        ("t", {}, 400, 13),
        ("lake$sea$t", {"location": "not a place"}, 400, 13),
        ("lake$sea$t", {"location": str(tmp_path / "data")}, 400, 13),
    ):
        answer = await ask(lake, f"/lance/v1/table/{table}/stage", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), table
