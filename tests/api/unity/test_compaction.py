"""Requests for the compaction of a table create one job, however many there are."""

from __future__ import annotations

import pytest

from moorage.core.job_options import CompactOptions, parse_options
from moorage.core.jobs import COMPACT
from moorage.core.securables import Doc, TableDoc
from moorage.testing import builders as make
from tests.api.house import House, at_once, done
from tests.api.unity.unity import IN_S, Unity, invalid, refused


@pytest.fixture
async def table(uc: Unity) -> str:
    """Create an external Delta table and return its full name."""
    await uc.schema()
    await uc.external("t")
    return "lake.s.t"


async def test_a_compaction_is_a_job_with_a_url(uc: Unity, table: str) -> None:
    answer = await uc.post(f"/tables/{table}:compact", {"target_file_size_mb": 64})
    job = done(answer, 202)
    assert (job["kind"], job["state"], job["args"]) == (COMPACT, "queued", {"target_file_size_mb": 64})
    assert job["subject"] == done(await uc.get(f"/tables/{table}"))["table_id"]
    assert (await uc.http.get(answer.headers["location"])).json() == job


@pytest.mark.parametrize("kind", ["delta", "iceberg", "lance"])
async def test_tables_of_each_open_format_can_be_compacted(house: House, uc: Unity, kind: str) -> None:
    lake = await make.lake(house.ledger)
    doc = Doc(location="file:///data/x/", table=TableDoc(format=kind))
    await make.add(house.ledger, make.table(lake.namespace, "x", doc=doc))
    assert done(await uc.post("/tables/lake.sea.x:compact"), 202)["args"] == {}


async def test_an_option_that_is_null_does_not_replace_the_retention_of_the_table(house: House, uc: Unity) -> None:
    lake = await make.lake(house.ledger)
    doc = Doc(location="file:///data/x/", table=TableDoc(format="lance"), details={"retention_days": 100})
    await make.add(house.ledger, make.table(lake.namespace, "x", doc=doc))
    body = {"kind": "expire", "args": {"older_than_days": None, "keep_last": None}}
    made = await house.console.post("/catalogs/lake/namespaces/sea/tables/x/jobs", body)
    assert done(made, 202)["args"] == {"older_than_days": 100}


async def test_while_a_compaction_is_open_every_request_returns_its_job(house: House, uc: Unity, table: str) -> None:
    answers = await at_once(
        *[uc.post(f"/tables/{table}:compact", {}, key=f"k{n}" if n % 2 else None) for n in range(10)]
    )
    (id,) = {done(answer, 202)["id"] for answer in answers}
    done(await house.console.post(f"/jobs/{id}:cancel"))
    second = done(await uc.post(f"/tables/{table}:compact"), 202)
    assert second["id"] != id
    for n in range(1, 10, 2):  # a retry returns the job of the original response
        retried = done(await uc.post(f"/tables/{table}:compact", {}, key=f"k{n}"), 202)
        assert (retried["id"], retried["state"]) == (id, "cancelled")


async def test_each_table_has_its_own_compaction(uc: Unity, table: str) -> None:
    await uc.external("u")
    ids = {done(await uc.post(f"/tables/lake.s.{name}:compact"), 202)["id"] for name in ("t", "u", "t")}
    assert len(ids) == 2


async def test_the_colon_may_be_encoded(uc: Unity, table: str) -> None:
    assert done(await uc.post(f"/tables/{table}%3Acompact"), 202)["kind"] == COMPACT


async def test_the_worker_accepts_the_largest_target_size_that_the_request_accepts(uc: Unity, table: str) -> None:
    job = done(await uc.post(f"/tables/{table}:compact", {"target_file_size_mb": 2**31 - 1}), 202)
    assert parse_options(job["args"], CompactOptions).target_file_size_mb == 2**31 - 1


@pytest.mark.parametrize("size", [7, 0, -1, 2**31, "64", 64.5, True])
async def test_an_invalid_target_size_is_refused(uc: Unity, table: str, size: object) -> None:
    answer = await uc.post(f"/tables/{table}:compact", {"target_file_size_mb": size})
    assert "target_file_size_mb" in invalid(answer)


async def test_a_missing_table_cannot_be_compacted(uc: Unity, table: str) -> None:
    refused(await uc.post("/tables/lake.s.nope:compact"), 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")
    refused(await uc.post("/tables/lake.nope.t:compact"), 404, "SCHEMA_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND")
    refused(await uc.post("/tables/nope.s.t:compact"), 404, "CATALOG_DOES_NOT_EXIST", "CATALOG_NOT_FOUND")
    done(await uc.delete(f"/tables/{table}"))
    refused(await uc.post(f"/tables/{table}:compact"), 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")


async def test_a_view_or_csv_table_cannot_be_compacted(uc: Unity, table: str) -> None:
    done(
        await uc.post(
            "/tables",
            {
                "name": "v",
                **IN_S,
                "table_type": "METRIC_VIEW",
                "view_definition": "select 1",
                "view_dependencies": {"dependencies": [{"table": {"table_full_name": table}}]},
            },
        )
    )
    await uc.external("c", data_source_format="CSV")
    for name, word in (("v", "view"), ("c", "csv")):
        assert word in invalid(await uc.post(f"/tables/lake.s.{name}:compact"))
