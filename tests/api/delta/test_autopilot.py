"""The server enqueues due work by itself where the policy is `auto`, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.core.jobs import COMPACT
from moorage.testing import builders as make
from moorage.testing import delta_writer as write
from moorage.usecases.delta.format import DeltaFormat
from moorage.usecases.upkeep.autopilot import Checked, look_after_tables, totals
from tests.api.delta.delta_client import DeltaClient, ok
from tests.api.house import V1, House

POLICY = "moorage.upkeep.policy"


@pytest.fixture(autouse=True)
def compactable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaFormat, "job_kinds", frozenset({COMPACT}))


async def make_small_files(spec: DeltaClient, name: str = "t") -> None:
    table = await spec.make(name)
    files = (write.add(size=1000, stats=json.dumps({"numRecords": 1})) for _ in range(50))
    ok(await spec.commit(table, table.stage(1, *files)))


async def set_policy(spec: DeltaClient, policy: str, path: str = "/catalogs/lake") -> None:
    ok(await spec.http.patch(f"{V1}{path}", json={"set_properties": {POLICY: policy}}))


async def jobs(house: House) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = ok(await house.console.get("/jobs"))["items"]
    return items


async def test_due_work_is_enqueued_once_with_its_reason(house: House, spec: DeltaClient) -> None:
    await make_small_files(spec)
    await set_policy(spec, "auto")
    ports = house.ports
    assert await look_after_tables(ports) == 1
    assert await look_after_tables(ports) == 0
    (job,) = await jobs(house)
    assert (job["kind"], job["state"]) == ("compact", "queued")
    assert job["args"]["reason"].startswith("50 of 50 files are small")
    assert job["args"]["score"] < 50


async def test_advice_is_counted_but_not_enqueued(house: House, spec: DeltaClient) -> None:
    await make_small_files(spec)
    ports = house.ports
    assert await look_after_tables(ports) == 0
    assert await jobs(house) == []
    found = totals(ports)
    assert (found.checked, found.unhealthy) == ({("delta",): 1}, {("delta",): 1})
    assert found.findings["delta", "small_files"] == 1


async def test_a_table_that_is_off_is_not_checked(house: House, spec: DeltaClient) -> None:
    await make_small_files(spec)
    await set_policy(spec, "auto")
    await set_policy(spec, "off", "/catalogs/lake/namespaces/sea")
    ports = house.ports
    assert await look_after_tables(ports) == 0
    assert totals(ports).checked == {}


async def test_a_cancelled_job_is_not_enqueued_again_the_same_day(house: House, spec: DeltaClient) -> None:
    await make_small_files(spec)
    await set_policy(spec, "auto")
    ports = house.ports
    assert await look_after_tables(ports) == 1
    (job,) = await jobs(house)
    ok(await house.console.post(f"/jobs/{job['id']}:cancel"))
    for _ in range(3):
        assert await look_after_tables(ports) == 0
    house.clock.advance(25 * 60 * 60 * 1000)
    await look_after_tables(ports)
    assert len(await jobs(house)) == 2


async def test_the_queue_does_not_fill_without_a_worker(house: House, spec: DeltaClient) -> None:
    for number in range(7):
        await make_small_files(spec, f"t{number}")
    await set_policy(spec, "auto")
    ports = house.ports
    for _ in range(4):
        await look_after_tables(ports)
    assert len(await jobs(house)) == 4


async def test_jobs_that_wait_for_something_else_than_a_worker_do_not_lift_the_limit(
    house: House, spec: DeltaClient
) -> None:
    for number in range(7):
        await make_small_files(spec, f"t{number}")
    await set_policy(spec, "auto")
    waiting = [make.job("vacuum", delay_ms=60 * 60 * 1000) for _ in range(200)]
    await house.ledger.append(make.draft(jobs=waiting))
    ports = house.ports
    for _ in range(4):
        await look_after_tables(ports)
    assert len(ok(await house.console.get("/jobs", kind="compact"))["items"]) == 4


async def test_a_table_that_was_dropped_is_no_longer_counted(house: House, spec: DeltaClient) -> None:
    await make_small_files(spec)
    ports = house.ports
    await look_after_tables(ports)
    ok(await spec.http.delete("/api/2.1/unity-catalog/tables/lake.sea.t"))
    for _ in range(2):
        await look_after_tables(ports)
    assert totals(ports).checked == {}


@pytest.mark.parametrize(
    ("new_versions", "minutes", "recent"),
    [(0, 9, True), (0, 60 * 25, False), (1, 9, True), (1, 11, False), (1_000, 0.5, True), (1_000, 2, False)],
)
def test_a_table_that_is_written_all_the_time_is_not_checked_all_the_time(
    *, new_versions: int, minutes: float, recent: bool
) -> None:
    checked = Checked(version=7, at_ms=0, health=None)
    assert checked.is_recent(7 + new_versions, int(minutes * 60_000)) is recent
