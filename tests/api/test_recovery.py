"""Drop and undrop: what can be undropped, under which name, and until when."""

from __future__ import annotations

from typing import Any

from moorage.core.callers import SYSTEM
from moorage.core.securables import Kind
from moorage.testing import builders as make
from moorage.testing.builders import START_MS
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import Console, House, done, refused, to_catalog, to_namespace

DAY_MS = 24 * 60 * 60 * 1000
UNKNOWN_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10"


async def undrop(console: Console, gone: dict[str, Any], **given: Any) -> Any:
    return await console.post("/undrop", {"kind": gone["kind"], "id": gone["id"], **given})


async def test_a_dropped_object_is_listed_and_restored_with_everything_in_it(house: House) -> None:
    console = house.console
    made = await console.make("lake", comment="c", properties={"a": "b"})
    inner = await console.make("lake", "sea")
    deeper = await console.make("lake", "sea", "deep")
    house.clock.advance(10)
    gone = done(await console.delete("/catalogs/lake", cascade="true"))
    assert done(await console.get("/dropped", kind="catalog")) == {"items": [gone], "next_page_token": None}
    house.clock.advance(10)
    back = done(await undrop(console, gone))
    assert back == made | {"revision": 3, "updated_at_ms": START_MS + 20}
    assert done(await console.get("/catalogs/lake")) == back
    assert done(await console.get(to_namespace("lake", "sea"))) == inner
    assert done(await console.get(to_namespace("lake", "sea", "deep"))) == deeper
    assert done(await console.get("/dropped", kind="catalog"))["items"] == []


async def test_dropped_objects_are_listed_by_parent_the_latest_first(house: House) -> None:
    console = house.console
    await console.make("lake")
    await console.make("sea")
    for name in ("a", "b", "c"):
        await console.make("lake", name)
        house.clock.advance(1)
        done(await console.delete(to_namespace("lake", name)))
    found = done(await console.get("/dropped", kind="namespace", catalog="lake"))["items"]
    assert [item["name"] for item in found] == ["c", "b", "a"]
    assert done(await console.get("/dropped", kind="namespace", catalog="sea"))["items"] == []
    assert done(await console.get("/dropped"))["items"] == []


async def test_dropped_objects_are_listed_page_by_page(house: House) -> None:
    console = house.console
    for number in range(5):
        await console.make(f"c{number}")
        done(await console.delete(to_catalog(f"c{number}")))
        house.clock.advance(number % 2)
    names: list[str] = []
    token: str | None = ""
    for size in (2, 2, 1):
        page = done(await console.get("/dropped", max_results=2, page_token=token))
        assert len(page["items"]) == size
        names += [item["name"] for item in page["items"]]
        token = page["next_page_token"]
    assert token is None
    assert names == ["c4", "c2", "c3", "c0", "c1"]
    wrong = done(await console.get("/dropped", max_results=2))["next_page_token"]
    refused(await console.get("/catalogs", page_token=wrong), 400, "INVALID_INPUT", "page_token")


async def test_dropped_tables_and_views_are_listed_separately(house: House) -> None:
    lake = await make.lake(house.ledger, "t")
    view = make.create(Kind.VIEW, lake.namespace, "v")
    await make.add(house.ledger, view)
    for kind, name in (("table", "t"), ("view", "v")):
        drop = {"op": "drop", "kind": kind, "path": ["lake", "sea", name]}
        done(await house.console.post("/transactions", {"operations": [drop]}))
    for kind, name in (("table", "t"), ("view", "v")):
        found = done(await house.console.get("/dropped", kind=kind, catalog="lake", namespace="sea"))["items"]
        assert [(item["kind"], item["name"]) for item in found] == [(kind, name)]
    back = done(await undrop(house.console, {"kind": "table", "id": lake.table}))
    assert (back["kind"], back["id"]) == ("table", lake.table)
    assert await house.console.names(f"{to_namespace('lake', 'sea')}/tables") == ["t"]


async def test_an_undrop_under_a_taken_name_needs_a_new_name(console: Console) -> None:
    first = await console.make("lake")
    done(await console.delete("/catalogs/lake"))
    await console.make("Lake")
    error = refused(await undrop(console, first), 409, "NAME_TAKEN", "new_name")
    assert error["message"] == "catalog 'lake' already exists; undrop under a new_name"
    refused(await undrop(console, first, new_name="LAKE"), 409, "NAME_TAKEN", "new_name")
    back = done(await undrop(console, first, new_name="old lake"))
    assert (back["id"], back["name"]) == (first["id"], "old lake")
    assert await console.names("/catalogs") == ["Lake", "old lake"]


async def test_two_dropped_objects_of_one_name_can_both_be_undropped(console: Console) -> None:
    first = await console.make("lake")
    done(await console.delete("/catalogs/lake"))
    second = await console.make("lake")
    done(await console.delete("/catalogs/lake"))
    done(await undrop(console, first))
    refused(await undrop(console, second), 409, "NAME_TAKEN", "new_name")
    done(await undrop(console, second, new_name="second"))
    assert await console.names("/catalogs") == ["lake", "second"]


