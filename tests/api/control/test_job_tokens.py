"""The token of a job opens the table of the job, and nothing else, until the job ends."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.ids import Fence, JobId, SecurableId
from moorage.core.job_tokens import JobToken, job_token_key, new_job_token, parse_job_token
from moorage.core.tokens import parse_token
from moorage.testing import builders as make
from tests.api.control.guarded import CONTROL, UNITY, Guarded
from tests.api.control.test_grants import ICEBERG, commit, furnish, grant, revoke
from tests.api.control.test_sessions import ACCESS_TOKEN, CONTROL_EXCHANGE, EXCHANGE, LANCE, ask
from tests.api.control.test_sessions import ICEBERG as OAUTH
from tests.api.house import V1, done

TABLE = f"{V1}/catalogs/lake/namespaces/sea/tables/boats"


@pytest.fixture
async def worker(guarded: Guarded) -> str:
    """The token of a principal that may run jobs, and that no table is granted to."""
    await furnish(guarded)
    token = await guarded.user("worker")
    await grant(guarded, "metastore", "main", "worker", "RUN JOBS")
    return token


async def take(guarded: Guarded, worker: str, kind: str = "compact") -> dict[str, Any]:
    await guarded.run("POST", f"{TABLE}/jobs", {"kind": kind}, status=202)
    answer = await guarded.ask(worker, "POST", f"{V1}/jobs:take", {"worker": "w", "kinds": [kind]})
    lease: dict[str, Any] = done(answer)
    return lease


async def test_it_reads_and_writes_the_table_that_the_worker_itself_may_not_touch(
    guarded: Guarded, worker: str
) -> None:
    token = (await take(guarded, worker))["token"]
    assert await guarded.status(worker, "GET", f"{ICEBERG}/boats") == 404
    assert await guarded.status(worker, "POST", f"{ICEBERG}/boats", commit()) == 404
    assert await guarded.status(token, "GET", "/iceberg/v1/config?warehouse=lake") == 200
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 200
    assert await guarded.status(token, "GET", f"{TABLE}/health") == 200
    assert await guarded.status(token, "POST", f"{ICEBERG}/boats", commit()) == 200
    entries = await guarded.run("GET", f"{V1}/feed?limit=1000")
    assert entries["entries"][-1]["caller"] == "worker"


async def test_it_opens_nothing_else(guarded: Guarded, worker: str) -> None:
    lease = await take(guarded, worker)
    token, id = lease["token"], lease["job"]["id"]
    refused: list[tuple[str, str, Any, int]] = [
        ("GET", f"{ICEBERG}/nets", None, 404),
        ("POST", f"{ICEBERG}/nets", commit(), 404),
        ("POST", ICEBERG, {"name": "new", "schema": {"type": "struct", "fields": []}}, 403),
        ("DELETE", f"{ICEBERG}/boats", None, 403),
        ("PATCH", f"{UNITY}/permissions/table/lake.sea.boats", {"changes": []}, 403),
        ("POST", f"{CONTROL}/tokens", {}, 403),
        ("POST", f"{V1}/jobs:take", {"worker": "w", "kinds": ["compact"]}, 403),
        ("POST", f"{V1}/jobs/{id}:succeed", {"fence": lease["fence"], "result": {}}, 403),
        ("GET", f"{V1}/feed", None, 403),
    ]
    found = [await guarded.status(token, verb, path, body) for verb, path, body, _ in refused]
    assert found == [status for *_, status in refused]


@pytest.mark.parametrize("path", [OAUTH, LANCE, CONTROL_EXCHANGE])
async def test_it_is_not_exchanged_for_a_session_of_the_worker(guarded: Guarded, worker: str, path: str) -> None:
    """A session is not confined to the table of the job."""
    token = (await take(guarded, worker))["token"]
    for form in (
        {"grant_type": "client_credentials", "client_id": "worker", "client_secret": token},
        {"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": ACCESS_TOKEN},
    ):
        answer = await ask(guarded, path, **form)
        assert answer.status_code in (400, 401), answer.text
        assert "access_token" not in answer.json()


async def test_its_changes_need_the_lease_even_without_the_header_of_the_job(guarded: Guarded, worker: str) -> None:
    token = (await take(guarded, worker))["token"]
    guarded.house.clock.advance(61_000)
    again = done(await guarded.ask(worker, "POST", f"{V1}/jobs:take", {"worker": "w2", "kinds": ["compact"]}))
    lost = await guarded.ask(token, "POST", f"{ICEBERG}/boats", commit())
    assert (lost.status_code, "another worker" in lost.text) == (409, True), lost.text
    assert await guarded.status(again["token"], "POST", f"{ICEBERG}/boats", commit()) == 200


async def test_it_ends_with_its_job_and_with_its_principal(guarded: Guarded, worker: str) -> None:
    lease = await take(guarded, worker)
    token = lease["token"]
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    assert await guarded.status(forged, "GET", f"{ICEBERG}/boats") == 401
    change = {"Operations": [{"op": "replace", "path": "active", "value": False}]}
    await guarded.run("PATCH", f"{CONTROL}/scim2/Users/{guarded.ids['worker']}", change)
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 401
    change["Operations"][0]["value"] = True
    await guarded.run("PATCH", f"{CONTROL}/scim2/Users/{guarded.ids['worker']}", change)
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 200
    await guarded.run("POST", f"{V1}/jobs/{lease['job']['id']}:cancel")
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 401


async def test_it_ends_when_its_worker_may_no_longer_run_jobs(guarded: Guarded, worker: str) -> None:
    """Otherwise a worker would keep the table until the job ends, if no other worker takes its lease."""
    token = (await take(guarded, worker))["token"]
    await revoke(guarded, "metastore", "main", "worker", "RUN JOBS")
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 401
    assert await guarded.status(token, "POST", f"{ICEBERG}/boats", commit()) == 401
    await grant(guarded, "metastore", "main", "worker", "RUN JOBS")
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 200


@pytest.mark.parametrize("end", ["revoked", "expired"])
async def test_it_ends_with_the_token_of_its_worker(guarded: Guarded, worker: str, end: str) -> None:
    """A token that was stolen and then revoked must not live on in the tokens of jobs."""
    own = await guarded.token("worker", lifetime_days=1)
    parsed = parse_token(own)
    assert parsed is not None
    token = (await take(guarded, own))["token"]
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 200
    if end == "revoked":
        await guarded.run("DELETE", f"{CONTROL}/tokens/{parsed.id}", status=204)
    else:
        guarded.house.clock.advance(24 * make.HOUR_MS + 1)
    assert await guarded.status(worker, "GET", f"{V1}/jobs") == 200
    assert await guarded.status(token, "GET", f"{ICEBERG}/boats") == 401


async def test_a_job_that_is_not_about_a_table_has_no_token(guarded: Guarded, worker: str) -> None:
    await guarded.run("POST", f"{V1}/jobs", {"kind": "audit"}, status=202)
    lease = done(await guarded.ask(worker, "POST", f"{V1}/jobs:take", {"worker": "w", "kinds": ["audit"]}))
    assert lease["token"] is None


@pytest.mark.parametrize("name", ["worker", "wörker", "a.b@c", "x" * 200])
def test_a_token_says_which_job_fence_and_principal(name: str) -> None:
    key = job_token_key(b"secret")
    for made_from in (None, SecurableId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d12")):
        token = JobToken(JobId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11"), Fence("b2a7f4c8d1e04f6f9a3c"), name, made_from)
        text = new_job_token(key, token)
        assert parse_job_token(key, text) == token
        assert parse_job_token(job_token_key(b"other"), text) is None
