"""Lance tables: declare, describe, register, rename, list, drop and deregister."""

from __future__ import annotations

import shutil
from typing import Any

import lance
import pyarrow as pa
import pytest

from moorage.testing import lance_writer as write
from tests.api.house import House, done
from tests.api.lance.lake import LanceClient, refused

T = "lake$sea$t"


async def test_a_declared_table_has_a_location_of_its_own_and_is_described(lake: LanceClient, house: House) -> None:
    declared = done(await lake.table(T, "declare", {"properties": {"owner": "ann"}, "vend_credentials": True}))
    assert declared["location"].startswith(house.ports.roots.managed)
    assert declared == {"location": declared["location"], "properties": {"owner": "ann"}, "managed_versioning": True}
    described = {
        "table": "t",
        "namespace": ["lake", "sea"],
        "location": declared["location"],
        "table_uri": declared["location"],
        "properties": {"owner": "ann"},
        "managed_versioning": True,
    }
    assert done(await lake.table(T, "describe")) == described
    await lake.grow(T, declared["location"], 1, 2)
    assert done(await lake.table(T, "describe", {"id": ["lake", "sea", "t"]})) == {**described, "version": 2}
    assert done(await lake.table(T, "describe", {"version": 1})) == {**described, "version": 1}
    refused(await lake.table(T, "describe", {"version": 3}), 404, 11)
    refused(await lake.table(T, "describe", {"branch": "dev"}), 404, 22)
    refused(await lake.table(T, "declare"), 409, 5, "lake.sea.t")
    assert (await lake.table(T, "exists")).content == b""
    assert (await lake.table(T, "exists", {"version": 2})).status_code == 200
    refused(await lake.table(T, "exists", {"version": 3}), 404, 11)
    refused(await lake.table("lake$sea$u", "exists"), 404, 4, "lake.sea.u")


async def test_a_table_may_be_directly_in_a_catalog_but_not_at_the_root(lake: LanceClient) -> None:
    location = await lake.declare("lake$t")
    await lake.grow("lake$t", location, 1)
    assert done(await lake.table("lake$t", "describe"))["namespace"] == ["lake"]
    assert (await lake.look("/namespace/lake/table/list"))["tables"] == ["t"]
    refused(await lake.table("t", "declare"), 400, 13, "id", "namespace")
    refused(await lake.table("t", "describe"), 404, 4)
    assert (await lake.look("/namespace/$/table/list"))["tables"] == []
    refused(await lake.space("lake", "drop"), 409, 3)
    assert done(await lake.table("lake$t", "drop"))["id"] == ["lake", "t"]


async def test_a_location_that_is_invalid_or_in_use_is_refused(lake: LanceClient, house: House) -> None:
    taken = await lake.declare(T)
    seq = await house.console.seq()
    for location in (taken, f"{taken}/inside", "relative", "file:///", "file:///etc/../x", house.ports.roots.managed):
        refused(await lake.table("lake$sea$u", "declare", {"location": location}), 400, 13, "location")
    refused(await lake.table("lake$none$u", "declare"), 404, 1, "lake.none")
    refused(await lake.table("none$u", "declare"), 404, 1, "none")
    assert await house.console.seq() == seq


async def test_a_dropped_name_is_free_and_a_deregistered_dataset_can_be_registered_again(lake: LanceClient) -> None:
    first = await lake.declare(T, properties={"owner": "ann"})
    await lake.grow(T, first, 1, 2)
    await lake.grow(T, first, 2, 3, branch="dev")
    _name_branch(first, "dev")
    gone = {"id": ["lake", "sea", "t"], "location": first, "properties": {"owner": "ann"}}
    assert done(await lake.table(T, "deregister")) == gone
    refused(await lake.table(T, "deregister"), 404, 4)
    again = done(await lake.table(T, "register", {"location": first, "properties": {"team": "süd"}}))
    assert again == {"location": first, "properties": {"team": "süd"}}
    assert await lake.versions(T) == [2, 1]
    assert await lake.versions(T, branch="dev") == [3, 2]
    await lake.grow(T, first, 3)
    assert done(await lake.table(T, "drop"))["location"] == first
    assert await lake.declare(T) != first
    # It was registered, so the catalog never owned its files, and there is no hold.
    assert done(await lake.table("lake$sea$u", "register", {"location": first}))["location"] == first


