"""`moorage job`: the jobs of a catalog on the command line."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest

from moorage.client import Client
from moorage.client.answers import Job
from moorage.pipeline.program import PermanentFailure, Progress
from moorage.pipeline.worker import Worker
from moorage.testing.server import ServerProcess
from tests.cli.conftest import Moorage


def work(client: Client, program: Any) -> None:
    Worker(client, threading.Event(), programs={"audit": program}, name="w1", renewal_s=0.05).run(once=True)


def rewrite(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
    progress({"step": "rewriting", "fraction": 0.5, "spark": {"application": "app-1", "ui": "http://127.0.0.1:4040"}})
    return {"before": {"files": 5000, "bytes": 10}, "after": {"files": 2, "bytes": 9}, "version": 7}


def fail(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
    progress({"step": "reading"})
    raise PermanentFailure("the table was dropped")


def test_a_job_that_ended_shows_its_log_its_attempts_and_what_it_changed(
    moorage: Moorage, catalog: ServerProcess, client: Client
) -> None:
    job = client.jobs.create("audit")
    work(client, rewrite)
    shown = moorage("job", "show", job.id, "--url", catalog.url).stdout
    assert "succeeded, attempt 1 of 5" in shown
    assert "files        5,000 → 2" in shown
    assert "app-1 http://127.0.0.1:4040" in shown
    assert "attempt 1  rewriting" in shown
    ended = client.jobs.get(job.id)
    assert ended.progress is not None
    assert [(line["attempt"], line["worker"], line["text"]) for line in ended.progress["log"]] == [
        (1, "w1", "rewriting")
    ]


def test_a_watched_job_that_fails_fails_the_command(moorage: Moorage, catalog: ServerProcess, client: Client) -> None:
    job = client.jobs.create("audit")
    work(client, fail)
    watched = moorage("job", "watch", job.id, "--url", catalog.url)
    assert watched.returncode == 1
    assert "error        the table was dropped" in watched.stdout
    assert "attempt 1  failed: the table was dropped" in watched.stdout


def test_a_failed_job_is_retried_as_a_new_job(moorage: Moorage, catalog: ServerProcess, client: Client) -> None:
    job = client.jobs.create("audit")
    work(client, fail)
    again = json.loads(moorage("job", "retry", job.id[-12:], "--json", "--url", catalog.url).stdout)
    assert (again["kind"], again["state"], again["attempt"]) == ("audit", "queued", 0)
    assert again["id"] != job.id
    assert json.loads(moorage("job", "retry", again["id"], "--json", "--url", catalog.url).stdout)["id"] == again["id"]
    assert moorage("job", "cancel", again["id"], "--url", catalog.url).returncode == 0
    assert client.jobs.get(again["id"]).state == "cancelled"


def test_jobs_are_listed_the_newest_first(moorage: Moorage, catalog: ServerProcess, client: Client) -> None:
    ids = []
    for _ in range(3):
        ids.append(client.jobs.create("audit").id)
        client.jobs.cancel(ids[-1])
    listed = moorage("job", "list", "--limit", 2, "--url", catalog.url).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["id", ids[2], ids[1]]
    assert moorage("job", "list", "--state", "queued", "--url", catalog.url).stdout == ""


def test_a_job_names_its_table(moorage: Moorage, catalog: ServerProcess, client: Client) -> None:
    client.catalogs.create("lake")
    client.namespaces.create("lake", ["sea"])
    body = {
        "name": "t",
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]},
    }
    created = httpx.post(f"{catalog.url}/iceberg/v1/lake/namespaces/sea/tables", json=body, trust_env=False)
    assert created.status_code == 200
    started = moorage("job", "start", "compact", "lake.sea.t", "--url", catalog.url).stdout
    assert "about        lake.sea.t\n" in started
    assert " lake.sea.t" in moorage("job", "list", "--url", catalog.url).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("show", "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10"), "no job has the id '01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10'"),
        (("list", "--table", "orders"), "expected CATALOG.NAMESPACE.TABLE, not 'orders'"),
        (("list", "--table", "lake.sales.orders"), "'lake'"),
        (("pause", "x"), "invalid choice"),
    ],
)
def test_a_mistake_is_reported_in_one_line(
    moorage: Moorage, catalog: ServerProcess, args: tuple[str, ...], words: str
) -> None:
    result = moorage("job", *args, MOORAGE_URL=catalog.url)
    assert result.returncode in (1, 2)
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
