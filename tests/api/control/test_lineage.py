"""Lineage for callers that may see a part of it."""

from __future__ import annotations

from typing import Any

from moorage.core.ids import SecurableId
from moorage.core.lineage import Input, Lineage, Output, Step, to_result
from moorage.testing import builders as make
from tests.api.control.guarded import UNITY, Guarded
from tests.api.house import V1, done

TABLES = f"{V1}/catalogs/lake/namespaces/sea/tables"
CREATE_TABLE = {"changes": [{"principal": "eve", "add": ["CREATE TABLE"]}]}


async def test_a_table_that_the_caller_may_not_see_has_no_name_and_ends_the_trace(guarded: Guarded) -> None:
    ids, eve = await _lake_of_eve(guarded)
    for output, source in (("bronze", "raw"), ("gold", "bronze")):
        await _run_job(guarded, ids, output, source)
    whole = await guarded.run("GET", f"{TABLES}/gold/lineage")
    assert [each["output"]["table"] for each in whole["steps"]] == ["lake.sea.gold", "lake.sea.bronze"]
    above = (await guarded.ask(eve, "GET", f"{TABLES}/gold/lineage")).json()
    assert [each["inputs"][0]["table"] for each in above["steps"]] == [None]
    below = (await guarded.ask(eve, "GET", f"{TABLES}/raw/lineage?direction=downstream")).json()
    assert below["steps"] == []
    for found in (above, below):
        assert "bronze" not in str(found)
        assert ids["bronze"] not in str(found)
    assert await guarded.status(eve, "GET", f"{TABLES}/bronze/lineage") == 403


async def test_an_origin_may_only_name_tables_that_the_caller_may_read(guarded: Guarded) -> None:
    _, eve = await _lake_of_eve(guarded)
    for source, status in (("raw", 200), ("bronze", 403)):
        body = {"versions": ["0"], "inputs": [{"path": ["lake", "sea", source], "version": "0"}]}
        assert await guarded.status(eve, "POST", f"{TABLES}/gold/lineage", body) == status
    assert await guarded.status(eve, "POST", f"{TABLES}/raw/lineage", {"versions": ["0"]}) == 403


async def test_a_job_does_not_name_tables_that_the_caller_may_not_see(guarded: Guarded) -> None:
    ids, eve = await _lake_of_eve(guarded)
    job = make.job("compact", subject=ids["gold"], dedupe="compact gold")
    await guarded.ledger.append(make.draft(jobs=[job]))
    await _run_job(guarded, ids, "gold", "bronze", kind="compact")
    path = f"{V1}/jobs/{job.id}"
    assert ids["bronze"] in str(await guarded.run("GET", path)), "an administrator sees all of it"
    seen = done(await guarded.ask(eve, "GET", path))
    listed = done(await guarded.ask(eve, "GET", f"{V1}/jobs"))["items"]
    assert [seen] == listed
    assert [each["output"]["table"] for each in seen["result"]["lineage"]["steps"]] == ["lake.sea.gold"]
    for hidden in ("bronze", ids["bronze"]):
        assert hidden not in str(seen)


async def test_a_run_of_a_pipeline_does_not_tell_which_hidden_tables_exist(guarded: Guarded) -> None:
    """Its author names the tables that it reads."""
    _, eve = await _lake_of_eve(guarded)
    await guarded.run("PATCH", f"{UNITY}/permissions/schema/lake.sea", CREATE_TABLE)
    flow = {"name": "f", "target": "t", "reads": ["lake.sea.raw", "lake.sea.bronze", "lake.sea.none"]}
    new = {"name": "p", "files": {"spark-pipeline.yml": "name: p"}, "tables": ["t"], "flows": [flow]}
    pipelines = f"{V1}/catalogs/lake/namespaces/sea/pipelines"
    done(await guarded.ask(eve, "POST", pipelines, new))
    run = done(await guarded.ask(eve, "POST", f"{pipelines}/p:run", {}), 202)
    seen = done(await guarded.ask(eve, "GET", f"{V1}/jobs/{run['id']}"))
    feed = done(await guarded.ask(eve, "GET", f"{V1}/feed?limit=1000"))["entries"]
    enqueued = [job for entry in feed for job in entry["story"].get("jobs", ())]
    assert [each["args"]["sources"] for each in (run, seen, *enqueued)] == [{"lake.sea.raw": 0}] * 3
    whole = await guarded.run("GET", f"{V1}/jobs/{run['id']}")
    assert whole["args"]["sources"] == {"lake.sea.raw": 0, "lake.sea.bronze": 0}, "so that workers know them"


async def _lake_of_eve(guarded: Guarded) -> tuple[dict[str, SecurableId], str]:
    """The tables `raw`, `bronze` and `gold` at version 0, of which Eve may read the first and change the last."""
    eve = await guarded.user("eve")
    lake = make.catalog(guarded.ledger.root, "lake")
    sea = make.namespace(lake.id, "sea")
    tables = {name: make.table(sea.id, name) for name in ("raw", "bronze", "gold")}
    await make.add(guarded.ledger, lake, sea, *tables.values())
    for table in tables.values():
        await make.add(guarded.ledger, make.commit(table.id, 0))
    await make.add(
        guarded.ledger,
        make.set_grants(lake.id, eve=["USE CATALOG"]),
        make.set_grants(sea.id, eve=["USE SCHEMA"]),
        make.set_grants(tables["raw"].id, eve=["SELECT"]),
        make.set_grants(tables["gold"].id, eve=["SELECT", "MODIFY"]),
    )
    return {name: table.id for name, table in tables.items()}, eve


async def _run_job(
    guarded: Guarded, ids: dict[str, SecurableId], output: str, source: str, *, kind: str = "audit"
) -> None:
    if kind == "audit":
        await guarded.run("POST", f"{V1}/jobs", {"kind": kind}, status=202)
    lease: Any = await guarded.run("POST", f"{V1}/jobs:take", {"worker": "w", "kinds": [kind]})
    step = Step(
        output=Output(table=f"lake.sea.{output}", id=ids[output], versions=("0",)),
        inputs=(Input(table=f"lake.sea.{source}", id=ids[source], version="0"),),
    )
    body = {"fence": lease["fence"], "result": to_result(Lineage(steps=(step,)))}
    await guarded.run("POST", f"{V1}/jobs/{lease['job']['id']}:succeed", body)
