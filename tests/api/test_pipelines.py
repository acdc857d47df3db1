"""Pipelines: registered, run once at a time, started by changes and by a schedule."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.entries import FinishJob, JobState
from moorage.core.ids import JobId, SecurableId
from moorage.testing import builders as make
from moorage.usecases.pipelines.triggers import start_due_pipelines
from tests.api.house import House

FILES = {"spark-pipeline.yml": "name: daily\n", "steps/a.sql": "CREATE MATERIALIZED VIEW totals AS SELECT 1"}
SPACE = "/catalogs/lake/namespaces/sea"
FLOW = {"name": "totals", "target": "lake.sea.totals", "reads": ["lake.sea.orders", "lake.sea.bronze"]}
MINUTE_MS = 60_000


@pytest.fixture
async def orders(house: House) -> SecurableId:
    """The id of the table `lake.sea.orders`, at version 0, that the pipeline reads."""
    lake = make.catalog(house.ledger.root, "lake")
    sea = make.namespace(lake.id, "sea")
    table = make.table(sea.id, "orders")
    await make.add(house.ledger, lake, sea, table)
    await make.add(house.ledger, make.commit(table.id, 0))
    return table.id


async def register(house: House, **changes: Any) -> Any:
    body = {"name": "daily", "files": FILES, "views": ["lake.sea.totals"], "tables": ["lake.sea.bronze"]}
    answer = await house.console.post(f"{SPACE}/pipelines", {**body, "flows": [FLOW], **changes})
    return answer.json() if answer.is_success else answer


async def end(house: House, job: dict[str, Any]) -> None:
    finish = FinishJob(job=JobId(job["id"]), state=JobState.SUCCEEDED, result={})
    await make.add(house.ledger, finish)


async def jobs(house: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await house.console.get("/jobs", kind="pipeline")).json()["items"]
    return found


async def test_a_project_that_is_registered_again_changes_nothing_unless_it_differs(
    house: House, orders: SecurableId
) -> None:
    first = await register(house)
    assert (await register(house))["revision"] == first["revision"]
    changed = await register(house, files={**FILES, "steps/b.sql": "SELECT 1"})
    assert changed["revision"] > first["revision"]
    assert changed["digest"] != first["digest"]
    listed = (await house.console.get(f"{SPACE}/pipelines")).json()["items"]
    assert [each["name"] for each in listed] == ["daily"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"files": {"a.sql": ""}}, "spark-pipeline.yml"),
        ({"files": {**FILES, "../a.py": ""}}, "not a relative path"),
        ({"schedule": "every day"}, "five fields"),
    ],
)
async def test_what_is_no_project_is_refused(
    house: House, orders: SecurableId, changes: dict[str, Any], word: str
) -> None:
    answer = await register(house, **changes)
    assert answer.status_code == 400
    assert word in answer.text


async def test_one_run_at_a_time_with_the_versions_that_it_reads(house: House, orders: SecurableId) -> None:
    await register(house)
    first = (await house.console.post(f"{SPACE}/pipelines/daily:run", {})).json()
    second = (await house.console.post(f"{SPACE}/pipelines/daily:run", {})).json()
    assert first["id"] == second["id"]
    assert first["args"]["sources"] == {"lake.sea.orders": 0}
    await end(house, first)
    third = (await house.console.post(f"{SPACE}/pipelines/daily:run", {"refresh": ["lake.sea.totals"]})).json()
    assert third["id"] != first["id"]
    assert third["args"]["refresh"] == ["lake.sea.totals"]


async def test_a_new_version_of_a_source_starts_one_run(house: House, orders: SecurableId) -> None:
    await register(house, on_change=True)
    assert await start_due_pipelines(house.ports) == 1  # it has never run
    (first,) = await jobs(house)
    assert await start_due_pipelines(house.ports) == 0
    for version in (1, 2):  # while the run is open
        await make.add(house.ledger, make.commit(orders, version))
        assert await start_due_pipelines(house.ports) == 0
    await end(house, first)
    assert await start_due_pipelines(house.ports) == 1
    second = (await jobs(house))[-1]
    assert second["args"]["sources"] == {"lake.sea.orders": 2}
    assert second["args"]["reason"] == "change"
    await end(house, second)
    assert await start_due_pipelines(house.ports) == 0


async def test_other_tables_and_its_own_start_no_run(house: House, orders: SecurableId) -> None:
    space = (await house.console.get(SPACE)).json()["id"]
    other, own = make.table(space, "other"), make.table(space, "bronze")
    await make.add(house.ledger, other, own)
    await register(house, on_change=True)
    await start_due_pipelines(house.ports)
    await end(house, (await jobs(house))[0])
    await make.add(house.ledger, make.commit(other.id, 0), make.commit(own.id, 0))
    assert await start_due_pipelines(house.ports) == 0


async def test_a_schedule_starts_a_run_when_it_is_due(house: House, orders: SecurableId) -> None:
    await register(house, schedule="* * * * *")
    assert await start_due_pipelines(house.ports) == 0
    house.clock.advance(MINUTE_MS)
    assert await start_due_pipelines(house.ports) == 1
    assert (await jobs(house))[-1]["args"]["reason"] == "schedule"
    assert await start_due_pipelines(house.ports) == 0
    assert (await house.console.delete(f"{SPACE}/pipelines/daily")).status_code == 200
    house.clock.advance(2 * MINUTE_MS)
    assert await start_due_pipelines(house.ports) == 0
