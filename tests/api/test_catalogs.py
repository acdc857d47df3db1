"""Catalogs through the console API."""

from __future__ import annotations

import asyncio

from moorage.testing.builders import START_MS
from tests.api.house import Console, House, at_once, done, refused

DAY_MS = 24 * 60 * 60 * 1000


async def test_a_creation_returns_the_catalog_as_it_is_read(console: Console) -> None:
    made = done(await console.post("/catalogs", {"name": "Sales", "comment": "ours", "properties": {"a": "b"}}), 201)
    assert made == {
        "id": made["id"],
        "kind": "catalog",
        "name": "Sales",
        "owner": "local",
        "comment": "ours",
        "properties": {"a": "b"},
        "revision": 1,
        "created_at_ms": START_MS,
        "created_by": "local",
        "updated_at_ms": START_MS,
        "updated_by": "local",
        "dropped_at_ms": None,
        "purge_at_ms": None,
    }
    assert done(await console.get("/catalogs/sales")) == made
    assert done(await console.get("/catalogs")) == {"items": [made], "next_page_token": None}


async def test_a_taken_name_is_refused_and_named(console: Console) -> None:
    await console.make("Sales")
    seq = await console.seq()
    error = refused(await console.post("/catalogs", {"name": "SALES"}), 409, "NAME_TAKEN", "name")
    assert error["message"] == "catalog 'SALES' already exists"
    assert error["advice"] == "after_refresh"
    assert await console.seq() == seq


async def test_a_missing_catalog_is_named_by_every_operation(console: Console) -> None:
    for answer in (
        await console.get("/catalogs/nowhere"),
        await console.patch("/catalogs/nowhere", {"comment": "x"}),
        await console.post("/catalogs/nowhere:rename", {"new_name": "x"}),
        await console.delete("/catalogs/nowhere"),
        await console.get("/catalogs/nowhere/namespaces"),
        await console.post("/catalogs/nowhere/namespaces", {"path": ["x"]}),
        await console.get("/catalogs/nowhere/namespaces/x"),
    ):
        error = refused(answer, 404, "CATALOG_NOT_FOUND")
        assert error["message"] == "catalog 'nowhere' does not exist"


async def test_an_update_changes_only_the_given_fields(house: House) -> None:
    console = house.console
    made = await console.make("sales", comment="ours", properties={"a": "1", "b": "2"})
    house.clock.advance(5)
    after = done(
        await console.patch(
            "/catalogs/sales", {"set_properties": {"b": "3", "c": "4"}, "remove_properties": ["a", "never there"]}
        )
    )
    assert after == made | {"properties": {"b": "3", "c": "4"}, "revision": 2, "updated_at_ms": START_MS + 5}
    assert done(await console.get("/catalogs/sales")) == after
    assert done(await console.patch("/catalogs/sales", {"comment": None}))["comment"] is None
    assert done(await console.patch("/catalogs/sales", {"owner": "ann"}))["owner"] == "ann"
    assert done(await console.get("/catalogs/sales"))["properties"] == {"b": "3", "c": "4"}


async def test_a_property_cannot_be_set_and_removed_by_one_update(console: Console) -> None:
    await console.make("sales")
    both = {"set_properties": {"a": "1"}, "remove_properties": ["a"]}
    refused(await console.patch("/catalogs/sales", both), 400, "INVALID_INPUT", "remove_properties")


async def test_an_update_with_an_old_revision_is_refused_with_the_current_one(console: Console) -> None:
    await console.make("sales")
    done(await console.patch("/catalogs/sales", {"comment": "one", "revision": 1}))
    error = refused(
        await console.patch("/catalogs/sales", {"comment": "two", "revision": 1}), 409, "REVISION_MOVED", "revision"
    )
    assert error["details"] == {"revision": 2}
    assert done(await console.get("/catalogs/sales"))["comment"] == "one"


async def test_of_concurrent_updates_with_one_revision_one_succeeds(console: Console) -> None:
    await console.make("sales")
    answers = await at_once(*[console.patch("/catalogs/sales", {"comment": f"{n}", "revision": 1}) for n in range(10)])
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    assert done(await console.get("/catalogs/sales"))["revision"] == 2


async def test_concurrent_updates_of_different_properties_are_all_kept(console: Console) -> None:
    await console.make("sales")
    answers = await asyncio.gather(
        *[console.patch("/catalogs/sales", {"set_properties": {f"p{n}": "x"}}) for n in range(64)]
    )
    assert [answer.status_code for answer in answers] == [200] * 64
    assert len(done(await console.get("/catalogs/sales"))["properties"]) == 64


async def test_a_renamed_catalog_keeps_its_id_and_its_children(house: House) -> None:
    console = house.console
    made = await console.make("sales")
    inner = await console.make("sales", "eu")
    house.clock.advance(7)
    after = done(await console.post("/catalogs/sales:rename", {"new_name": "Trade"}))
    assert after == made | {"name": "Trade", "revision": 2, "updated_at_ms": START_MS + 7}
    refused(await console.get("/catalogs/sales"), 404, "CATALOG_NOT_FOUND")
    assert done(await console.get("/catalogs/trade/namespaces/eu")) == inner
    await console.make("sales")


async def test_a_rename_may_change_only_the_case(console: Console) -> None:
    await console.make("sales")
    assert done(await console.post("/catalogs/sales:rename", {"new_name": "SALES"}))["name"] == "SALES"
    assert done(await console.get("/catalogs/sales"))["name"] == "SALES"


async def test_a_rename_to_a_taken_name_is_refused(console: Console) -> None:
    await console.make("sales")
    await console.make("trade")
    refused(await console.post("/catalogs/sales:rename", {"new_name": "Trade"}), 409, "NAME_TAKEN", "new_name")
    assert await console.names("/catalogs") == ["sales", "trade"]


async def test_only_an_empty_catalog_is_dropped_without_cascade(house: House) -> None:
    console = house.console
    made = await console.make("sales")
    await console.make("sales", "eu")
    error = refused(await console.delete("/catalogs/sales"), 409, "NOT_EMPTY")
    assert error["message"].startswith("catalog 'sales' still contains namespace 'eu'")
    gone = done(await console.delete("/catalogs/sales", cascade="true"))
    assert gone == made | {"revision": 2, "dropped_at_ms": START_MS, "purge_at_ms": START_MS + 7 * DAY_MS}
    refused(await console.get("/catalogs/sales"), 404, "CATALOG_NOT_FOUND")
    refused(await console.get("/catalogs/sales/namespaces/eu"), 404, "CATALOG_NOT_FOUND")
    assert await console.names("/catalogs") == []


async def test_a_dropped_name_is_free_immediately(console: Console) -> None:
    first = await console.make("sales")
    done(await console.delete("/catalogs/sales"))
    second = await console.make("Sales")
    assert second["id"] != first["id"]
    assert done(await console.get("/catalogs/sales")) == second
