"""Two servers on one PostgreSQL: neither knows the queue of the other, and no commit is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.testing.server import ServerProcess
from tests.api.iceberg.lake import PERSISTED, V1, set_property

TABLE = f"{V1}/lake/namespaces/sales/tables/orders"


async def commit(http: httpx.AsyncClient, name: str, key: str | None = None) -> Any:
    body = {"requirements": [], "updates": [set_property(name)]}
    return await http.post(TABLE, json=body, headers={"idempotency-key": key} if key else None)


async def furnish(http: httpx.AsyncClient) -> None:
    await http.post("/api/moorage/v1/catalogs", json={"name": "lake"})
    await http.post(f"{V1}/lake/namespaces", json={"namespace": ["sales"]})
    made = await http.post(f"{V1}/lake/namespaces/sales/tables", json={"name": "orders", "schema": EXAMPLE_SCHEMA})
    assert made.status_code == 200, made.text


@pytest.mark.postgres
@pytest.mark.slow
async def test_commits_through_two_servers_all_succeed_and_share_idempotency_keys(
    tmp_path: Path, database_url: str
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, database=database_url) as one, ServerProcess(data, database=database_url) as two:
        async with (
            httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=60) as first,
            httpx.AsyncClient(base_url=two.url, trust_env=False, timeout=60) as second,
        ):
            await furnish(first)
            answers = await asyncio.gather(
                *[commit(http, f"{where}{n}") for n in range(10) for where, http in (("a", first), ("b", second))]
            )
            assert [answer.status_code for answer in answers] == [200] * 20
            found = (await first.get(TABLE)).json()
            assert found == (await second.get(TABLE)).json()
            assert len(found["metadata"]["properties"]) == 20 + len(PERSISTED)
            versions = len(found["metadata"]["metadata-log"])  # the commits of a group share one
            assert len(list(data.rglob("*.metadata.json"))) == versions + 1

            key = str(uuid4())
            retries = await asyncio.gather(commit(first, "twin", key), commit(second, "twin", key))
            assert [answer.status_code for answer in retries] == [200, 200]
            assert len((await first.get(TABLE)).json()["metadata"]["metadata-log"]) == versions + 1
            assert len(list(data.rglob("*.metadata.json"))) == versions + 2
