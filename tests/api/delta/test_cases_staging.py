"""Section A: staging tables."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import httpx
import pytest

from moorage.testing.builders import HOUR_MS
from moorage.usecases.upkeep.purge import purge_due
from tests.api.delta.cases import INVALID, refuses, row
from tests.api.delta.delta_client import CLASSIC, TABLES, UNITY, V1, DeltaClient, error_name, ok
from tests.api.house import House

STAGING = f"{UNITY}/staging-tables"
V1_STAGING = f"{V1}/catalogs/lake/schemas/sea/staging-tables"


async def stage_both(client: DeltaClient, name: Any, **parent: str) -> list[httpx.Response]:
    """Send the same request to the classic API and to /delta/v1."""
    where = {**CLASSIC, **parent}
    path = f"{V1}/catalogs/{where['catalog_name']}/schemas/{where['schema_name']}/staging-tables"
    body = {} if name is ... else {"name": name}
    return [await client.http.post(STAGING, json={**where, **body}), await client.http.post(path, json=body)]


async def test_case_1_a_staging_table_has_an_id_and_a_location_derived_from_it(spec: DeltaClient) -> None:
    staged = await spec.stage("orders")
    assert str(UUID(staged.id)) == staged.id
    assert staged.location.endswith(f"/tables/{staged.id}")
    assert "orders" not in staged.location


async def test_case_2_a_name_can_be_staged_twice(spec: DeltaClient) -> None:
    first, second = await spec.stage(), await spec.stage()
    assert first.id != second.id
    assert first.location != second.location


async def test_case_3_the_name_of_an_existing_table_cannot_be_staged(spec: DeltaClient) -> None:
    await spec.make("t")
    classic, v1 = await stage_both(spec, "T")
    refuses(classic, 400, "TABLE_ALREADY_EXISTS")
    refuses(v1, 409, "AlreadyExistsException")


@pytest.mark.parametrize(
    ("parent", "names"),
    [
        row(4, "catalog", {"catalog_name": "x"}, ("CATALOG_DOES_NOT_EXIST", "NoSuchCatalogException")),
        row(5, "schema", {"schema_name": "x"}, ("SCHEMA_DOES_NOT_EXIST", "NoSuchSchemaException")),
    ],
)
async def test_a_missing_parent_is_named(spec: DeltaClient, parent: dict[str, str], names: tuple[str, ...]) -> None:
    for answer, name in zip(await stage_both(spec, "t", **parent), names, strict=True):
        refuses(answer, 404, name)


@pytest.mark.parametrize(
    "name",
    [
        *[row(6, what, name) for what, name in (("missing", ...), ("null", None), ("empty", ""), ("blank", "  "))],
        *[row(7, repr(name), name) for name in ("a.b", "a b", "a/b", "a\nb", "a\x7fb")],
    ],
)
async def test_an_invalid_name_is_refused(spec: DeltaClient, name: Any) -> None:
    for answer in await stage_both(spec, name):
        refuses(answer, 400, *INVALID)


async def test_case_8_a_schema_without_a_storage_root_uses_the_servers(spec: DeltaClient, house: House) -> None:
    """Unity refuses this. Moorage always has a root."""
    staged = await spec.stage()
    assert staged.location.startswith(house.ports.roots.managed)


async def test_case_10_the_creator_of_a_staging_table_gets_credentials(spec: DeltaClient) -> None:
    staged = await spec.stage()
    body = {"table_id": staged.id, "operation": "READ_WRITE"}
    assert ok(await spec.http.post(f"{UNITY}/temporary-table-credentials", json=body))["url"] == staged.location
    [credential] = ok(await spec.http.get(f"{V1}/staging-tables/{staged.id}/credentials"))["storage-credentials"]
    assert credential == {
        "prefix": staged.location,
        "operation": "READ_WRITE",
        "config": {},
        "expiration-time-ms": None,
    }


async def test_case_11_another_caller_gets_no_credentials_for_a_staging_table(spec: DeltaClient) -> None:
    staged = await spec.stage()
    other = {"x-caller": "bob"}
    body = {"table_id": staged.id, "operation": "READ_WRITE"}
    refuses(await spec.http.post(f"{UNITY}/temporary-table-credentials", json=body, headers=other), 403)
    refuses(await spec.http.get(f"{V1}/staging-tables/{staged.id}/credentials", headers=other), 403)


async def test_case_12_and_13_a_created_or_unknown_table_is_not_a_staging_table(spec: DeltaClient) -> None:
    finished = await spec.make()
    for id in (finished.id, "00000000-0000-4000-8000-000000000000", "x"):
        refuses(await spec.http.get(f"{V1}/staging-tables/{id}/credentials"), 404, "NoSuchTableException")


async def test_case_14_the_delta_v1_response_states_the_terms(spec: DeltaClient) -> None:
    answer = ok(await spec.http.post(V1_STAGING, json={"name": "t"}))
    required = answer["required-protocol"]
    assert (required["min-reader-version"], required["min-writer-version"]) == (3, 7)
    readers = {"catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"}
    assert set(required["reader-features"]) == readers
    assert set(required["writer-features"]) == readers | {"inCommitTimestamp"}
    assert answer["required-properties"]["io.unitycatalog.tableId"] == answer["table-id"]
    assert answer["suggested-properties"]["delta.columnMapping.maxColumnId"] is None
    assert answer["suggested-properties"]["delta.enableExpiredLogCleanup"] == "false"
    assert set(answer["suggested-protocol"]) == {"reader-features", "writer-features"}
    assert answer["storage-credentials"][0]["operation"] == "READ_WRITE"
    assert answer["table-type"] == "MANAGED"


async def test_case_15_an_unused_staging_table_expires_with_its_files(spec: DeltaClient, house: House) -> None:
    staged = await spec.stage()
    staged.write_first()
    house.clock.advance(23 * HOUR_MS)
    await purge_due(house.ports)
    assert staged.folder.exists()
    house.clock.advance(2 * HOUR_MS)
    await purge_due(house.ports)
    assert not staged.folder.exists()
    refuses(await spec.create(staged), 404, "TABLE_DOES_NOT_EXIST")


async def test_a_staging_table_is_not_a_table_in_any_api(spec: DeltaClient, house: House) -> None:
    staged = await spec.stage()
    staged.write_first()
    http, commit = spec.http, staged.stage(1)
    answers = {
        "get": await spec.get_table(),
        "patch": await http.patch(f"{UNITY}/tables/lake.sea.t", json={"comment": "c"}),
        "delete": await http.delete(f"{UNITY}/tables/lake.sea.t"),
        "load": await spec.load(),
        "head": await http.head(f"{TABLES}/t"),
        "drop": await http.delete(f"{TABLES}/t"),
        "rename": await http.post(f"{TABLES}/t/rename", json={"new-name": "u"}),
        "vend": await http.get(f"{TABLES}/t/credentials", params={"operation": "READ"}),
        "commits": await spec.get_commits(staged),
        "commit": await spec.commit(staged, commit),
        "preview": await DeltaClient(http, "preview").commit(staged, commit),
        "update": await DeltaClient(http, "v1").commit(staged, commit),
        "metrics": await http.post(f"{UNITY}/delta/metrics", json={"table_id": staged.id}),
        "v1 metrics": await http.post(f"{TABLES}/t/metrics", json={"table-id": staged.id}),
        "console": await house.console.get("/catalogs/lake/namespaces/sea/tables/t"),
        "by its id": await spec.get_table(staged.id),
    }
    assert {what: answer.status_code for what, answer in answers.items()} == dict.fromkeys(answers, 404)
    assert {error_name(answer) for what, answer in answers.items() if what in ("load", "update")} == {
        "NoSuchTableException"
    }
    assert ok(await http.get(f"{UNITY}/tables", params=CLASSIC))["tables"] == []
    assert await house.console.names("/catalogs/lake/namespaces/sea/tables") == []