def _name_branch(location: str, name: str) -> None:
    folder = write.folder_of(location) / "_refs" / "branches"
    folder.mkdir(parents=True)
    (folder / f"{name}.json").write_text('{"parentVersion": 2, "createAt": 1, "manifestSize": 1}')


async def test_a_dataset_that_pylance_wrote_is_registered_with_its_versions(lake: LanceClient, house: House) -> None:
    location = f"{house.ports.roots.managed}brought/by/ann"
    for mode in ("create", "append", "append"):
        lance.write_dataset(pa.table({"id": [1]}), location, mode=mode)
    shutil.rmtree(write.folder_of(location) / "_refs", ignore_errors=True)
    done(await lake.table(T, "register", {"location": location}))
    assert await lake.versions(T) == [3, 2, 1]
    found = done(await lake.table(T, "version/describe"))["version"]
    assert write.file_of(found["manifest_path"]).stat().st_size == found["manifest_size"]
    refused(await lake.table(T, "register", {"location": location}), 409, 5)
    refused(await lake.table("lake$sea$u", "register", {"location": location}), 400, 13, "location")
    refused(await lake.create(T, write.stage(location, 3)), 409, 14)
    await lake.grow(T, location, 4)


async def test_registering_with_overwrite_deregisters_the_existing_table(lake: LanceClient, house: House) -> None:
    first, location = await lake.declare(T), f"{house.ports.roots.managed}brought"
    await lake.grow(T, first, 1)
    lance.write_dataset(pa.table({"id": [1]}), location)
    refused(await lake.table(T, "register", {"location": location, "mode": "Create"}), 409, 5)
    done(await lake.table(T, "register", {"location": location, "mode": "overwrite"}))
    assert done(await lake.table(T, "describe"))["location"] == location
    same = {"location": location, "mode": "OVERWRITE", "properties": {"k": "v"}}
    assert done(await lake.table(T, "register", same))["properties"] == {"k": "v"}
    assert await lake.versions(T) == [1]
    done(await lake.table("lake$sea$old", "register", {"location": first}))


async def test_registering_a_dataset_again_adds_the_versions_written_since(lake: LanceClient, house: House) -> None:
    location = f"{house.ports.roots.managed}brought"
    written = lance.write_dataset(pa.table({"id": [1]}), location)
    written.create_branch("dev")
    done(await lake.table(T, "register", {"location": location}))
    lance.write_dataset(pa.table({"id": [2]}), location, mode="overwrite")
    written.create_branch("late").insert(pa.table({"id": [3]}))
    refused(await lake.create(T, write.stage(location, 3)), 400, 13, "written without the catalog")
    done(await lake.table(T, "register", {"location": location, "mode": "overwrite"}))
    lines = [await lake.versions(T, branch=branch) for branch in ("main", "dev", "late")]
    assert lines == [[2, 1], [1], [2, 1]]
    await lake.grow(T, location, 3)
    assert done(await lake.table(T, "describe"))["version"] == 3


async def test_a_location_without_a_dataset_is_not_registered(lake: LanceClient, house: House) -> None:
    root = house.ports.roots.managed
    write.stage(f"{root}staged", 1)
    folder = write.folder_of(f"{root}broken") / "_versions"
    folder.mkdir(parents=True)
    (folder / write.final_name(1)).write_bytes(b"no manifest")
    seq = await house.console.seq()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"location": f"{root}nothing"}, "no Lance dataset"),
        ({"location": f"{root}staged"}, "no Lance dataset"),
        ({"location": f"{root}broken"}, "footer"),
        ({"location": root}, "own storage"),
        ({"location": "file:///etc"}, "outside"),
        ({"location": "t.lance"}, "absolute"),
        ({"location": f"{root}broken", "mode": "replace"}, "mode"),
    ]
    for body, text in wrong:
        refused(await lake.table(T, "register", body), 400, 13, text)
    assert await house.console.seq() == seq


async def test_a_table_is_renamed_and_moved_with_its_history(lake: LanceClient) -> None:
    location = await lake.declare(T)
    await lake.grow(T, location, 1)
    done(await lake.table(T, "rename", {"new_table_name": "u"}))
    refused(await lake.table(T, "describe"), 404, 4)
    done(await lake.table("lake$sea$u", "rename", {"new_table_name": "v", "new_namespace_id": ["lake"]}))
    assert done(await lake.table("lake$v", "describe"))["location"] == location
    await lake.grow("lake$v", location, 2)
    await lake.declare(T)
    refused(await lake.table("lake$v", "rename", {"new_table_name": "T", "new_namespace_id": ["lake", "sea"]}), 409, 5)
    refused(await lake.table("lake$v", "rename", {"new_table_name": "w", "new_namespace_id": ["none"]}), 404, 1)
    refused(await lake.table("lake$v", "rename", {"new_table_name": "w", "new_namespace_id": []}), 400, 13)
    refused(await lake.table("lake$v", "rename", {"new_table_name": "a$b"}), 400, 13, "delimiter")
    refused(await lake.table("lake$none", "rename", {"new_table_name": "w"}), 404, 4)


