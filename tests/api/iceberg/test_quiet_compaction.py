"""A compaction waits for writers that it would make fail: those that change rows."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.ids import SecurableId
from moorage.core.quiet import QUIET_MS
from moorage.testing import builders as make
from tests.api.house import done
from tests.api.iceberg.lake import Lake
from tests.api.iceberg.test_tables import set_main, snapshot


async def commit(lake: Lake, id: int, operation: str) -> None:
    update = snapshot(id, id - 1 or None)
    update["snapshot"]["summary"] = {"operation": operation}
    answer = await lake.commit("orders", update, set_main(id))
    assert answer.status_code == 200, answer.text


async def enqueue(lake: Lake, **args: Any) -> str:
    found = done(await lake.house.console.get("/catalogs/lake/namespaces/sales/tables/orders"))
    new = make.job("compact", subject=SecurableId(found["id"]), args=args)
    await lake.house.ledger.append(make.draft(jobs=[new]))
    return new.id


async def is_taken(lake: Lake) -> bool:
    answer = await lake.house.console.post("/jobs:take", {"worker": "w", "kinds": ["compact"]})
    assert answer.status_code in (200, 204), answer.text
    return answer.status_code == 200


async def test_it_waits_for_five_quiet_minutes_after_a_row_change_and_says_for_whom(lake: Lake) -> None:
    await lake.create("orders")
    await commit(lake, 1, "overwrite")
    job = await enqueue(lake, reason="many small files")
    assert not await is_taken(lake)
    waiting = done(await lake.house.console.get(f"/jobs/{job}"))
    assert (waiting["state"], waiting["attempt"]) == ("queued", 0)
    assert waiting["error"].startswith("waiting for 'local': rows of the table are changed")
    lake.house.clock.advance(QUIET_MS)
    assert await is_taken(lake)


@pytest.mark.parametrize("operation", ["append", "replace"])
async def test_it_does_not_wait_for_appends_and_rewrites(lake: Lake, operation: str) -> None:
    await lake.create("orders")
    await commit(lake, 1, operation)
    await enqueue(lake, reason="many small files")
    assert await is_taken(lake)


async def test_a_compaction_may_be_requested_beside_writers(lake: Lake) -> None:
    await lake.create("orders")
    await commit(lake, 1, "delete")
    await enqueue(lake, beside_writers=True)
    assert await is_taken(lake)


async def test_two_requests_through_unity_are_one_job_that_waits_and_says_so(lake: Lake) -> None:
    await lake.create("orders")
    await commit(lake, 1, "delete")
    compact = "/api/2.1/unity-catalog/tables/lake.sales.orders:compact"
    first = await lake.house.console.http.post(compact)
    assert (first.status_code, first.json()["state"]) == (202, "queued")
    assert not await is_taken(lake)
    second = await lake.house.console.http.post(compact)
    assert (second.status_code, second.json()["id"], second.json()["state"]) == (202, first.json()["id"], "queued")
    assert second.headers["location"] == first.headers["location"]
    assert second.json()["error"].startswith("waiting for 'local': rows of the table are changed")
    lake.house.clock.advance(QUIET_MS)
    assert await is_taken(lake)
