"""Volumes and functions through the Unity API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moorage.testing.builders import START_MS
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import House, done, open_house
from tests.api.unity.unity import IN_S, Unity, invalid, refused

DAY_MS = 24 * 60 * 60 * 1000
STAMPS = {
    "owner": "local",
    "created_at": START_MS,
    "created_by": "local",
    "updated_at": START_MS,
    "updated_by": "local",
}


def external_volume(name: str, location: str) -> dict[str, Any]:
    return {"name": name, **IN_S, "volume_type": "EXTERNAL", "storage_location": location}


def folder_of(volume: dict[str, Any]) -> Path:
    return Path(volume["storage_location"].removeprefix("file://"))


async def test_the_response_to_a_new_volume_equals_a_later_read(uc: Unity) -> None:
    await uc.schema()
    made = done(await uc.post("/volumes", external_volume("Invoices", "file:/lakes/v/") | {"comment": "scans"}))
    assert made == {
        "catalog_name": "lake",
        "schema_name": "s",
        "name": "Invoices",
        "comment": "scans",
        "volume_id": made["volume_id"],
        "volume_type": "EXTERNAL",
        "storage_location": "file:///lakes/v",
        "full_name": "lake.s.Invoices",
        **STAMPS,
    }
    assert done(await uc.get("/volumes/lake.s.invoices")) == made
    assert done(await uc.get("/volumes", **IN_S)) == {"volumes": [made], "next_page_token": None}


async def test_a_managed_volume_has_its_own_folder(house: House, uc: Unity) -> None:
    await uc.schema()
    made = done(await uc.post("/volumes", {"name": "v", **IN_S, "volume_type": "MANAGED"}))
    assert made["storage_location"] == f"{house.ports.roots.managed}volumes/{made['volume_id']}"
    own = f"{house.ports.roots.managed}roots"
    done(await uc.post("/schemas", {"name": "rooted", "catalog_name": "lake", "storage_root": own}))
    schema = done(await uc.get("/schemas/lake.rooted"))
    inside = {"catalog_name": "lake", "schema_name": "rooted"}
    rooted = done(await uc.post("/volumes", {"name": "v", **inside, "volume_type": "MANAGED"}))
    assert rooted["storage_location"] == f"{schema['storage_location']}/volumes/{rooted['volume_id']}"


async def test_nothing_is_created_below_a_storage_root_that_is_no_longer_allowed(tmp_path: Path) -> None:
    """The server could never delete the files there."""
    (outside := tmp_path / "outside").mkdir()
    async with open_house(tmp_path / "data", external_folder=outside) as house:
        uc = Unity(house.console.http)
        done(await uc.post("/catalogs", {"name": "lake", "storage_root": str(outside)}))
        done(await uc.post("/schemas", {"name": "s", "catalog_name": "lake"}))
    async with open_house(tmp_path / "data") as house:
        uc = Unity(house.console.http)
        invalid(await uc.post("/volumes", {"name": "v", **IN_S, "volume_type": "MANAGED"}))
        invalid(await uc.post("/models", {"name": "m", **IN_S}))


async def test_the_location_must_match_the_type_of_a_volume(uc: Unity) -> None:
    await uc.schema()
    for wrong in (
        {"volume_type": "EXTERNAL"},
        {"volume_type": "EXTERNAL", "storage_location": ""},
        {"volume_type": "MANAGED", "storage_location": "/lakes/v"},
        {"volume_type": "EXTERNAL", "storage_location": "/lakes/../v"},
    ):
        assert "storage_location" in invalid(await uc.post("/volumes", {"name": "v", **IN_S, **wrong}))
    assert "volume_type" in invalid(await uc.post("/volumes", {"name": "v", **IN_S, "volume_type": "PAPER"}))


async def test_a_volume_can_be_described_renamed_and_deleted(uc: Unity) -> None:
    await uc.schema()
    made = done(await uc.post("/volumes", external_volume("v", "/lakes/v")))
    done(await uc.post("/volumes", external_volume("w", "/lakes/w")))
    after = done(await uc.patch("/volumes/lake.s.v", {"comment": "c", "new_name": "x"}))
    assert after == made | {"comment": "c", "name": "x", "full_name": "lake.s.x"}
    refused(await uc.patch("/volumes/lake.s.x", {"new_name": "W"}), 400, "RESOURCE_ALREADY_EXISTS")
    refused(await uc.post("/volumes", external_volume("X", "/lakes/y")), 400, "RESOURCE_ALREADY_EXISTS")
    assert done(await uc.delete("/volumes/lake.s.x")) == {}
    refused(await uc.get("/volumes/lake.s.x"), 404, "NOT_FOUND")
    assert await uc.names("volumes", **IN_S) == ["w"]


async def test_only_the_files_of_managed_volumes_are_deleted(house: House, uc: Unity, tmp_path: Path) -> None:
    await uc.schema()
    external = tmp_path / "brought"
    done(await uc.post("/volumes", external_volume("brought", str(external))))
    managed = folder_of(done(await uc.post("/volumes", {"name": "given", **IN_S, "volume_type": "MANAGED"})))
    for folder in (external, managed):
        folder.mkdir(parents=True)
        (folder / "file").write_text("kept?")
    done(await uc.delete("/schemas/lake.s", force="true"))
    assert (managed / "file").exists()
    house.clock.advance(8 * DAY_MS)
    await purge_due(house.ports)
    assert not managed.exists()
    assert (external / "file").read_text() == "kept?"


FUNCTION: dict[str, Any] = {
    "name": "Plus",
    **IN_S,
    "input_params": {
        "parameters": [
            {
                "name": "x",
                "type_text": "int",
                "type_json": '{"name":"x"}',
                "type_name": "INT",
                "position": 0,
                "parameter_default": "1",
            }
        ]
    },
    "data_type": "INT",
    "full_data_type": "INT",
    "return_params": {"parameters": []},
    "routine_body": "EXTERNAL",
    "routine_definition": 'return x + 1  # ünïcode, "quotes" and\nlines',
    "routine_dependencies": {"dependencies": [{"table": {"table_full_name": "lake.s.t"}, "function": None}]},
    "parameter_style": "S",
    "is_deterministic": True,
    "sql_data_access": "NO_SQL",
    "is_null_call": False,
    "security_type": "DEFINER",
    "specific_name": "plus",
    "comment": "one more",
    "properties": '{"a":"b"}',
    "external_language": "python",
}


async def test_a_function_is_stored_as_written(uc: Unity) -> None:
    await uc.schema()
    made = done(await uc.post("/functions", {"function_info": FUNCTION}))
    parameter = FUNCTION["input_params"]["parameters"][0] | {
        "type_precision": None,
        "type_scale": None,
        "type_interval_type": None,
        "parameter_mode": None,
        "parameter_type": None,
        "comment": None,
    }
    assert made == FUNCTION | {
        "input_params": {"parameters": [parameter]},
        "full_name": "lake.s.Plus",
        "function_id": made["function_id"],
        **STAMPS,
    }
    assert done(await uc.get("/functions/lake.s.plus")) == made
    assert done(await uc.get("/functions", **IN_S)) == {"functions": [made], "next_page_token": None}
    refused(await uc.post("/functions", {"function_info": FUNCTION}), 400, "RESOURCE_ALREADY_EXISTS")
    assert done(await uc.delete("/functions/lake.s.plus")) == {}
    refused(await uc.get("/functions/lake.s.plus"), 404, "NOT_FOUND")


async def test_the_error_for_an_incomplete_function_names_the_field(uc: Unity) -> None:
    await uc.schema()
    required = [name for name in FUNCTION if name not in {"comment", "properties", "external_language"}]
    for field in required:
        if field in {"return_params", "routine_dependencies"}:
            continue
        less = {name: value for name, value in FUNCTION.items() if name != field}
        assert f"function_info.{field}" in invalid(await uc.post("/functions", {"function_info": less}))
    assert "function_info" in invalid(await uc.post("/functions", FUNCTION))
    unnamed = FUNCTION | {"input_params": {"parameters": [FUNCTION["input_params"]["parameters"][0] | {"name": ""}]}}
    assert "parameters[0].name" in invalid(await uc.post("/functions", {"function_info": unnamed}))


async def test_tables_volumes_functions_and_models_do_not_share_names(uc: Unity) -> None:
    await uc.schema()
    await uc.external("plus")
    done(await uc.post("/volumes", external_volume("plus", "/lakes/other")))
    done(await uc.post("/functions", {"function_info": FUNCTION}))
    done(await uc.post("/models", {"name": "plus", **IN_S}))
