"""Namespaces of any depth through the console."""

from __future__ import annotations

from moorage.testing.builders import START_MS
from tests.api.house import Console, House, done, refused, to_namespace


async def test_a_creation_returns_the_nested_namespace_as_it_is_read(console: Console) -> None:
    await console.make("lake")
    await console.make("lake", "sales")
    made = await console.make("lake", "sales", "EU", comment="west", properties={"k": "v"})
    assert made == {
        "id": made["id"],
        "kind": "namespace",
        "name": "EU",
        "owner": "local",
        "comment": "west",
        "properties": {"k": "v"},
        "revision": 1,
        "created_at_ms": START_MS,
        "created_by": "local",
        "updated_at_ms": START_MS,
        "updated_by": "local",
        "dropped_at_ms": None,
        "purge_at_ms": None,
    }
    assert done(await console.get(to_namespace("lake", "Sales", "eu"))) == made
    assert done(await console.get("/catalogs/lake/namespaces", parent="sales")) == {
        "items": [made],
        "next_page_token": None,
    }
    assert await console.names("/catalogs/lake/namespaces") == ["sales"]


async def test_the_first_missing_level_is_named(console: Console) -> None:
    await console.make("lake")
    await console.make("lake", "a")
    for answer, missing in (
        (await console.get(to_namespace("lake", "a", "b")), "lake.a.b"),
        (await console.get(to_namespace("lake", "a", "b", "c")), "lake.a.b"),
        (await console.get(to_namespace("lake", "x", "b", "c")), "lake.x"),
        (await console.post("/catalogs/lake/namespaces", {"path": ["a", "b", "c"]}), "lake.a.b"),
        (await console.get("/catalogs/lake/namespaces", parent="x"), "lake.x"),
    ):
        error = refused(answer, 404, "NAMESPACE_NOT_FOUND")
        assert error["message"] == f"namespace '{missing}' does not exist"


async def test_one_name_may_be_used_below_several_parents(console: Console) -> None:
    await console.make("lake")
    await console.make("sea")
    made = [
        await console.make(*path) for path in (("lake", "x"), ("sea", "x"), ("lake", "x", "x"), ("lake", "x", "x", "x"))
    ]
    assert len({each["id"] for each in made}) == 4
    refused(await console.post("/catalogs/lake/namespaces", {"path": ["x", "X"]}), 409, "NAME_TAKEN", "path")


async def test_the_deepest_namespace_can_be_used_and_none_created_below_it(console: Console) -> None:
    await console.make("lake")
    path: list[str] = []
    for level in range(31):
        path.append(f"n{level}")
        await console.make("lake", *path)
    assert done(await console.get(to_namespace("lake", *path)))["name"] == "n30"
    assert done(await console.get(f"{to_namespace('lake', *path)}/tables"))["items"] == []
    refused(await console.get(f"{to_namespace('lake', *path)}/tables/t"), 404, "TABLE_NOT_FOUND")
    refused(await console.post("/catalogs/lake/namespaces", {"path": [*path, "x"]}), 400, "INVALID_INPUT", "path")
    refused(await console.get(to_namespace("lake", *path, "x")), 400, "INVALID_INPUT", "namespace")


async def test_a_namespace_is_updated_renamed_and_dropped(house: House) -> None:
    console = house.console
    await console.make("lake")
    made = await console.make("lake", "a")
    inner = await console.make("lake", "a", "b")
    house.clock.advance(3)
    updated = done(await console.patch(to_namespace("lake", "a"), {"comment": "c", "revision": 1}))
    assert updated == made | {"comment": "c", "revision": 2, "updated_at_ms": START_MS + 3}
    renamed = done(await console.post(f"{to_namespace('lake', 'a')}:rename", {"new_name": "z"}))
    assert renamed == updated | {"name": "z", "revision": 3}
    assert done(await console.get(to_namespace("lake", "z", "b"))) == inner
    refused(await console.delete(to_namespace("lake", "z")), 409, "NOT_EMPTY")
    done(await console.delete(to_namespace("lake", "z", "b")))
    assert done(await console.delete(to_namespace("lake", "z")))["dropped_at_ms"] == START_MS + 3
    assert await console.names("/catalogs/lake/namespaces") == []


async def test_a_level_that_ends_like_an_action_is_a_name(console: Console) -> None:
    await console.make("lake")
    made = await console.make("lake", "a:rename")
    assert done(await console.get(to_namespace("lake", "a:rename"))) == made
    renamed = done(await console.post(f"{to_namespace('lake', 'a:rename')}:rename", {"new_name": "b:drop"}))
    assert renamed["id"] == made["id"]
    assert done(await console.get(to_namespace("lake", "b:drop")))["name"] == "b:drop"
