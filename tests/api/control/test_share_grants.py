"""Grants on shares: who may decide how much of a table recipients read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.control.guarded import UNITY, Guarded
from tests.api.control.test_grants import ICEBERG, SCHEMA, furnish, grant, use

SHARE = f"{UNITY}/shares/fish"
REGION = {"id": 2, "name": "region", "required": False, "type": "string"}
BY_REGION = {"spec-id": 0, "fields": [{"name": "region", "transform": "identity", "source-id": 2, "field-id": 1000}]}


def partition(region: str) -> dict[str, Any]:
    return {"values": [{"name": "region", "op": "EQUAL", "value": region}]}


FILTERED: dict[str, Any] = {
    "partitions": [partition("eu")],
    "start_version": 5,
    "history_data_sharing_status": "DISABLED",
}


def update(name: str, action: str = "UPDATE", **given: Any) -> dict[str, Any]:
    return {"updates": [{"action": action, "data_object": {"name": name, **given}}]}


@pytest.fixture
async def manager(guarded: Guarded) -> str:
    """The token of `ann`, who manages a share with a part of a table, and may not read the table."""
    await furnish(guarded)
    fields = {**SCHEMA, "fields": [*SCHEMA["fields"], REGION]}
    await guarded.run("POST", ICEBERG, {"name": "catch", "schema": fields, "partition-spec": BY_REGION})
    await guarded.run("POST", f"{UNITY}/shares", {"name": "fish"})
    await guarded.run("PATCH", SHARE, update("lake.sea.catch", "ADD", **FILTERED))
    ann = await guarded.user("ann")
    await use(guarded, "ann")
    await grant(guarded, "share", "fish", "ann", "MANAGE")
    return ann


@pytest.mark.parametrize(
    "more",
    [
        {"partitions": []},
        {"partitions": [partition("us")]},
        {"start_version": 0},
        {"history_data_sharing_status": "ENABLED"},
        {"cdf_enabled": True},
    ],
)
async def test_more_of_a_table_is_shared_only_by_those_who_may_read_it(
    guarded: Guarded, manager: str, more: dict[str, Any]
) -> None:
    await guarded.run("PATCH", f"{UNITY}/tables/lake.sea.catch", {"new_name": "haul"})
    for name in ("lake.sea.haul", "lake.sea.catch"):
        answer = await guarded.ask(manager, "PATCH", SHARE, update(name, **more))
        assert (answer.status_code, "SELECT on table 'haul'" in answer.text) == (403, True), answer.text
    await grant(guarded, "table", "lake.sea.haul", "ann", "SELECT")
    assert await guarded.status(manager, "PATCH", SHARE, update("lake.sea.haul", **more)) == 200


async def test_more_of_a_dropped_table_is_shared_only_by_those_who_may_read_it(guarded: Guarded, manager: str) -> None:
    """It may be undropped."""
    await guarded.run("DELETE", f"{UNITY}/tables/lake.sea.catch")
    assert await guarded.status(manager, "PATCH", SHARE, update("lake.sea.catch", partitions=[])) == 403
    assert await guarded.status(manager, "PATCH", SHARE, update("lake.sea.catch", "REMOVE")) == 200


async def test_what_a_share_has_is_described_and_removed_without_reading_it(guarded: Guarded, manager: str) -> None:
    same = update("lake.sea.catch", **FILTERED, comment="c", shared_as="sea.haul")
    assert await guarded.status(manager, "PATCH", SHARE, same) == 200
    assert await guarded.status(manager, "PATCH", SHARE, update("lake.sea.catch", "REMOVE")) == 200


async def test_the_history_of_a_schema_is_shared_by_those_who_may_read_all_its_tables(
    guarded: Guarded, manager: str
) -> None:
    await guarded.run("PATCH", SHARE, update("lake.sea.catch", "REMOVE"))
    await guarded.run("PATCH", SHARE, update("lake.sea", "ADD", data_object_type="SCHEMA"))
    await grant(guarded, "table", "lake.sea.catch", "ann", "SELECT")
    whole = update("lake.sea", data_object_type="SCHEMA", history_data_sharing_status="ENABLED")
    answer = await guarded.ask(manager, "PATCH", SHARE, whole)
    assert (answer.status_code, "SELECT on schema 'sea'" in answer.text) == (403, True), answer.text
    await grant(guarded, "schema", "lake.sea", "ann", "SELECT")
    assert await guarded.status(manager, "PATCH", SHARE, whole) == 200
