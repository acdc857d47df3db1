"""A job waits for the writers of a table whose rows are changed, unless its request says that it should not."""

from __future__ import annotations

from moorage.core.entries import NewJob
from moorage.core.ids import JobId
from moorage.core.jobs import COMPACT, Job
from moorage.core.quiet import QUIET_MS
from moorage.core.securables import Doc, TableDoc
from moorage.testing import builders as make
from moorage.usecases.upkeep.quiet import must_wait
from tests.api.house import House


async def test_a_job_waits_unless_its_request_says_otherwise_and_says_for_whom(house: House) -> None:
    lake = await make.lake(house.ledger)
    table = make.table(lake.namespace, "x", doc=Doc(table=TableDoc(format="delta")))
    await make.add(house.ledger, table, make.commit(table.id, 0, operation="change"))
    jobs: dict[str, Job | None] = {}
    for name, args in {"requested": {}, "beside": {"beside_writers": True}}.items():
        id = JobId(f"01939c1e-5a6f-7cc1-9d3e-8f5a2b7c0{len(jobs):03}")
        new = NewJob(id=id, kind=COMPACT, subject=table.id, args=args)
        await house.ledger.append(make.draft(jobs=[new]))
        jobs[name] = await house.ledger.job(new.id)
    found = (await house.ledger.lineage(table.id)).chain[-1]
    assert jobs["requested"] is not None
    assert jobs["beside"] is not None
    waiting = await must_wait(house.ports, found, jobs["requested"])
    assert waiting is not None
    assert waiting.until_ms == house.clock() + QUIET_MS
    assert "waiting for '" in waiting.reason
    assert await must_wait(house.ports, found, jobs["beside"]) is None
    house.clock.advance(QUIET_MS)
    assert await must_wait(house.ports, found, jobs["requested"]) is None
