"""Lineage over HTTP: recorded by clients and by jobs, traced in both directions, filtered by access."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.ids import SecurableId
from moorage.core.lineage import Input, Lineage, Output, Step, to_result
from moorage.testing import builders as make
from tests.api.house import House

SPACE = "/catalogs/lake/namespaces/sea/tables"
Tables = dict[str, SecurableId]


@pytest.fixture
async def tables(house: House) -> Tables:
    """The tables `raw`, `bronze` and `gold` of `lake.sea`, each with the versions 0 and 1."""
    lake = make.catalog(house.ledger.root, "lake")
    sea = make.namespace(lake.id, "sea")
    made = {name: make.table(sea.id, name) for name in ("raw", "bronze", "gold")}
    await make.add(house.ledger, lake, sea, *made.values())
    for table in made.values():
        await make.add(house.ledger, make.commit(table.id, 0))
        await make.add(house.ledger, make.commit(table.id, 1))
    return {name: table.id for name, table in made.items()}


async def run_job(house: House, *steps: Step) -> str:
    """A job that ends with this lineage, as a worker reports it."""
    await house.console.post("/jobs", {"kind": "audit"})
    lease = (await house.console.post("/jobs:take", {"worker": "w", "kinds": ["audit"]})).json()
    result = to_result(Lineage(steps=steps))
    body = {"fence": lease["fence"], "result": result}
    ended = await house.console.post(f"/jobs/{lease['job']['id']}:succeed", body)
    assert ended.status_code == 200, ended.text
    return str(lease["job"]["id"])


def step(tables: Tables, output: str, versions: tuple[str, ...], **inputs: str) -> Step:
    return Step(
        output=Output(table=f"lake.sea.{output}", id=tables[output], versions=versions),
        inputs=tuple(
            Input(table=f"lake.sea.{name}", id=tables[name], version=version) for name, version in inputs.items()
        ),
    )


async def lineage(house: House, table: str, **query: Any) -> Any:
    answer = await house.console.get(f"{SPACE}/{table}/lineage", **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def edges(found: Any) -> list[tuple[str, list[str], list[tuple[str, str]]]]:
    """Table, its versions, and what they were made of."""
    return [
        (
            each["output"]["table"],
            each["output"]["versions"],
            [(read["table"], read["version"]) for read in each["inputs"]],
        )
        for each in found["steps"]
    ]


async def test_the_inputs_of_a_version_are_found_across_jobs(house: House, tables: Tables) -> None:
    await house.console.post(f"{SPACE}/raw/lineage", {"versions": ["1"], "previous": "0", "sources": ["file:///in"]})
    first = await run_job(house, step(tables, "bronze", ("0",), raw="1"))
    await run_job(house, step(tables, "gold", ("0", "1"), bronze="0"))
    found = await lineage(house, "gold")
    assert found["version"] == "1"
    assert edges(found) == [
        ("lake.sea.gold", ["0", "1"], [("lake.sea.bronze", "0")]),
        ("lake.sea.bronze", ["0"], [("lake.sea.raw", "1")]),
        ("lake.sea.raw", ["1"], [("lake.sea.raw", "0")]),
    ]
    assert [each["job"] for each in found["steps"]][1] == first
    assert found["steps"][2]["sources"] == ["file:///in"]
    assert edges(await lineage(house, "gold", version="0"))[0][1] == ["0"]
    assert (await lineage(house, "bronze", version="1"))["steps"] == []  # no job has made this one
    cut = await lineage(house, "gold", limit=2)
    assert (len(cut["steps"]), cut["complete"]) == (2, False)


async def test_what_was_made_of_a_version_is_found_and_follows_a_rename(house: House, tables: Tables) -> None:
    await run_job(house, step(tables, "bronze", ("1",), raw="1"))
    await run_job(house, step(tables, "gold", ("1",), bronze="1"))
    below = await lineage(house, "raw", direction="downstream")
    assert [each[0] for each in edges(below)] == ["lake.sea.bronze", "lake.sea.gold"]
    assert edges(await lineage(house, "raw", direction="downstream", version="0")) == []
    parent = (await house.ledger.lineage(tables["bronze"])).chain[-1].parent
    await make.add(house.ledger, make.rename(tables["bronze"], parent, "brass"))
    assert edges(await lineage(house, "gold"))[0][2] == [("lake.sea.brass", "1")]


async def test_a_job_that_did_not_succeed_is_no_origin(house: House, tables: Tables) -> None:
    await house.console.post("/jobs", {"kind": "audit"})
    lease = (await house.console.post("/jobs:take", {"worker": "w", "kinds": ["audit"]})).json()
    result = to_result(Lineage(steps=(step(tables, "gold", ("1",), raw="1"),)))
    lost = await house.console.post(f"/jobs/{lease['job']['id']}:succeed", {"fence": "another", "result": result})
    assert lost.status_code == 409
    assert (await lineage(house, "gold"))["steps"] == []


async def test_a_recorded_origin_is_an_ended_job_and_the_same_request_again_is_no_other_one(
    house: House, tables: Tables
) -> None:
    body = {"versions": ["1"], "previous": "0", "sources": ["file:///in"], "counts": {"rows": 3}}
    first = await house.console.post(f"{SPACE}/raw/lineage", body, key="k")
    assert first.json()["state"] == "succeeded"
    assert first.json()["result"]["rows"] == 3
    again = await house.console.post(f"{SPACE}/raw/lineage", body, key="k")
    assert again.json()["id"] == first.json()["id"]
    for versions in (["9"], ["99999999999999999999"], ["9999999999999999999"], ["-1"], []):
        refused = await house.console.post(f"{SPACE}/raw/lineage", {"versions": versions})
        assert refused.status_code == 400, versions
