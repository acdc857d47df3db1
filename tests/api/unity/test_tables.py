"""External tables and views through the Unity API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moorage.testing import builders as make
from moorage.testing.builders import START_MS
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import House, done
from tests.api.unity.unity import IN_S, Unity, external, invalid, refused

DAY_MS = 24 * 60 * 60 * 1000

COLUMNS = [
    {
        "name": "id",
        "type_text": "bigint",
        "type_json": '{"name":"id","type":"long","nullable":false,"metadata":{}}',
        "type_name": "LONG",
        "position": 0,
        "nullable": False,
    },
    {"name": "v", "type_text": "DECIMAL(10, 2)", "position": 1, "comment": "val", "partition_index": 0},
]


def view(name: str, *tables: str, **given: Any) -> dict[str, Any]:
    depends_on = {"dependencies": [{"table": {"table_full_name": table}} for table in tables]}
    text = {"view_definition": "select 1", "view_dependencies": depends_on}
    return {"name": name, **IN_S, "table_type": "VIEW", **text, **given}


async def test_an_external_table_has_the_fields_that_spark_expects(uc: Unity) -> None:
    """Request and response of `CREATE TABLE … USING DELTA LOCATION …`. Owner and similar fields are not null."""
    await uc.schema()
    made = await uc.external("ext", "file:/WAREHOUSE/ext_s1", properties={})
    assert made == {
        "name": "ext",
        "catalog_name": "lake",
        "schema_name": "s",
        "table_type": "EXTERNAL",
        "data_source_format": "DELTA",
        "table_format": "delta",
        "columns": [],
        "storage_location": "file:///WAREHOUSE/ext_s1",
        "comment": None,
        "properties": {},
        "owner": "local",
        "created_at": START_MS,
        "created_by": "local",
        "updated_at": START_MS,
        "updated_by": "local",
        "table_id": made["table_id"],
        "view_definition": None,
        "view_dependencies": None,
    }
    query = {"read_streaming_table_as_managed": "true", "read_materialized_view_as_managed": "true"}
    assert done(await uc.get("/tables/lake.s.ext", **query)) == made
    listed = done(await uc.get("/tables", **IN_S, max_results=0))
    assert listed == {"tables": [made], "next_page_token": None}


async def test_number_fields_of_columns_are_never_null(uc: Unity) -> None:
    await uc.schema()
    made = await uc.external("t", columns=COLUMNS)
    assert made["columns"] == [
        {
            **COLUMNS[0],
            "type_precision": 0,
            "type_scale": 0,
            "type_interval_type": None,
            "comment": None,
            "partition_index": None,
        },
        {
            **COLUMNS[1],
            "type_text": "decimal(10, 2)",
            "type_json": '{"name":"v","type":"decimal(10,2)","nullable":true,"metadata":{"comment":"val"}}',
            "type_name": "DECIMAL",
            "type_precision": 10,
            "type_scale": 2,
            "type_interval_type": None,
            "nullable": True,
        },
    ]
    assert done(await uc.get("/tables/lake.s.t")) == made


@pytest.mark.parametrize("source", ["DELTA", "ICEBERG", "PARQUET", "CSV", "JSON", "AVRO", "ORC", "TEXT"])
async def test_every_format_can_be_registered(uc: Unity, source: str) -> None:
    await uc.schema()
    made = await uc.external("t", data_source_format=source, columns=None)
    assert (made["data_source_format"], made["columns"]) == (source, [])


async def test_the_error_for_an_invalid_external_table_names_the_field(uc: Unity) -> None:
    await uc.schema()
    for field, wrong in (
        ("storage_location", None),
        ("storage_location", ""),
        ("data_source_format", None),
        ("data_source_format", "PAPER"),
        ("table_type", "STREAMING_TABLE"),
        ("table_type", "MATERIALIZED_VIEW"),
        ("table_type", None),
        ("columns", "id"),
        ("columns[0].name", [{"type_text": "int"}]),
        ("columns[0].type_text", [{"name": "a"}]),
        ("columns[1].name", [{"name": "a", "type_text": "int"}, {"name": "A", "type_text": "int"}]),
        ("columns[0].type_name", [{"name": "a", "type_text": "int", "type_name": "STRING"}]),
        ("properties", {"a": 1}),
        ("retention_days", 0),
        ("schema_name", None),
    ):
        body = external("t") | {field.partition("[")[0]: wrong}
        assert field.partition("[")[0] in invalid(await uc.post("/tables", body)), field
    assert await uc.names("tables", **IN_S) == []


async def test_an_invalid_location_is_refused(house: House, uc: Unity) -> None:
    await uc.schema()
    managed = house.ports.roots.managed
    for wrong in (
        "lakes/t",
        "file://lakes/t",
        "file:lakes/t",
        "file:///",
        "s3://bucket",
        "s3://bucket/",
        "/lakes/../t",
        "/lakes/./t",
        "/lakes/%2E%2e/t",
        "/lakes%2ft",
        "/lakes\\t",
        "/lakes/t?x",
        "/lakes/\n",
        "/lakes/__unitystorage/tables/t",
        managed,
        f"{managed}t",
        managed.removesuffix("managed/"),
        f"file:{managed.removeprefix('file://')}x/y",
    ):
        assert "storage_location" in invalid(await uc.post("/tables", external("t", wrong))), wrong
    assert await uc.names("tables", **IN_S) == []


async def test_two_objects_never_have_overlapping_locations(uc: Unity) -> None:
    await uc.schema()
    await uc.external("t", "s3://bucket/a/b")
    done(await uc.post("/volumes", volume("v", "/lakes/v/w")))
    for taken in ("s3://bucket/a/b", "s3a://bucket/a/b/c", "S3://bucket/a/", "/lakes/v", "file:/lakes/v/w/x"):
        assert "overlaps" in invalid(await uc.post("/tables", external("u", taken)))
        assert "overlaps" in invalid(await uc.post("/volumes", volume("u", taken)))
    await uc.external("near", "s3://bucket/a/bb")


def volume(name: str, location: str) -> dict[str, Any]:
    return {"name": name, **IN_S, "volume_type": "EXTERNAL", "storage_location": location}


async def test_a_dropped_external_table_can_be_registered_again_immediately(house: House, uc: Unity) -> None:
    """The catalog does not own its files, so no purge needs to come first."""
    await uc.schema()
    first = await uc.external("t", "/lakes/t")
    assert done(await uc.delete("/tables/lake.s.t")) == {}
    second = await uc.external("t", "/lakes/t")
    assert second["table_id"] != first["table_id"]
    undrop = {"kind": "table", "id": first["table_id"], "new_name": "old"}
    assert (await house.console.post("/undrop", undrop)).status_code == 404


async def test_the_external_tables_of_a_dropped_schema_can_be_registered_again_immediately(
    house: House, uc: Unity
) -> None:
    await uc.schema()
    await uc.external("t", "/lakes/t")
    await uc.external("kept", "/lakes/kept")
    id = done(await uc.get("/schemas/lake.s"))["schema_id"]
    done(await uc.delete("/schemas/lake.s", force="true"))
    done(await uc.post("/schemas", {"name": "s", "catalog_name": "lake"}))
    await uc.external("t", "/lakes/t")
    done(await house.console.post("/undrop", {"kind": "namespace", "id": id, "new_name": "old"}))
    assert await uc.names("tables", catalog_name="lake", schema_name="old") == ["kept"]


async def test_the_location_of_a_restored_table_is_taken(house: House, uc: Unity) -> None:
    await uc.schema()
    await uc.external("t", "/lakes/t")
    id = done(await uc.get("/schemas/lake.s"))["schema_id"]
    done(await uc.delete("/schemas/lake.s", force="true"))
    done(await house.console.post("/undrop", {"kind": "namespace", "id": id}))
    assert "overlaps" in invalid(await uc.post("/tables", external("u", "/lakes/t")))


async def test_the_location_of_a_dropped_managed_volume_cannot_be_registered(uc: Unity) -> None:
    await uc.schema()
    made = done(await uc.post("/volumes", {"name": "v", **IN_S, "volume_type": "MANAGED"}))
    done(await uc.delete("/volumes/lake.s.v"))
    assert "storage_location" in invalid(await uc.post("/tables", external("t", made["storage_location"])))


async def test_a_view_is_a_table_with_a_definition(uc: Unity) -> None:
    await uc.schema()
    await uc.external("t")
    made = done(await uc.post("/tables", view("v", "lake.s.t", columns=COLUMNS[:1], properties={"a": "b"})))
    assert (made["table_type"], made["data_source_format"], made["storage_location"]) == ("VIEW", None, None)
    assert made["view_definition"] == "select 1"
    assert made["view_dependencies"] == {"dependencies": [{"table": {"table_full_name": "lake.s.t"}, "function": None}]}
    assert [column["name"] for column in made["columns"]] == ["id"]
    assert done(await uc.get("/tables/lake.s.V")) == made
    assert await uc.names("tables", **IN_S) == ["t", "v"]
    refused(await uc.post("/tables", external("v")), 409, "TABLE_ALREADY_EXISTS")
    assert done(await uc.patch("/tables/lake.s.v", {"comment": "c", "properties": {"x": "y"}}))["comment"] == "c"
    assert done(await uc.delete("/tables/lake.s.v")) == {}
    refused(await uc.get("/tables/lake.s.v"), 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")


async def test_case_29_a_metric_view_without_dependencies_is_refused(uc: Unity) -> None:
    await uc.schema()
    await uc.external("t")
    made = done(await uc.post("/tables", view("m", "lake.s.t", table_type="METRIC_VIEW")))
    assert done(await uc.get("/tables/lake.s.m")) == made
    assert made["table_type"] == "METRIC_VIEW"
    for without in (view("n", table_type="METRIC_VIEW"), view("n", table_type="METRIC_VIEW", view_dependencies=None)):
        assert "view_dependencies" in invalid(await uc.post("/tables", without))


async def test_case_29_the_dependencies_of_a_view_must_exist(uc: Unity) -> None:
    await uc.schema()
    missing = await uc.post("/tables", view("v", "lake.s.t"))
    refused(missing, 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")
    missing = await uc.post("/tables", view("v", "lake.x.t"))
    refused(missing, 404, "SCHEMA_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND")
    on_function = {"dependencies": [{"function": {"function_full_name": "lake.s.f"}}]}
    refused(await uc.post("/tables", view("v", view_dependencies=on_function)), 404, "NOT_FOUND")
    for wrong in ({}, {"table": {"table_full_name": "t"}}):
        given = view("v", view_dependencies={"dependencies": [wrong]})
        assert "view_dependencies.dependencies[0]" in invalid(await uc.post("/tables", given))
    assert "view_definition" in invalid(await uc.post("/tables", view("v", view_definition="")))
    assert "storage_location" in invalid(await uc.post("/tables", view("v", storage_location="/lakes/v")))
    done(await uc.post("/tables", view("v", view_dependencies=None)))
    done(await uc.post("/tables", view("over", "lake.s.v")))


async def test_retention_is_returned_only_if_it_is_set(uc: Unity) -> None:
    await uc.schema()
    made = await uc.external("t", retention_days=30)
    assert made["retention_days"] == 30
    assert done(await uc.patch("/tables/lake.s.t", {"retention_days": 7}))["retention_days"] == 7
    assert done(await uc.get("/tables/lake.s.t"))["retention_days"] == 7
    assert done(await uc.patch("/tables/lake.s.t", {"comment": "x"}))["retention_days"] == 7
    assert "retention_days" not in done(await uc.patch("/tables/lake.s.t", {"retention_days": None}))
    assert "retention_days" not in done(await uc.get("/tables/lake.s.t"))
    for wrong in (0, -1, 1.5, "7", 2**40):
        assert "retention_days" in invalid(await uc.patch("/tables/lake.s.t", {"retention_days": wrong}))


async def test_a_patched_table_keeps_its_id_and_location(house: House, uc: Unity) -> None:
    await uc.schema()
    made = await uc.external("t", comment="old", columns=COLUMNS)
    house.clock.advance(5)
    patch = {"comment": "new", "owner": "ann", "properties": {"a": "b"}, "new_name": "T2"}
    after = done(await uc.patch("/tables/lake.s.t", patch))
    new_name = patch.pop("new_name")
    assert after == made | patch | {"name": new_name, "updated_at": START_MS + 5}
    assert done(await uc.get("/tables/lake.s.t2")) == after
    await uc.external("other")
    refused(await uc.patch("/tables/lake.s.other", {"new_name": "t2"}), 400, "TABLE_ALREADY_EXISTS")


async def test_the_properties_of_a_managed_table_cannot_be_patched(house: House, uc: Unity) -> None:
    await uc.schema()
    schema = done(await uc.get("/schemas/lake.s"))["schema_id"]
    await make.add(house.ledger, make.table(schema, "m", path="file:///managed/m/"))
    assert done(await uc.get("/tables/lake.s.m"))["table_type"] == "MANAGED"
    assert "properties" in invalid(await uc.patch("/tables/lake.s.m", {"properties": {"a": "b"}}))
    assert done(await uc.patch("/tables/lake.s.m", {"comment": "ours"}))["comment"] == "ours"


async def test_lists_can_omit_columns_and_properties(uc: Unity) -> None:
    await uc.schema()
    made = await uc.external("t", columns=COLUMNS, properties={"a": "b"})
    for query, emptied in (
        ({"omit_columns": "true"}, {"columns": []}),
        ({"omit_properties": "true"}, {"properties": {}}),
        ({"omit_columns": "true", "omit_properties": "true"}, {"columns": [], "properties": {}}),
        ({"omit_columns": "false"}, {}),
    ):
        listed = done(await uc.get("/tables", **IN_S, **query))
        assert listed["tables"] == [made | emptied]


async def test_a_request_without_a_page_size_returns_the_whole_schema(house: House, uc: Unity) -> None:
    """DuckDB and Spark read only the first page."""
    await uc.schema()
    schema = done(await uc.get("/schemas/lake.s"))["schema_id"]
    names = [f"t{n:04}" for n in range(900)]
    await make.add(house.ledger, *[make.table(schema, name) for name in names])
    for query in ({}, {"max_results": "0"}):
        listed = done(await uc.get("/tables", **IN_S, **query))
        assert [table["name"] for table in listed["tables"]] == names
        assert listed["next_page_token"] is None
    assert len(await uc.names("tables", **IN_S, max_results=50)) == 50


async def test_a_renamed_schema_or_catalog_is_visible_in_its_tables(uc: Unity) -> None:
    """A table that was cached before the rename must not be returned after it."""
    await uc.schema()
    await uc.external("t")
    done(await uc.get("/tables/lake.s.t"))
    done(await uc.patch("/catalogs/lake", {"new_name": "sea"}))
    done(await uc.patch("/schemas/sea.s", {"new_name": "z"}))
    found = done(await uc.get("/tables/sea.z.t"))
    assert (found["catalog_name"], found["schema_name"]) == ("sea", "z")
    assert done(await uc.get("/tables", catalog_name="sea", schema_name="z"))["tables"] == [found]


async def test_one_of_twelve_concurrent_requests_registers_a_table(uc: Unity) -> None:
    await uc.schema()
    answers = await asyncio.gather(*[uc.post("/tables", external("t", f"/lakes/{n}")) for n in range(12)])
    losers = [answer for answer in answers if answer.status_code != 200]
    assert len(losers) == 11
    for answer in losers:
        refused(answer, 409, "TABLE_ALREADY_EXISTS")
    assert len(done(await uc.get("/tables", **IN_S))["tables"]) == 1


async def test_one_of_twelve_concurrent_requests_registers_a_location(uc: Unity) -> None:
    await uc.schema()
    answers = await asyncio.gather(*[uc.post("/tables", external(f"t{n}", "/lakes/one")) for n in range(12)])
    losers = [answer for answer in answers if answer.status_code != 200]
    assert len(losers) == 11
    assert all("overlaps" in invalid(answer) for answer in losers)


async def test_a_retried_request_returns_the_original_response(uc: Unity) -> None:
    await uc.schema()
    first = done(await uc.post("/tables", external("t"), key="k"))
    done(await uc.patch("/tables/lake.s.t", {"comment": "later"}))
    assert done(await uc.post("/tables", external("t"), key="k")) == first
    done(await uc.delete("/tables/lake.s.t", key="d"))
    assert done(await uc.delete("/tables/lake.s.t", key="d")) == {}


async def test_the_files_of_a_purged_external_table_stay(house: House, uc: Unity, tmp_path_factory: Any) -> None:
    await uc.schema()
    folder = tmp_path_factory.mktemp("brought")
    (folder / "part-0.parquet").write_bytes(b"rows")
    await uc.external("t", str(folder))
    done(await uc.delete("/tables/lake.s.t"))
    house.clock.advance(8 * DAY_MS)
    assert await purge_due(house.ports) == 1
    assert (folder / "part-0.parquet").read_bytes() == b"rows"


async def test_a_table_with_a_row_filter_or_a_column_mask_is_refused(uc: Unity) -> None:
    """It would be served to readers that do not apply them."""
    await uc.schema()
    row_filter = {"row_filter": {"function_name": "lake.s.only_eu", "input_column_names": ["region"]}}
    masked = {"columns": [COLUMNS[1], {**COLUMNS[0], "mask": {"function_name": "lake.s.hide"}}]}
    for policy, words in ((row_filter, "row filters are not enforced"), (masked, "with one on 'id' is refused")):
        for body in (external("t", "file:///w/t", **policy), view("v", **policy)):
            answer = await uc.post("/tables", body)
            assert (answer.status_code, answer.json()["error_code"]) == (400, "UNIMPLEMENTED")
            assert words in answer.json()["message"]
    await uc.external("t", "file:///w/t", row_filter=None, columns=[{**COLUMNS[0], "mask": None}])
    answer = await uc.patch("/tables/lake.s.t", row_filter)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "UNIMPLEMENTED")
    assert [
        table["name"] for table in done(await uc.get("/tables", catalog_name="lake", schema_name="s"))["tables"]
    ] == ["t"]
