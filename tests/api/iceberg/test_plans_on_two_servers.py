"""Two servers on one PostgreSQL: each can return the plans of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.testing.manifest_writer import entry, manifest, manifest_list
from moorage.testing.server import ServerProcess
from tests.api.iceberg.lake import V1

TABLES = f"{V1}/lake/namespaces/sales/tables"


async def furnish(http: httpx.AsyncClient) -> None:
    """Create a table of 2,400 files in two manifests."""
    await http.post("/api/moorage/v1/catalogs", json={"name": "lake"})
    await http.post(f"{V1}/lake/namespaces", json={"namespace": ["sales"]})
    made = (await http.post(TABLES, json={"name": "orders", "schema": EXAMPLE_SCHEMA})).json()["metadata"]
    location, lines = made["location"], []
    folder = Path(location.removeprefix("file://")) / "metadata"
    for at in range(2):
        (folder / f"m{at}.avro").write_bytes(manifest(*(entry(f"{at}-{n}") for n in range(1_200))))
        line = {"manifest_path": f"{location}/metadata/m{at}.avro", "manifest_length": 1, "partition_spec_id": 0}
        lines.append({**line, "added_files_count": 1_200, "existing_files_count": 0})
    (folder / "snap.avro").write_bytes(manifest_list(*lines))
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": made["last-updated-ms"],
        "manifest-list": f"{location}/metadata/snap.avro",
        "summary": {"operation": "append"},
    }
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, ref]
    committed = await http.post(f"{TABLES}/orders", json={"requirements": [], "updates": updates})
    assert committed.status_code == 200, committed.text


def paths(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    tasks: list[Any] = answer.json()["file-scan-tasks"]
    return {task["data-file"]["file-path"] for task in tasks}


@pytest.mark.postgres
@pytest.mark.slow
async def test_a_plan_of_one_server_can_be_fetched_from_another(tmp_path: Path, database_url: str) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, database=database_url) as one, ServerProcess(data, database=database_url) as two:
        async with (
            httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=60) as first,
            httpx.AsyncClient(base_url=two.url, trust_env=False, timeout=60) as second,
        ):
            await furnish(first)
            submitted = await first.post(f"{TABLES}/orders/plan", json={}, headers={"prefer": "respond-async"})
            assert submitted.json()["status"] == "submitted"
            # The first server may stop: it stores nothing of the plan.
            one.kill()
            plan = await second.get(f"{TABLES}/orders/plan/{submitted.json()['plan-id']}")
            found = paths(plan)
            for task in plan.json()["plan-tasks"]:
                found |= paths(await second.post(f"{TABLES}/orders/tasks", json={"plan-task": task}))
            assert len(found) == 2_400
            assert (await second.delete(f"{TABLES}/orders/plan/{submitted.json()['plan-id']}")).status_code == 204
