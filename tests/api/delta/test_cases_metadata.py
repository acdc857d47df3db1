"""Sections H and I: the metadata that a commit states about the table, and its Iceberg metadata."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.delta.cases import INVALID, refuses, row
from tests.api.delta.delta_client import UNITY, DeltaClient, Staged, ok
from tests.api.house import House

ID = "io.unitycatalog.tableId"
TWO = (*write.COLUMNS, {"name": "n", "type": "string", "nullable": True, "metadata": {}})


@pytest.fixture(params=["spec", "preview"])
def client(request: pytest.FixtureRequest, spec: DeltaClient) -> DeltaClient:
    """The two API families that describe a table in one block."""
    return DeltaClient(spec.http, request.param)


def nested(client: DeltaClient, metadata: dict[str, Any]) -> dict[str, Any]:
    """The preview API nests properties and columns, the specification does not."""
    if client.family == "spec":
        return metadata
    wrapped = dict(metadata)
    if "properties" in wrapped:
        wrapped["properties"] = {"properties": wrapped["properties"]}
    if "schema" in wrapped:
        wrapped["schema"] = {"columns": wrapped["schema"]}
    return wrapped


async def changing(client: DeltaClient, table: Staged, version: int = 1, **stated: Any) -> Any:
    """Commit a file that adds a column, a comment and a property, with stated metadata."""
    info = write.metadata(write.configuration(table.id, k="v"), TWO, description="c")
    metadata = nested(client, stated)
    return await client.commit(table, table.stage(version, info, write.add()), metadata=metadata)


@pytest.mark.parametrize(
    "stated",
    [
        row(107, "nothing", {}),
        row(107, "only nulls", {"description": None, "properties": None}),
        row(108, "no id", {"properties": {"k": "v"}}),
        row(109, "another id", {"properties": {ID: "00000000-0000-4000-8000-000000000000"}}),
        row(110, "another property", {"properties": {"k": "w", ID: "{id}"}}),
        row(110, "a property that is not set", {"properties": {"delta.appendOnly": "true", ID: "{id}"}}),
        row(111, "another comment", {"description": "d"}),
        row(112, "other columns", {"schema": [{"name": "id", "type": "string"}]}),
        row(112, "fewer columns", {"schema": [{"name": "id", "type": "long"}]}),
        row(114, "another format", {"provider": "csv"}),
        row(114, "another format, nested", {"format": {"provider": "csv"}}),
        row(114, "other partitions", {"partition_columns": ["id"]}),
        row(114, "another id of the metadata", {"id": "x"}),
    ],
)
async def test_stated_metadata_must_agree_with_the_file(
    client: DeltaClient, house: House, stated: dict[str, Any]
) -> None:
    table = await client.make()
    before, seq = ok(await client.get_table()), (await house.ledger.position()).seq
    properties = {key: value.format(id=table.id) for key, value in (stated.get("properties") or {}).items()}
    refuses(
        await changing(client, table, **(stated | ({"properties": properties} if properties else {}))), 400, *INVALID
    )
    assert ok(await client.get_table()) == before
    assert (await house.ledger.position()).seq == seq


async def test_case_110_to_112_and_114_the_table_is_described_by_its_file(client: DeltaClient) -> None:
    table = await client.make()
    stated: dict[str, Any] = {
        "id": write.METADATA_ID,
        "description": "c",
        "provider": "parquet",
        "schema": [{"name": "id", "type": "long", "nullable": True}, {"name": "n", "type_text": "string"}],
        "partition_columns": [],
        "properties": {"k": "v", ID: table.id},
        "created_time": 1,
    }
    ok(await changing(client, table, **stated))
    shown = ok(await client.get_table())
    assert shown["comment"] == "c"
    assert [column["name"] for column in shown["columns"]] == ["id", "n"]
    assert (shown["properties"]["k"], shown["properties"]["delta.lastUpdateVersion"]) == ("v", "1")


async def test_case_111_metadata_may_state_a_single_field(client: DeltaClient) -> None:
    table = await client.make()
    ok(await changing(client, table, description="c"))
    assert ok(await client.get_table())["comment"] == "c"


async def test_a_comment_set_through_the_catalog_stays_until_a_commit_changes_the_description(
    client: DeltaClient,
) -> None:
    table = await client.make(described={"description": "of the log"})

    async def comment_after(version: int, k: str, **described: Any) -> Any:
        info = write.metadata(write.configuration(table.id, k=k), **described)
        ok(await client.commit(table, table.stage(version, info)))
        return ok(await client.get_table())["comment"]

    ok(await client.http.patch(f"{UNITY}/tables/lake.sea.t", json={"comment": "of the catalog"}))
    assert await comment_after(1, "v", description="of the log") == "of the catalog"
    assert await comment_after(2, "v", description="another") == "another"
    assert await comment_after(3, "v") is None


async def test_the_file_describes_the_table_without_stated_metadata(client: DeltaClient) -> None:
    table = await client.make()
    info = write.metadata(write.configuration(table.id), TWO)
    ok(await client.commit(table, table.stage(1, info)))
    assert len(ok(await client.get_table())["columns"]) == 2


async def test_case_113_the_contract_holds_after_every_commit(client: DeltaClient) -> None:
    table = await client.make()
    lesser = write.protocol(tuple(each for each in write.ALL_FEATURES if each != "catalogManaged"))
    refuses(await client.commit(table, table.stage(1, lesser)), 400, *INVALID, "catalogManaged")
    off = write.metadata(write.configuration(table.id, **{"delta.enableInCommitTimestamps": "false"}))
    refuses(await client.commit(table, table.stage(1, off)), 400, *INVALID, "enableInCommitTimestamps")


async def test_case_115_a_conflicting_commit_does_not_change_the_description(client: DeltaClient) -> None:
    table = await client.make()
    ok(await client.commit(table, table.stage(1)))
    refuses(await changing(client, table, description="c"), 409)
    assert ok(await client.get_table())["comment"] is None


async def test_case_116_only_a_changed_description_changes_updated_at(client: DeltaClient, house: House) -> None:
    table = await client.make()
    before = ok(await client.get_table())
    house.clock.advance(1000)
    client.http.headers["x-caller"] = "bob"
    ok(await client.commit(table, table.stage(1)))
    assert ok(await client.get_table()) == before
    ok(await changing(client, table, 2, description="c"))
    after = ok(await client.get_table())
    assert (after["updated_at"], after["updated_by"]) == (before["updated_at"] + 1000, "bob")
    assert after["created_by"] == "local"


# --- UniForm -------------------------------------------------------------------------------------

ON = {"delta.universalFormat.enabledFormats": "iceberg"}
BLOCK: dict[str, Any] = {
    "metadata_location": "{location}/metadata/00001.json",
    "converted_delta_version": 1,
    "converted_delta_timestamp": "2026-02-09T17:00:00.000000Z",
}


def block_of(table: Staged, **changes: Any) -> dict[str, Any]:
    given = {**BLOCK, **changes}
    given["metadata_location"] = str(given["metadata_location"] or "").format(location=table.location) or None
    return {"iceberg": {key: value for key, value in given.items() if value is not None}}


async def convertible(client: DeltaClient) -> Staged:
    staged = await client.stage()
    staged.write_first(properties=ON)
    ok(await client.create(staged, properties=ON))
    return staged


@pytest.mark.parametrize(
    "changes",
    [
        *[row(118, f"no {key}", {key: None}) for key in BLOCK],
        row(118, "no time", {"converted_delta_timestamp": "yesterday"}),
        row(119, "another version", {"converted_delta_version": 2}),
        row(120, "outside", {"metadata_location": "file:///elsewhere/m.json"}),
        row(120, "climbing", {"metadata_location": "{location}/../m.json"}),
        row(106, "too long", {"metadata_location": "{location}/" + "m" * 65535}),
        row(119, "a base ahead", {"base_converted_delta_version": 1}),
    ],
)
async def test_an_invalid_iceberg_block_is_refused(client: DeltaClient, changes: dict[str, Any]) -> None:
    table = await convertible(client)
    refuses(await client.commit(table, table.stage(1), uniform=block_of(table, **changes)), 400, *INVALID, "uniform")
    assert await client.announced(table) == ([], 0)


async def test_case_117_a_block_without_iceberg_is_refused(client: DeltaClient) -> None:
    table = await convertible(client)
    refuses(await client.commit(table, table.stage(1), uniform={}), 400, *INVALID, "iceberg")


async def test_case_121_and_122_a_commit_without_a_block_is_accepted(client: DeltaClient) -> None:
    """Unity refuses it. Here the pipeline converts the versions that the client did not convert."""
    table = await convertible(client)
    ok(await client.commit(table, table.stage(1)))
    plain = await client.make("plain")
    on = write.metadata(write.configuration(plain.id, **ON))
    ok(await client.commit(plain, plain.stage(1, on)))


async def test_case_123_and_128_delta_v1_returns_the_conversion_time_in_milliseconds(
    client: DeltaClient, v1: DeltaClient
) -> None:
    table = await client.make()
    on = write.metadata(write.configuration(table.id, **ON))
    block = block_of(table)
    ok(await client.commit(table, table.stage(1, on), uniform=block))
    shown = ok(await v1.load())["uniform"]["iceberg"]
    sent = {key.replace("_", "-"): value for key, value in block["iceberg"].items()}
    assert len(sent["converted-delta-timestamp"]) == 27
    assert shown == {**sent, "converted-delta-timestamp": 1770656400000}


@pytest.mark.parametrize(
    "time", [row(128, text, text) for text in ("2026-02-09T17:00:00Z", "2026-02-09T17:00:00.123456789Z")]
)
async def test_other_precisions_of_the_conversion_time_are_accepted(client: DeltaClient, time: str) -> None:
    table = await convertible(client)
    ok(await client.commit(table, table.stage(1), uniform=block_of(table, converted_delta_timestamp=time)))


async def test_case_124_to_126_a_block_needs_the_property_after_the_commit(client: DeltaClient) -> None:
    table = await convertible(client)
    off = write.metadata(write.configuration(table.id))
    refuses(await client.commit(table, table.stage(1, off), uniform=block_of(table)), 400, *INVALID)
    ok(await client.commit(table, table.stage(1, off)))
    late = block_of(table, converted_delta_version=2)
    refuses(await client.commit(table, table.stage(2), uniform=late), 400, *INVALID)


async def test_the_iceberg_block_is_removed_when_the_property_is_removed(client: DeltaClient, v1: DeltaClient) -> None:
    table = await convertible(client)
    ok(await client.commit(table, table.stage(1), uniform=block_of(table)))
    ok(await client.commit(table, table.stage(2)))
    assert ok(await v1.load())["uniform"]["iceberg"]["converted-delta-version"] == 1
    ok(await client.commit(table, table.stage(3, write.metadata(write.configuration(table.id)))))
    assert "uniform" not in ok(await v1.load())
    ok(await client.commit(table, table.stage(4, write.metadata(write.configuration(table.id, **ON)))))
    assert "uniform" not in ok(await v1.load())


async def test_case_127_iceberg_may_be_one_of_several_formats(client: DeltaClient) -> None:
    table = await client.make()
    both = {"delta.universalFormat.enabledFormats": "iceberg,hudi"}
    on = write.metadata(write.configuration(table.id, **both))
    ok(await client.commit(table, table.stage(1, on), uniform=block_of(table)))


async def test_delta_v1_sends_the_block_with_the_commit(v1: DeltaClient) -> None:
    staged = await v1.stage()
    staged.write_first(properties=ON)
    ok(await v1.create(staged, properties=ON))
    iceberg = {
        "metadata-location": f"{staged.location}/metadata/1.json",
        "converted-delta-version": 1,
        "converted-delta-timestamp": START_MS,
    }
    after = ok(await v1.commit(staged, staged.stage(1), uniform={"iceberg": iceberg}))
    assert after["uniform"] == {"iceberg": iceberg}