async def test_an_object_below_a_dropped_parent_cannot_be_undropped_alone(console: Console) -> None:
    lake = await console.make("lake")
    sea = await console.make("lake", "sea")
    deep = await console.make("lake", "sea", "deep")
    done(await console.delete(to_namespace("lake", "sea", "deep")))
    done(await console.delete(to_namespace("lake", "sea")))
    done(await console.delete("/catalogs/lake"))
    error = refused(await undrop(console, deep), 404, "CATALOG_NOT_FOUND")
    assert error["message"] == "catalog 'lake' is dropped too; undrop it first"
    done(await undrop(console, lake))
    error = refused(await undrop(console, deep), 404, "NAMESPACE_NOT_FOUND")
    assert error["message"] == "namespace 'sea' is dropped too; undrop it first"
    done(await undrop(console, sea))
    done(await undrop(console, deep))
    assert done(await console.get(to_namespace("lake", "sea", "deep")))["id"] == deep["id"]


async def test_an_object_dropped_before_its_parent_stays_dropped_when_the_parent_is_undropped(console: Console) -> None:
    lake = await console.make("lake")
    await console.make("lake", "a")
    await console.make("lake", "b")
    done(await console.delete(to_namespace("lake", "a")))
    done(await console.delete("/catalogs/lake", cascade="true"))
    done(await undrop(console, lake))
    assert await console.names("/catalogs/lake/namespaces") == ["b"]


async def test_an_object_cannot_be_undropped_after_its_hold(house: House) -> None:
    console = house.console
    gone = await console.make("lake")
    done(await console.delete("/catalogs/lake"))
    house.clock.advance(7 * DAY_MS - 1)
    done(await undrop(console, gone))
    done(await console.delete("/catalogs/lake"))
    house.clock.advance(7 * DAY_MS)
    error = refused(await undrop(console, gone), 409, "ALREADY_PURGED")
    assert error["advice"] == "never"
    assert await purge_due(house.ports) == 1
    error = refused(await undrop(console, gone), 404, "OBJECT_NOT_FOUND")
    assert "may have been purged" in error["message"]
    entry = done(await console.get("/feed", after=await console.seq() - 1))["entries"][0]
    assert entry["caller"] == SYSTEM.id


async def test_an_announced_purge_cannot_be_undone(house: House) -> None:
    gone = await house.console.make("lake")
    done(await house.console.delete("/catalogs/lake"))
    await make.add(house.ledger, make.purge(gone["id"]))
    refused(await undrop(house.console, gone), 409, "ALREADY_PURGED")
    assert done(await house.console.get("/dropped"))["items"] == []


async def test_only_a_dropped_object_can_be_undropped(console: Console) -> None:
    lake = await console.make("lake")
    refused(await undrop(console, lake), 409, "NAME_TAKEN")
    refused(await undrop(console, lake | {"kind": "namespace"}), 404, "OBJECT_NOT_FOUND")
    for unknown in (UNKNOWN_ID, "lake", "", "x" * 10_000):
        refused(await undrop(console, {"kind": "catalog", "id": unknown}), 404, "OBJECT_NOT_FOUND")


async def test_the_parent_is_required_for_every_kind_but_catalogs(console: Console) -> None:
    await console.make("lake")
    refused(await console.get("/dropped", kind="namespace"), 400, "INVALID_INPUT", "catalog")
    refused(await console.get("/dropped", kind="catalog", catalog="lake"), 400, "INVALID_INPUT", "catalog")
    refused(await console.get("/dropped", kind="boat"), 400, "INVALID_INPUT", "kind")
    refused(await console.get("/dropped", kind="table", catalog="nowhere"), 404, "CATALOG_NOT_FOUND")


async def test_a_staging_table_does_not_prevent_the_drop_of_its_namespace(house: House) -> None:
    """No list shows a staging table, so a client could not drop it first."""
    await house.console.make("lake")
    sea = await house.console.make("lake", "sea")
    await make.add(house.ledger, make.stage(sea["id"], "/data/stage", lifetime_ms=1000))
    done(await house.console.delete(to_namespace("lake", "sea")))


async def test_objects_that_cannot_be_purged_delay_no_others(house: House) -> None:
    lake = await make.lake(house.ledger)
    stuck = [make.table(lake.namespace, f"t{n}", path=f"s3://unreachable/{n}") for n in range(150)]
    await make.add(house.ledger, *stuck)
    await make.add(house.ledger, *[make.drop(table.id, hold_ms=0) for table in stuck])
    house.clock.advance(1)
    await make.add(house.ledger, make.drop(lake.table, hold_ms=0))
    assert await purge_due(house.ports) == 1
    assert (await house.ledger.lineage(lake.table)).chain == ()
    assert len(await house.ledger.due_for_purge(limit=1000)) == 150
