"""Cases 9 and 47: the setting --managed-tables disables only what it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.delta.cases import INVALID, refuses
from tests.api.delta.delta_client import CLASSIC, TABLES, UNITY, V1, DeltaClient, Staged, ok
from tests.api.house import House, open_house

EXTERNAL = {**CLASSIC, "name": "e", "table_type": "EXTERNAL", "data_source_format": "DELTA", "columns": []}
V1_STAGING = f"{V1}/catalogs/lake/schemas/sea/staging-tables"


async def with_a_table(house: House) -> tuple[DeltaClient, Staged]:
    client = DeltaClient(house.console.http, "v1")
    await client.furnish()
    return client, await client.make()


async def staged_by_v1(client: DeltaClient, name: str) -> Staged:
    given = ok(await client.http.post(V1_STAGING, json={"name": name}))
    return Staged(name, given["table-id"], given["location"])


async def test_case_9_with_managed_tables_off_none_is_created_and_existing_ones_keep_working(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with open_house(data) as house:
        client, table = await with_a_table(house)
        waiting = await client.stage("late")
        waiting.write_first()
    async with open_house(data, managed_tables="off") as house:
        client = DeltaClient(house.console.http, "v1")
        refuses(await client.http.post(f"{UNITY}/staging-tables", json={"name": "n", **CLASSIC}), 400, *INVALID)
        refuses(await client.http.post(V1_STAGING, json={"name": "n"}), 400, *INVALID)
        for family in ("spec", "v1"):
            refuses(await DeltaClient(client.http, family).create(waiting), 400, *INVALID, "--managed-tables off")
        ok(await client.commit(table, table.stage(1)))
        ok(await client.http.post(f"{UNITY}/tables", json={**EXTERNAL, "storage_location": "/data/e"}))


@pytest.mark.parametrize("family", ["spec", "preview"])
async def test_case_47_a_server_with_delta_v1_only_refuses_the_older_families(tmp_path: Path, family: str) -> None:
    async with open_house(tmp_path / "data", managed_tables="delta-v1") as house:
        newer = DeltaClient(house.console.http, "v1")
        await newer.furnish()
        table = await staged_by_v1(newer, "t")
        table.write_first()
        ok(await newer.create(table))
        older = DeltaClient(newer.http, family)
        waiting = await staged_by_v1(newer, "late")
        waiting.write_first()
        report = {"table_id": table.id, "table_uri": table.location, "report": {"commit_report": {"commit_version": 0}}}
        preview = "/preview" if family == "preview" else ""
        credentials: dict[str, Any] = {"table_id": table.id, "operation": "READ"}
        for answer in (
            await older.http.post(f"{UNITY}/staging-tables", json={"name": "n", **CLASSIC}),
            await older.create(waiting),
            await older.commit(table, table.stage(1)),
            await older.commit(table, published=0),
            await older.get_commits(table),
            await older.http.post(f"{UNITY}/delta{preview}/metrics", json=report),
            await older.http.post(f"{UNITY}/temporary-table-credentials", json=credentials),
            await older.http.post(f"{UNITY}/temporary-table-credentials", json={**credentials, "table_id": waiting.id}),
        ):
            refuses(answer, 400, *INVALID, "/delta/v1")
        ok(await older.get_table())
        made = ok(await older.http.post(f"{UNITY}/tables", json={**EXTERNAL, "storage_location": "/data/e"}))
        credentials["table_id"] = made["table_id"]
        ok(await older.http.post(f"{UNITY}/temporary-table-credentials", json=credentials))
        ok(await newer.commit(table, table.stage(1)))
        ok(await newer.http.get(f"{TABLES}/t/credentials", params={"operation": "READ"}))
