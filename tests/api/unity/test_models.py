"""Registered models and their versions through the Unity API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moorage.testing.builders import START_MS
from moorage.usecases.catalog import everywhere
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import House, done
from tests.api.unity.unity import IN_S, Unity, invalid, refused

DAY_MS = 24 * 60 * 60 * 1000
M = "/models/lake.s.m"


async def with_model(uc: Unity) -> dict[str, Any]:
    await uc.schema()
    return dict(done(await uc.post("/models", {"name": "m", **IN_S, "comment": "c"})))


async def new_version(uc: Unity, **given: Any) -> dict[str, Any]:
    body = {"model_name": "M", **IN_S, "source": "file:///runs/1"}
    return dict(done(await uc.post("/models/versions", body | given)))


async def numbers(uc: Unity, **query: Any) -> list[int]:
    return [version["version"] for version in done(await uc.get(f"{M}/versions", **query))["model_versions"]]


async def test_the_response_to_a_new_model_equals_a_later_read(house: House, uc: Unity) -> None:
    made = await with_model(uc)
    assert made == {
        "name": "m",
        "catalog_name": "lake",
        "schema_name": "s",
        "storage_location": f"{house.ports.roots.managed}models/{made['id']}",
        "full_name": "lake.s.m",
        "comment": "c",
        "id": made["id"],
        "owner": "local",
        "created_at": START_MS,
        "created_by": "local",
        "updated_at": START_MS,
        "updated_by": "local",
    }
    assert done(await uc.get(M)) == made
    assert done(await uc.get("/models", **IN_S)) == {"registered_models": [made], "next_page_token": None}
    after = done(await uc.patch(M, {"comment": "d", "new_name": "n"}))
    assert after == made | {"comment": "d", "name": "n", "full_name": "lake.s.n"}
    refused(await uc.post("/models", {"name": "N", **IN_S}), 400, "RESOURCE_ALREADY_EXISTS")


async def test_a_version_is_pending_until_it_is_finalized(house: House, uc: Unity) -> None:
    model = await with_model(uc)
    made = await new_version(uc, run_id="r", comment="first")
    assert made == {
        "model_name": "m",
        "catalog_name": "lake",
        "schema_name": "s",
        "version": 1,
        "source": "file:///runs/1",
        "run_id": "r",
        "status": "PENDING_REGISTRATION",
        "storage_location": f"{model['storage_location']}/versions/{made['id']}",
        "comment": "first",
        "created_at": START_MS,
        "created_by": "local",
        "updated_at": START_MS,
        "updated_by": "local",
        "id": made["id"],
    }
    assert done(await uc.get(f"{M}/versions/1")) == made
    house.clock.advance(3)
    ready = done(await uc.patch(f"{M}/versions/1/finalize", {"full_name": "lake.s.m", "version": 1}))
    assert ready == made | {"status": "READY", "updated_at": START_MS + 3}
    assert done(await uc.patch(f"{M}/versions/1/finalize", {})) == ready
    after = done(await uc.patch(f"{M}/versions/1", {"comment": "better"}))
    assert after == ready | {"comment": "better"}
    assert done(await uc.get(f"{M}/versions")) == {"model_versions": [after], "next_page_token": None}


async def test_the_files_of_a_finalized_version_are_only_read(uc: Unity) -> None:
    await with_model(uc)
    await new_version(uc)
    keys = {"model_name": "m", "version": 1, **IN_S}

    async def ask(operation: str) -> Any:
        return await uc.post("/temporary-model-version-credentials", {**keys, "operation": operation})

    assert (await ask("READ_WRITE_MODEL_VERSION")).status_code == 200
    done(await uc.patch(f"{M}/versions/1/finalize", {}))
    assert "finalized" in invalid(await ask("READ_WRITE_MODEL_VERSION"))
    assert (await ask("READ_MODEL_VERSION")).status_code == 200


async def test_the_path_and_the_body_must_name_the_same_version(uc: Unity) -> None:
    await with_model(uc)
    await new_version(uc)
    assert "version" in invalid(await uc.patch(f"{M}/versions/1/finalize", {"version": 2}))
    assert "full_name" in invalid(await uc.patch(f"{M}/versions/1/finalize", {"full_name": "lake.s.other"}))
    assert done(await uc.patch(f"{M}/versions/1/finalize", {"full_name": "LAKE.s.M"}))["status"] == "READY"


async def test_versions_are_ordered_by_number_and_no_number_is_used_twice(uc: Unity) -> None:
    await with_model(uc)
    for n in range(1, 13):
        assert (await new_version(uc))["version"] == n
    assert done(await uc.delete(f"{M}/versions/12")) == {}
    assert done(await uc.delete(f"{M}/versions/3")) == {}
    refused(await uc.get(f"{M}/versions/12"), 404, "NOT_FOUND")
    assert (await new_version(uc))["version"] == 13
    left = [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13]
    assert await numbers(uc) == left
    found: list[int] = []
    token: str | None = ""
    for _ in range(3):
        page = done(await uc.get(f"{M}/versions", max_results=5, page_token=token))
        found += [version["version"] for version in page["model_versions"]]
        token = page["next_page_token"]
    assert found == left
    assert token is None


async def test_concurrently_registered_versions_get_different_numbers(uc: Unity) -> None:
    await with_model(uc)
    made = await asyncio.gather(*[new_version(uc) for _ in range(6)])
    assert sorted(version["version"] for version in made) == [1, 2, 3, 4, 5, 6]


async def test_a_retried_registration_returns_the_original_number(uc: Unity) -> None:
    await with_model(uc)
    body = {"model_name": "m", **IN_S, "source": "s"}
    first = done(await uc.post("/models/versions", body, key="k"))
    await new_version(uc)
    assert done(await uc.post("/models/versions", body, key="k")) == first


async def test_a_model_with_versions_is_deleted_only_with_force(uc: Unity) -> None:
    await with_model(uc)
    await new_version(uc)
    refused(await uc.delete(M), 400, "FAILED_PRECONDITION")
    assert await numbers(uc) == [1]
    assert done(await uc.delete(M, force="true")) == {}
    refused(await uc.get(f"{M}/versions/1"), 404, "NOT_FOUND")
    done(await uc.post("/models", {"name": "m", **IN_S}))
    assert await numbers(uc) == []
    assert (await new_version(uc))["version"] == 1
    done(await uc.delete(f"{M}/versions/1"))
    assert done(await uc.delete(M)) == {}


async def test_the_error_names_what_is_missing_or_invalid(uc: Unity) -> None:
    await with_model(uc)
    assert "model 'lake.s.m' has no version 1" in refused(await uc.get(f"{M}/versions/1"), 404, "NOT_FOUND")
    for path in ("/models/lake.s.x", "/models/lake.s.x/versions", "/models/lake.s.x/versions/1"):
        assert "model 'lake.s.x' does not exist" in refused(await uc.get(path), 404, "NOT_FOUND")
    refused(await uc.post("/models/versions", {"model_name": "x", **IN_S, "source": "s"}), 404, "NOT_FOUND")
    for wrong in ("0", "-1", "x", "1.0", "9" * 30, "\u0661"):
        assert "version" in invalid(await uc.get(f"{M}/versions/{wrong}"))
    for source in ("", None):
        body = {"model_name": "m", **IN_S, "source": source}
        assert "source" in invalid(await uc.post("/models/versions", body))


async def test_purging_a_version_deletes_only_its_own_files(house: House, uc: Unity) -> None:
    await with_model(uc)
    folders = [Path((await new_version(uc))["storage_location"].removeprefix("file://")) for _ in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "weights").write_text("w")
    done(await uc.delete(f"{M}/versions/1"))
    house.clock.advance(8 * DAY_MS)
    await purge_due(house.ports)
    assert [folder.exists() for folder in folders] == [False, True]
    done(await uc.delete(M, force="true"))
    house.clock.advance(8 * DAY_MS)
    await purge_due(house.ports)
    assert not folders[1].parent.parent.exists()


async def in_all_schemas(uc: Unity, **query: Any) -> list[list[str]]:
    """The full names of all models, by page."""
    pages: list[list[str]] = []
    token: str | None = ""
    while token is not None:
        page = done(await uc.get("/models", page_token=token, **query))
        pages.append([model["full_name"] for model in page["registered_models"]])
        token = page["next_page_token"]
    return pages


async def test_the_models_of_all_schemas_are_listed_without_a_schema(uc: Unity) -> None:
    """MLflow's search_registered_models() names no schema."""
    await with_model(uc)
    names = ["lake.s.m"]
    for catalog, schema, models in (("lake", "empty", ""), ("lake", "t", "ab"), ("sea", "s", "cde"), ("x", "y", "")):
        await uc.post("/catalogs", {"name": catalog})
        done(await uc.post("/schemas", {"name": schema, "catalog_name": catalog}))
        for model in models:
            done(await uc.post("/models", {"name": model, "catalog_name": catalog, "schema_name": schema}))
            names.append(f"{catalog}.{schema}.{model}")
    assert await in_all_schemas(uc) == [names]
    assert await in_all_schemas(uc, catalog_name="", schema_name="") == [names]
    for size in (1, 2, 3, 4, 6):
        assert await in_all_schemas(uc, max_results=size) == [names[at : at + size] for at in range(0, 6, size)]


async def test_a_page_of_models_ends_after_many_schemas(uc: Unity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everywhere, "SCHEMAS_PER_PAGE", 2)
    await with_model(uc)
    for schema in ("a", "b", "c", "t", "u", "v"):
        done(await uc.post("/schemas", {"name": schema, "catalog_name": "lake"}))
    done(await uc.post("/models", {"name": "last", "catalog_name": "lake", "schema_name": "v"}))
    pages = await in_all_schemas(uc)
    assert len(pages) == 4
    assert [name for page in pages for name in page] == ["lake.s.m", "lake.v.last"]


async def test_a_list_of_models_needs_both_names_or_none(uc: Unity) -> None:
    await with_model(uc)
    assert "schema_name is required too" in invalid(await uc.get("/models", catalog_name="lake"))
    assert "catalog_name is required too" in invalid(await uc.get("/models", schema_name="s"))
    token = done(await uc.get("/models", **IN_S, max_results=1))["next_page_token"]
    assert token is None
    assert "page_token" in invalid(await uc.get("/models", page_token="x"))