@pytest.fixture
async def many(lake: LanceClient, house: House) -> list[str]:
    """Lance tables in namespaces of several depths, beside tables of another format."""
    await house.console.make("lake", "sea", "deep")
    await house.console.make("lake", "void")
    await house.console.make("pond")
    await house.console.make("pond", "ice")
    found = [f"lake${n}" for n in range(3)] + [f"lake$sea$t{n:02}" for n in range(12)]
    found += [f"lake$sea$deep${n}" for n in range(2)] + ["pond$a", "pond$ice$b"]
    for name in found:
        await lake.declare(name)
    for n in range(3):
        schema = {"type": "struct", "fields": []}
        made = await lake.http.post(
            "/iceberg/v1/lake/namespaces/sea/tables", json={"name": f"t{n:02}ice", "schema": schema}
        )
        assert made.is_success, made.text
    return found


async def _pages(lake: LanceClient, path: str, limit: int, **query: Any) -> list[str]:
    names: list[str] = []
    token = None
    while True:
        page = await lake.look(path, limit=limit, **query, **({"page_token": token} if token else {}))
        assert len(page["tables"]) <= limit
        names += page["tables"]
        token = page.get("page_token")
        if not token:
            return names


async def test_listings_are_complete_at_every_page_size(lake: LanceClient, many: list[str]) -> None:
    in_sea = [name.rpartition("$")[2] for name in many if name.startswith("lake$sea$t")]
    for limit in (1, 2, 5, 100):
        assert await _pages(lake, "/namespace/lake$sea/table/list", limit) == in_sea
        assert await _pages(lake, "/table", limit) == many
    assert (await lake.look("/table", delimiter="/"))["tables"][-1] == "pond/ice/b"
    await lake.grow("pond$a", done(await lake.table("pond$a", "describe"))["location"], 1)
    assert await _pages(lake, "/table", 1, include_declared=False) == ["pond$a"]
    assert (await lake.look("/namespace/pond/table/list", include_declared=False))["tables"] == ["a"]
    assert (await lake.look("/namespace/pond$ice/table/list", include_declared=False))["tables"] == []


async def test_a_listing_continues_after_its_namespace_is_dropped(lake: LanceClient, many: list[str]) -> None:
    page = await lake.look("/table", limit=16)
    assert page["tables"] == many[:16]
    done(await lake.space("lake$sea", "drop", behavior="Cascade"))
    rest = await lake.look("/table", page_token=page["page_token"])
    assert rest["tables"] == ["pond$a", "pond$ice$b"]
    answer = await lake.http.get("/lance/v1/table", params={"page_token": page["page_token"][:-1] + "!"})
    refused(answer, 400, 13, "page_token")


async def test_detailed_metadata_is_read_from_the_files(lake: LanceClient, house: House) -> None:
    location = f"{house.ports.roots.managed}brought"
    lance.write_dataset(pa.table({"id": pa.array([1, 2, 3], pa.int32())}), location)
    dataset = lance.dataset(location)
    dataset.tags.create("gold", 1)
    dataset.delete("id = 2")
    done(await lake.table(T, "register", {"location": location}))
    described = done(await lake.table(T, "describe", load_detailed_metadata=True))
    assert described["schema"] == {"fields": [{"name": "id", "type": {"type": "int32"}, "nullable": True}]}
    assert (described["version"], described["stats"]) == (2, {"num_deleted_rows": 1, "num_fragments": 1})
    described = done(await lake.table(T, "describe", {"tag": "gold", "load_detailed_metadata": True}))
    assert (described["version"], described["stats"]) == (1, {"num_deleted_rows": 0, "num_fragments": 1})
    refused(await lake.table(T, "describe", {"tag": "silver"}), 404, 8)
    refused(await lake.table(T, "describe", {"tag": "gold", "version": 1}), 400, 13, "tag")
    await lake.declare("lake$new")
    assert "schema" not in done(await lake.table("lake$new", "describe", load_detailed_metadata=True))
