"""Places for tables that are written before anybody declares them."""

from __future__ import annotations

from pathlib import Path

from moorage.testing import lance_writer as write
from tests.api.house import House, done
from tests.api.lance.lake import LanceClient

NEW = "lake$sea$new"


async def staged(lake: LanceClient) -> str:
    return str(done(await lake.table(NEW, "stage"))["location"])


async def test_a_table_is_declared_where_it_was_staged_and_is_managed(lake: LanceClient, house: House) -> None:
    before = (await house.ledger.mark()).seq
    location = await staged(lake)
    assert (await house.ledger.mark()).seq == before
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


async def test_two_may_be_staged_under_one_name_and_one_will_have_it(lake: LanceClient) -> None:
    one, two = await staged(lake), await staged(lake)
    assert one != two
    await lake.declare(NEW, location=one)
    answer = await lake.table(NEW, "declare", {"location": two})
    assert (answer.status_code, answer.json()["code"]) == (409, 5)


async def test_a_place_of_ours_is_given_to_one_table_only(lake: LanceClient) -> None:
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
        ("lake$sea$t", {"location": "not a place"}, 400, 13),
        ("lake$sea$t", {"location": str(tmp_path / "data")}, 400, 13),
    ):
        answer = await lake.table(table, "stage", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), table
