"""Catalogs and schemas through the Unity API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moorage.testing.builders import START_MS
from tests.api.house import House, done, open_house
from tests.api.unity.unity import IN_S, Unity, invalid, refused

STAMPS = {
    "owner": "local",
    "created_at": START_MS,
    "created_by": "local",
    "updated_at": START_MS,
    "updated_by": "local",
}


async def test_the_response_to_a_new_catalog_equals_a_later_read(uc: Unity) -> None:
    made = done(await uc.post("/catalogs", {"name": "Lake", "comment": "t", "properties": {"a": "b"}}))
    assert made == {
        "name": "Lake",
        "comment": "t",
        "properties": {"a": "b"},
        "id": made["id"],
        "storage_root": None,
        "storage_location": None,
        **STAMPS,
    }
    assert done(await uc.get("/catalogs/lake")) == made
    assert done(await uc.get("/catalogs")) == {"catalogs": [made], "next_page_token": None}


async def test_the_response_to_a_new_schema_equals_a_later_read(uc: Unity) -> None:
    done(await uc.post("/catalogs", {"name": "Lake"}))
    made = done(await uc.post("/schemas", {"name": "S1", "catalog_name": "LAKE", "comment": None, "properties": None}))
    assert made == {
        "name": "S1",
        "catalog_name": "Lake",
        "comment": None,
        "properties": {},
        "full_name": "Lake.S1",
        "schema_id": made["schema_id"],
        "storage_root": None,
        "storage_location": None,
        **STAMPS,
    }
    assert done(await uc.get("/schemas/lake.s1")) == made
    assert done(await uc.get("/schemas", catalog_name="lake")) == {"schemas": [made], "next_page_token": None}


async def test_a_storage_root_contains_a_folder_named_after_the_id(house: House, uc: Unity) -> None:
    roots = house.ports.roots.managed.removeprefix("file://") + "roots"
    lake = done(await uc.post("/catalogs", {"name": "lake", "storage_root": f"file:{roots}/lake/"}))
    assert lake["storage_root"] == f"file://{roots}/lake"
    assert lake["storage_location"] == f"file://{roots}/lake/__unitystorage/catalogs/{lake['id']}"
    schema = done(await uc.post("/schemas", {"name": "s", "catalog_name": "lake", "storage_root": f"{roots}/s"}))
    assert schema["storage_root"] == f"file://{roots}/s"
    assert schema["storage_location"] == f"file://{roots}/s/__unitystorage/schemas/{schema['schema_id']}"
    assert done(await uc.get("/catalogs/lake")) == lake
    for wrong in ("roots", "file://host/x", "file:///", "/a/../b", "/a/%2e%2e/b", "/a%2Fb", "", "/a\tb"):
        assert "storage_root" in invalid(await uc.post("/catalogs", {"name": "other", "storage_root": wrong}))
    assert await uc.names("catalogs") == ["lake"]


@pytest.mark.parametrize(
    ("root", "remedy"),
    [
        ("file:///elsewhere", "Set --external-folder to a folder that contains it or choose a folder below them."),
        ("s3a://bucket", "Add it to --s3-locations or choose a folder below them."),
        ("gs://bucket/x", "Choose a folder below them."),
    ],
)
async def test_a_storage_root_outside_the_allowed_locations_is_refused(tmp_path: Path, root: str, remedy: str) -> None:
    (tmp_path / "outside").mkdir()
    async with open_house(tmp_path / "data", external_folder=tmp_path / "outside") as house:
        uc = Unity(house.console.http)
        await uc.schema()
        allowed = f"file://{tmp_path}/data/managed/, file://{tmp_path}/outside/"
        message = f"storage_root {root!r} is outside the allowed locations ({allowed}). {remedy}"
        assert invalid(await uc.post("/catalogs", {"name": "other", "storage_root": root})) == message
        schema = {"name": "other", "catalog_name": "lake", "storage_root": root}
        assert invalid(await uc.post("/schemas", schema)) == message
        assert (await uc.names("catalogs"), await uc.names("schemas", catalog_name="lake")) == (["lake"], ["s"])
        done(await uc.post("/schemas", {**schema, "storage_root": f"{tmp_path}/outside/roots"}))


async def test_one_patch_changes_comment_properties_owner_and_name(house: House, uc: Unity) -> None:
    await uc.schema()
    made = done(await uc.patch("/catalogs/lake", {"properties": {"a": "1", "b": "2"}}))
    house.clock.advance(7)
    after = done(
        await uc.patch(
            "/catalogs/lake", {"comment": "ours", "properties": {"c": "3"}, "owner": "ann", "new_name": "Sea"}
        )
    )
    assert after == made | {
        "comment": "ours",
        "properties": {"c": "3"},
        "owner": "ann",
        "name": "Sea",
        "updated_at": START_MS + 7,
    }
    assert done(await uc.get("/catalogs/sea")) == after
    schema = done(await uc.patch("/schemas/sea.s", {"new_name": "S", "comment": "deep"}))
    assert (schema["full_name"], schema["comment"]) == ("Sea.S", "deep")
    assert done(await uc.get("/schemas/SEA.s")) == schema


async def test_an_empty_patch_changes_nothing(house: House, uc: Unity) -> None:
    """Java clients send an empty map of properties for no change."""
    await uc.schema()
    before = done(await uc.patch("/schemas/lake.s", {"comment": "kept", "properties": {"a": "b"}}))
    seq = (await house.ledger.position()).seq
    house.clock.advance(7)
    empty_patches: list[dict[str, Any]] = [
        {},
        {"properties": {}},
        {"comment": None, "new_name": None},
        {"new_name": "s"},
    ]
    for patch in empty_patches:
        for key in (None, f"key {patch}", f"key {patch}"):
            assert done(await uc.patch("/schemas/lake.s", patch, key=key)) == before
    assert (await house.ledger.position()).seq == seq


async def test_the_error_for_a_taken_name_names_the_kind(uc: Unity) -> None:
    await uc.schema()
    done(await uc.post("/catalogs", {"name": "sea"}))
    refused(await uc.post("/catalogs", {"name": "LAKE"}), 400, "CATALOG_ALREADY_EXISTS")
    refused(await uc.patch("/catalogs/sea", {"new_name": "Lake"}), 400, "CATALOG_ALREADY_EXISTS")
    # Spark searches the body for this name.
    refused(await uc.post("/schemas", {"name": "S", "catalog_name": "lake"}), 400, "SCHEMA_ALREADY_EXISTS")
    done(await uc.post("/schemas", {"name": "t", "catalog_name": "lake"}))
    refused(await uc.patch("/schemas/lake.t", {"new_name": "s"}), 400, "SCHEMA_ALREADY_EXISTS")


async def test_a_replayed_error_still_names_the_kind(uc: Unity) -> None:
    await uc.schema()
    body = {"name": "S", "catalog_name": "lake"}
    refused(await uc.post("/schemas", body, key="k"), 400, "SCHEMA_ALREADY_EXISTS")
    done(await uc.delete("/schemas/lake.s"))
    refused(await uc.post("/schemas", body, key="k"), 400, "SCHEMA_ALREADY_EXISTS")
    done(await uc.post("/schemas", body))


async def test_the_error_names_the_missing_parent(uc: Unity) -> None:
    await uc.schema()
    for answer in (
        await uc.get("/catalogs/sea"),
        await uc.patch("/catalogs/sea", {"comment": "x"}),
        await uc.delete("/catalogs/sea"),
        await uc.get("/schemas", catalog_name="sea"),
        await uc.post("/schemas", {"name": "x", "catalog_name": "sea"}),
        await uc.get("/schemas/sea.s"),
        await uc.get("/tables", catalog_name="sea", schema_name="s"),
        await uc.get("/tables/sea.s.t"),
        await uc.get("/functions/sea.s.f"),
    ):
        assert refused(answer, 404, "CATALOG_DOES_NOT_EXIST", "CATALOG_NOT_FOUND") == "catalog 'sea' does not exist"
    for answer in (
        await uc.get("/schemas/lake.x"),
        await uc.delete("/schemas/lake.x"),
        await uc.get("/tables", catalog_name="lake", schema_name="x"),
        await uc.get("/volumes/lake.x.v"),
    ):
        assert refused(answer, 404, "SCHEMA_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND").endswith("'lake.x' does not exist")
    refused(await uc.get("/tables/lake.s.t"), 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")
    refused(await uc.get("/volumes/lake.s.v"), 404, "NOT_FOUND")


async def test_without_force_only_empty_containers_are_deleted(uc: Unity) -> None:
    await uc.schema()
    await uc.external("t")
    refused(await uc.delete("/catalogs/lake"), 400, "FAILED_PRECONDITION")
    refused(await uc.delete("/schemas/lake.s", force="false"), 400, "FAILED_PRECONDITION")
    assert done(await uc.delete("/schemas/lake.s", force="true")) == {}
    refused(await uc.get("/tables/lake.s.t"), 404, "SCHEMA_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND")
    assert done(await uc.delete("/catalogs/lake")) == {}
    assert await uc.names("catalogs") == []


@pytest.mark.parametrize("name", ["a.b", "a b", "a/b", "", " ", "a\tb", "x" * 256, None, 7])
async def test_names_that_unity_cannot_address_are_refused(uc: Unity, name: object) -> None:
    await uc.schema()
    function: dict[str, Any] = {"input_params": {}, "data_type": "INT", "full_data_type": "INT", "routine_body": "SQL"}
    texts = ("routine_definition", "parameter_style", "sql_data_access", "security_type", "specific_name")
    function |= dict.fromkeys(texts, "x") | {"is_deterministic": True, "is_null_call": False}
    for path, body in (
        ("/catalogs", {"name": name}),
        ("/schemas", {"name": name, "catalog_name": "lake"}),
        ("/tables", {"name": name, **IN_S, "table_type": "VIEW", "view_definition": "select 1"}),
        ("/volumes", {"name": name, **IN_S, "volume_type": "MANAGED"}),
        ("/models", {"name": name, **IN_S}),
        ("/functions", {"function_info": {"name": name, **IN_S, **function}}),
    ):
        assert "name" in invalid(await uc.post(path, body))
    for path in ("/catalogs/lake", "/schemas/lake.s"):
        if name is not None:
            assert "new_name" in invalid(await uc.patch(path, {"new_name": name}))


async def test_objects_that_unity_cannot_address_are_not_visible(house: House, uc: Unity) -> None:
    console = house.console
    for path in (["plain"], ["my lake"], ["a.b"], ["plain", "my schema"], ["plain", "s"], ["plain", "s", "deeper"]):
        await console.make(*path)
    await console.make("my lake", "s")
    assert await uc.names("catalogs") == ["plain"]
    assert await uc.names("schemas", catalog_name="plain") == ["s"]
    for answer in (
        await uc.get("/catalogs/my%20lake"),
        await uc.get("/catalogs/a.b"),
        await uc.get("/schemas", catalog_name="my lake"),
        await uc.get("/schemas/my%20lake.s"),
        await uc.post("/schemas", {"name": "x", "catalog_name": "my lake"}),
        await uc.delete("/catalogs/my%20lake", force="true"),
    ):
        refused(answer, 404, "CATALOG_DOES_NOT_EXIST", "CATALOG_NOT_FOUND")
    refused(await uc.get("/schemas/plain.my%20schema"), 404, "SCHEMA_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND")
    invalid(await uc.get("/schemas/plain.s.deeper"))
    refused(await uc.delete("/schemas/plain.s"), 400, "FAILED_PRECONDITION")


async def test_a_full_name_with_the_wrong_number_of_parts_is_refused(uc: Unity) -> None:
    await uc.schema()
    for path in ("/schemas/lake", "/schemas/.s", "/schemas/lake.", "/tables/lake.s", "/tables/a.b.c.d", "/volumes/v"):
        assert "form" in invalid(await uc.get(path))


async def test_a_list_is_returned_in_pages(uc: Unity) -> None:
    for name in "gfedcba":
        done(await uc.post("/catalogs", {"name": name}))
    found = []
    token: str | None = ""
    while token is not None:
        page = done(await uc.get("/catalogs", max_results=3, page_token=token))
        found.append([item["name"] for item in page["catalogs"]])
        token = page["next_page_token"]
    assert found == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert await uc.names("catalogs", max_results=0) == list("abcdefg")
    assert await uc.names("catalogs", max_results=100_000, unknown="x") == list("abcdefg")
    for field, wrong in (("max_results", "-1"), ("max_results", "x"), ("page_token", "x")):
        assert field in invalid(await uc.ask("GET", f"/catalogs?{field}={wrong}"))


async def test_one_of_twelve_concurrent_requests_creates_a_name(uc: Unity) -> None:
    await uc.schema()
    for path, body, taken in (
        ("/catalogs", {"name": "sea"}, "CATALOG_ALREADY_EXISTS"),
        ("/schemas", {"name": "x", "catalog_name": "lake"}, "SCHEMA_ALREADY_EXISTS"),
        ("/models", {"name": "m", **IN_S}, "RESOURCE_ALREADY_EXISTS"),
    ):
        answers = await asyncio.gather(*[uc.post(path, body) for _ in range(12)])
        losers = [answer for answer in answers if answer.status_code != 200]
        assert len(losers) == 11
        for answer in losers:
            refused(answer, 400, taken)
