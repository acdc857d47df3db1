"""The job queue: jobs are enqueued, leased, renewed and ended. Late workers are refused."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from moorage.core.jobs import JOB_KINDS, LEASE_MS, JobKind, retry_delay_ms
from moorage.core.securables import Doc, TableDoc
from moorage.testing import builders as make
from moorage.testing.builders import START_MS
from tests.api.house import Console, House, at_once, done, refused

UNKNOWN_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10"
WRONG_FENCE = "0" * 32


async def enqueue(console: Console, **given: Any) -> dict[str, Any]:
    job: dict[str, Any] = done(await console.post("/jobs", {"kind": "audit"}, **given), 202)
    return job


async def take(console: Console, worker: str = "w1", *kinds: str) -> dict[str, Any]:
    lease: dict[str, Any] = done(await console.post("/jobs:take", {"worker": worker, "kinds": kinds or ("audit",)}))
    return lease


async def nothing_to_take(console: Console, *kinds: str) -> bool:
    answer = await console.post("/jobs:take", {"worker": "w", "kinds": kinds or ("audit",)})
    return answer.status_code == 204 and answer.content == b""


async def report(console: Console, lease: dict[str, Any], what: str, **body: Any) -> Any:
    return await console.post(f"/jobs/{lease['job']['id']}:{what}", {"fence": lease["fence"], **body})


async def test_a_job_goes_from_queued_to_running_to_succeeded(house: House) -> None:
    console = house.console
    job = done(await console.post("/jobs", {"kind": "audit", "args": {"deep": [1, {"a": None}]}}), 202)
    queued = {
        "id": job["id"],
        "kind": "audit",
        "subject": None,
        "args": {"deep": [1, {"a": None}]},
        "state": "queued",
        "attempt": 0,
        "attempts": 5,
        "created_at_ms": START_MS,
        "not_before_ms": START_MS,
        "worker": None,
        "progress": None,
        "result": None,
        "error": None,
        "ended_at_ms": None,
    }
    assert job == queued
    lease = await take(console)
    running = queued | {"state": "running", "attempt": 1, "worker": "w1"}
    assert lease == {"job": running, "fence": lease["fence"], "until_ms": START_MS + LEASE_MS, "token": None}
    house.clock.advance(1000)
    renewed = done(await report(console, lease, "renew", progress={"seen": 7}))
    assert renewed == {"until_ms": START_MS + 1000 + LEASE_MS}
    assert done(await console.get(f"/jobs/{job['id']}")) == running | {"progress": {"seen": 7}}
    ended = done(await report(console, lease, "succeed", result={"entries": 9}))
    succeeded = running | {"state": "succeeded", "result": {"entries": 9}, "ended_at_ms": START_MS + 1000}
    succeeded |= {"worker": None, "progress": {"seen": 7}}
    assert ended == succeeded
    assert done(await console.get(f"/jobs/{job['id']}")) == succeeded
    assert await nothing_to_take(console)


async def test_while_a_job_is_open_no_second_one_is_created(console: Console) -> None:
    first = await enqueue(console)
    assert await enqueue(console) == first
    assert await enqueue(console, key="k") == first
    lease = await take(console)
    assert (await enqueue(console))["id"] == first["id"]
    done(await report(console, lease, "succeed"))
    second = await enqueue(console)
    assert second["id"] != first["id"]
    assert (await enqueue(console, key="k"))["id"] == first["id"]


async def test_concurrent_requests_create_one_job(console: Console) -> None:
    answers = await at_once(*[console.post("/jobs", {"kind": "audit"}, key=f"k{n}") for n in range(8)])
    assert len({done(answer, 202)["id"] for answer in answers}) == 1
    assert len(done(await console.get("/jobs"))["items"]) == 1


async def test_a_job_is_leased_to_one_of_many_workers(house: House) -> None:
    jobs = [make.job("audit", dedupe=f"{n}") for n in range(3)]
    await house.ledger.append(make.draft(jobs=jobs))
    answers = await at_once(
        *[house.console.post("/jobs:take", {"worker": f"w{n}", "kinds": ["audit"]}) for n in range(10)]
    )
    taken = [answer.json() for answer in answers if answer.status_code == 200]
    assert sorted(lease["job"]["id"] for lease in taken) == sorted(job.id for job in jobs)
    assert len({lease["fence"] for lease in taken}) == 3
    assert [answer.status_code for answer in answers].count(204) == 7


async def test_a_worker_gets_only_jobs_of_its_kinds(console: Console) -> None:
    await enqueue(console)
    assert await nothing_to_take(console, "compact", "vacuum")
    assert (await take(console, "w", "vacuum", "audit"))["job"]["kind"] == "audit"


async def test_a_worker_is_refused_after_its_job_was_leased_to_another(house: House) -> None:
    console = house.console
    await enqueue(console)
    late = await take(console, "sleeper")
    assert await nothing_to_take(console)
    house.clock.advance(LEASE_MS)
    current = await take(console, "second")
    assert (current["job"]["id"], current["job"]["attempt"]) == (late["job"]["id"], 2)
    seq = await console.seq()
    for what, body in (
        ("renew", {"progress": {"seen": 1}}),
        ("succeed", {"result": {"late": True}}),
        ("fail", {"error": "late"}),
        ("fail", {"error": "late", "final": True}),
    ):
        error = refused(await report(console, late, what, **body), 409, "LEASE_LOST")
        assert error["advice"] == "never"
    assert await console.seq() == seq
    assert done(await console.get(f"/jobs/{late['job']['id']}"))["worker"] == "second"
    assert done(await report(console, current, "succeed", result={"late": False}))["result"] == {"late": False}


async def test_a_worker_with_an_expired_lease_may_finish_if_no_other_has_the_job(house: House) -> None:
    await enqueue(house.console)
    lease = await take(house.console)
    house.clock.advance(10 * LEASE_MS)
    assert done(await house.console.get(f"/jobs/{lease['job']['id']}"))["state"] == "queued"
    assert done(await report(house.console, lease, "succeed"))["state"] == "succeeded"


async def test_the_delay_grows_with_each_failed_attempt_and_the_last_one_ends_the_job(house: House) -> None:
    console = house.console
    job = await enqueue(console)
    for attempt in range(1, 5):
        lease = await take(console)
        assert lease["job"]["attempt"] == attempt
        requeued = done(await report(console, lease, "fail", error=f"error {attempt}"))
        assert (requeued["state"], requeued["error"]) == ("queued", f"error {attempt}")
        assert requeued["not_before_ms"] == house.clock() + retry_delay_ms(attempt)
        assert await nothing_to_take(console)
        house.clock.advance(retry_delay_ms(attempt) - 1)
        assert await nothing_to_take(console)
        house.clock.advance(1)
    failed = done(await report(console, await take(console), "fail", error="error 5"))
    assert (failed["state"], failed["error"], failed["ended_at_ms"]) == ("failed", "error 5", house.clock())
    house.clock.advance(24 * 60 * 60 * 1000)
    assert await nothing_to_take(console)
    assert (await enqueue(console))["id"] != job["id"]


async def test_a_final_failure_ends_the_job(house: House) -> None:
    await enqueue(house.console)
    failed = done(await report(house.console, await take(house.console), "fail", error="permanent", final=True))
    assert (failed["state"], failed["error"]) == ("failed", "permanent")


async def test_a_job_whose_leases_all_expire_fails(house: House) -> None:
    console = house.console
    job = await enqueue(console)
    await house.ledger.append(make.draft(jobs=[make.job("other", delay_ms=0)]))
    for attempt in range(1, 6):
        lease = await take(console, "crashing")
        assert lease["job"]["attempt"] == attempt
        house.clock.advance(LEASE_MS)
    assert (await take(console, "survivor", "audit", "other"))["job"]["kind"] == "other"
    failed = done(await console.get(f"/jobs/{job['id']}"))
    assert failed["state"] == "failed"
    assert failed["error"].startswith("none of 5 attempts finished")


async def test_a_failure_reported_twice_under_one_key_counts_once(house: House) -> None:
    console = house.console
    await enqueue(console)
    lease = await take(console)
    body = {"fence": lease["fence"], "error": "e"}
    first = await console.post(f"/jobs/{lease['job']['id']}:fail", body, key="k")
    assert done(await console.post(f"/jobs/{lease['job']['id']}:fail", body, key="k")) == done(first)
    refused(await console.post(f"/jobs/{lease['job']['id']}:fail", body, key="k2"), 409, "LEASE_LOST")


async def test_a_cancelled_job_refuses_its_worker(console: Console) -> None:
    job = await enqueue(console)
    lease = await take(console)
    assert done(await console.post(f"/jobs/{job['id']}:cancel"))["state"] == "cancelled"
    refused(await report(console, lease, "renew"), 409, "LEASE_LOST")
    refused(await report(console, lease, "succeed"), 409, "JOB_ENDED")
    refused(await report(console, lease, "fail", error="e"), 409, "LEASE_LOST")
    refused(await console.post(f"/jobs/{job['id']}:cancel"), 409, "JOB_ENDED")
    assert await nothing_to_take(console)


async def test_a_wrong_fence_is_refused_and_changes_nothing(console: Console) -> None:
    await enqueue(console)
    lease = (await take(console)) | {"fence": WRONG_FENCE}
    for what, body in (
        ("renew", {}),
        ("succeed", {}),
        ("fail", {"error": "e"}),
        ("fail", {"error": "e", "final": True}),
    ):
        refused(await report(console, lease, what, **body), 409, "LEASE_LOST")
    assert done(await console.get(f"/jobs/{lease['job']['id']}"))["state"] == "running"


@pytest.mark.parametrize("id", [UNKNOWN_ID, "x", "%20", "🚢", "a" * 1000])
async def test_an_unknown_job_is_not_found_by_any_operation(console: Console, id: str) -> None:
    refused(await console.get(f"/jobs/{id}"), 404, "JOB_NOT_FOUND")
    refused(await console.post(f"/jobs/{id}:renew", {"fence": "f"}), 404, "JOB_NOT_FOUND")
    refused(await console.post(f"/jobs/{id}:succeed", {"fence": "f"}), 404, "JOB_NOT_FOUND")
    refused(await console.post(f"/jobs/{id}:fail", {"fence": "f", "error": "e"}), 404, "JOB_NOT_FOUND")
    refused(await console.post(f"/jobs/{id}:cancel"), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"worker": "", "kinds": ["audit"]}, "worker"),
        ({"worker": "w" * 256, "kinds": ["audit"]}, "worker"),
        ({"worker": "w", "kinds": []}, "kinds"),
        ({"worker": "w", "kinds": ["k"] * 101}, "kinds"),
        ({"worker": "w"}, "kinds"),
        ({"kinds": ["audit"]}, "worker"),
    ],
)
async def test_a_worker_must_give_its_name_and_its_kinds(console: Console, body: Any, field: str) -> None:
    refused(await console.post("/jobs:take", body), 400, "INVALID_INPUT", field)


async def test_an_unknown_kind_of_job_is_refused_with_the_known_kinds(console: Console) -> None:
    error = refused(await console.post("/jobs", {"kind": "sink"}), 400, "INVALID_INPUT", "kind")
    assert "audit" in error["message"]


@pytest.mark.parametrize("kind", JOB_KINDS.values(), ids=lambda kind: kind.name)
async def test_only_requestable_kinds_can_be_requested(console: Console, kind: JobKind) -> None:
    answer = await console.post("/jobs", {"kind": kind.name})
    assert answer.status_code == (202 if kind.is_requestable else 400)


async def test_jobs_are_listed_by_state_and_kind_page_by_page(house: House) -> None:
    console = house.console
    jobs = [make.job("audit", dedupe=f"a{n}") for n in range(5)] + [make.job("compact")]
    await house.ledger.append(make.draft(jobs=jobs))
    first, second = await take(console), await take(console)
    done(await report(console, second, "succeed"))

    async def listed(**query: Any) -> list[list[str]]:
        pages, token = [], ""
        while True:
            page = done(await console.get("/jobs", max_results=2, page_token=token, **query))
            pages.append([item["id"] for item in page["items"]])
            if page["next_page_token"] is None:
                return pages
            token = page["next_page_token"]

    assert [id for page in await listed() for id in page] == sorted(job.id for job in jobs)
    assert [len(page) for page in await listed()] == [2, 2, 2]
    assert await listed(state="running") == [[first["job"]["id"]]]
    assert await listed(state="succeeded") == [[second["job"]["id"]]]
    assert await listed(state="failed") == [[]]
    assert [len(page) for page in await listed(state="queued", kind="audit")] == [2, 1]
    assert await listed(kind="compact") == [[jobs[-1].id]]
    refused(await console.get("/jobs", state="sunk"), 400, "INVALID_INPUT", "state")
    token = done(await console.get("/jobs", max_results=2))["next_page_token"]
    refused(await console.get("/jobs", kind="audit", page_token=token), 400, "INVALID_INPUT", "page_token")


# --- the fence of a job, through every API ------------------------------------------------------


async def create_catalog(house: House, name: str, job: str, key: str | None = None) -> Any:
    headers = {"moorage-job": job, **({} if key is None else {"idempotency-key": key})}
    return await house.console.http.post("/api/moorage/v1/catalogs", json={"name": name}, headers=headers)


async def test_a_change_for_a_job_is_refused_once_the_lease_is_lost(house: House) -> None:
    job = await enqueue(house.console)
    first = await take(house.console)
    assert (await create_catalog(house, "one", f"{job['id']};fence={first['fence']}")).status_code == 201
    house.clock.advance(LEASE_MS + 1)
    second = await take(house.console, "w2")
    late = await create_catalog(house, "two", f"{job['id']};fence={first['fence']}", key="k")
    refused(late, 409, "LEASE_LOST")
    refused(await create_catalog(house, "two", f"{job['id']};fence={first['fence']}", key="k"), 409, "LEASE_LOST")
    assert (await create_catalog(house, "two", f"{job['id']};fence={second['fence']}")).status_code == 201
    done(await report(house.console, second, "succeed", result={}))
    refused(await create_catalog(house, "three", f"{job['id']};fence={second['fence']}"), 409, "LEASE_LOST")
    assert await house.console.names("/catalogs") == ["one", "two"]


async def test_the_fence_of_a_job_holds_in_the_other_apis_too(house: House) -> None:
    job = await enqueue(house.console)
    headers = {"moorage-job": f"{job['id']};fence={WRONG_FENCE}"}
    http = house.console.http
    unity = await http.post("/api/2.1/unity-catalog/catalogs", json={"name": "u"}, headers=headers)
    assert (unity.status_code, unity.json()["error_code"]) == (409, "ABORTED")
    await house.console.make("lake")
    iceberg = await http.post("/iceberg/v1/lake/namespaces", json={"namespace": ["n"]}, headers=headers)
    assert (iceberg.status_code, iceberg.json()["error"]["type"]) == (409, "CommitFailedException")
    lance = await http.post("/lance/v1/namespace/lake$n/create", json={}, headers=headers)
    assert lance.status_code == 409


@pytest.mark.parametrize("header", ["", "x", "x;fence=", ";fence=y", "x;fence=y;z"])
async def test_a_malformed_job_header_is_refused(house: House, header: str) -> None:
    refused(await create_catalog(house, "one", header), 400, "INVALID_INPUT", "Moorage-Job")


async def test_a_job_that_ended_is_retried_as_a_new_job_like_it(house: House) -> None:
    console = house.console
    first = done(await console.post("/jobs", {"kind": "audit", "args": {"deep": 1}}), 202)
    assert done(await console.post(f"/jobs/{first['id']}:retry"), 202)["id"] == first["id"], "it is still open"
    done(await console.post(f"/jobs/{first['id']}:cancel"))
    again = done(await console.post(f"/jobs/{first['id']}:retry"), 202)
    assert (again["args"], again["state"]) == ({"deep": 1}, "queued")
    assert again["id"] != first["id"]
    assert done(await console.post(f"/jobs/{first['id']}:retry"), 202)["id"] == again["id"]
    refused(await console.post(f"/jobs/{UNKNOWN_ID}:retry"), 404, "JOB_NOT_FOUND")


async def test_an_ended_job_keeps_its_attempts_and_its_progress(house: House) -> None:
    console = house.console
    await enqueue(console)
    lease = await take(console)
    done(await report(console, lease, "renew", progress={"step": "reading"}))
    done(await report(console, lease, "fail", error="the disk was full"))
    house.clock.advance(60_000)
    second = await take(console)
    assert second["job"]["progress"] == {"step": "reading"}, "the log of earlier attempts continues"
    ended = done(await report(console, second, "succeed", result={}))
    assert (ended["attempt"], ended["progress"], ended["error"]) == (2, {"step": "reading"}, None)


async def test_jobs_are_listed_by_table_and_the_newest_first_in_pages(house: House) -> None:
    console = house.console
    ids = []
    for _ in range(5):
        ids.append((await enqueue(console))["id"])
        done(await console.post(f"/jobs/{ids[-1]}:cancel"))
    found: list[str] = []
    token = ""
    while True:
        page = done(await console.get(f"/jobs?newest_first=true&max_results=2&page_token={token}"))
        found += [job["id"] for job in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert found == ids[::-1]
    assert done(await console.get(f"/jobs?subject={UNKNOWN_ID}"))["items"] == []


async def test_a_postponed_job_waits_with_its_reason_and_uses_no_attempt(house: House) -> None:
    await enqueue(house.console)
    lease = await take(house.console)
    until_ms = START_MS + 300_000
    waiting = done(await report(house.console, lease, "postpone", until_ms=until_ms, reason="waiting for 'ann'"))
    assert (waiting["state"], waiting["attempt"], waiting["error"], waiting["not_before_ms"]) == (
        "queued",
        0,
        "waiting for 'ann'",
        until_ms,
    )
    assert await nothing_to_take(house.console)
    refused(await report(house.console, lease, "postpone", until_ms=0, reason="late"), 409, "LEASE_LOST")
    house.clock.advance(300_000)
    again = await take(house.console)
    assert again["job"]["attempt"] == 1
    house.clock.advance(6 * 3600 * 1000)
    again = await take(house.console)
    ended = done(await report(house.console, again, "postpone", until_ms=0, reason="waiting for 'ann'"))
    assert (ended["state"], ended["error"]) == ("cancelled", "gave up waiting for 'ann'")


async def test_a_worker_that_waits_gets_a_job_as_soon_as_it_is_enqueued(house: House) -> None:
    waiting = asyncio.create_task(
        house.console.post("/jobs:take", {"worker": "w", "kinds": ["audit"], "wait_seconds": 5})
    )
    await asyncio.sleep(0.2)
    assert not waiting.done()
    job = await enqueue(house.console)
    started = time.monotonic()
    lease = done(await waiting)
    assert lease["job"]["id"] == job["id"]
    assert time.monotonic() - started < 2


async def test_a_worker_waits_no_longer_than_it_asked_for(house: House) -> None:
    answer = await house.console.post("/jobs:take", {"worker": "w", "kinds": ["audit"], "wait_seconds": 0.1})
    assert answer.status_code == 204


async def test_an_expiry_keeps_what_the_retention_of_the_table_states(house: House) -> None:
    lake = await make.lake(house.ledger)
    doc = Doc(table=TableDoc(format="lance"), details={"retention_days": 3})
    await make.add(house.ledger, make.table(lake.namespace, "kept", doc=doc))
    path = "/catalogs/lake/namespaces/sea/tables/kept/jobs"
    job = done(await house.console.post(path, {"kind": "expire", "args": {"keep_last": 2}}), 202)
    assert job["args"] == {"older_than_days": 3, "keep_last": 2}
    assert done(await house.console.post(path, {"kind": "expire"}), 202)["id"] == job["id"], "it is still open"
    done(await house.console.post(f"/jobs/{job['id']}:cancel"))
    again = done(await house.console.post(path, {"kind": "expire", "args": {"older_than_days": 9}}), 202)
    assert again["args"] == {"older_than_days": 9}
