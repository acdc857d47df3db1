"""`moorage worker`: leases, fences, and programs that fail."""

import contextlib
import hashlib
import json
import signal
import sqlite3
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from moorage.client import Client, ClientError
from moorage.client.answers import Job
from moorage.core.jobs import LEASE_MS
from moorage.pipeline.lease_keeper import LeaseKeeper, LostLease
from moorage.pipeline.program import PermanentFailure, Progress
from moorage.pipeline.worker import Worker
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.cli.conftest import Moorage


def end_of(client: Client, job: Job, *, within_s: float = 30.0) -> Job:
    deadline = time.monotonic() + within_s
    while (now := client.jobs.get(job.id)).ended_at_ms is None:
        assert time.monotonic() < deadline, now
        time.sleep(0.05)
    return now


@contextlib.contextmanager
def running_worker(url: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "worker", "--url", url, "--no-spark"], env=clean_environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_an_audit_hashes_the_whole_feed(moorage: Moorage, catalog: ServerProcess, client: Client) -> None:
    client.catalogs.create("grün", comment="ü")
    with ThreadPoolExecutor(16) as writers:
        list(writers.map(lambda number: client.namespaces.create("grün", (f"n{number}",)), range(1100)))
    job = client.jobs.create("audit")
    done = moorage("worker", "--url", catalog.url, "--once")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ended = client.jobs.get(job.id)
    assert (ended.state, ended.attempt) == ("succeeded", 1)

    whole = hashlib.sha256()
    for after in (0, 1000):
        with urllib.request.urlopen(f"{catalog.url}/api/moorage/v1/feed?limit=1000&after={after}") as page:
            for entry in json.load(page)["entries"]:
                if entry["seq"] <= 1103:
                    line = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                    whole.update(line.encode() + b"\n")
    assert ended.result == {"entries": 1103, "sha256": whole.hexdigest()}


def test_an_idle_worker_stops_immediately_on_sigterm(catalog: ServerProcess, client: Client) -> None:
    with running_worker(catalog.url) as worker:
        end_of(client, client.jobs.create("audit"))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(5) == 0
        assert worker.stderr is not None
        assert worker.stderr.read() == ""


def test_a_worker_survives_a_restart_of_its_catalog(catalog: ServerProcess, client: Client) -> None:
    with running_worker(catalog.url) as worker:
        end_of(client, client.jobs.create("audit"))
        catalog.kill()
        assert worker.stderr is not None
        assert "cannot take jobs, still retrying: cannot reach" in worker.stderr.readline()
        catalog.start()
        assert end_of(client, client.jobs.create("audit")).state == "succeeded"


def test_a_worker_with_a_wrong_url_exits_with_one_line(moorage: Moorage, catalog: ServerProcess) -> None:
    refused = moorage("worker", "--url", f"{catalog.url}/nowhere", "--once")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1


def test_a_worker_whose_lease_has_expired_cannot_finish_the_job(
    catalog: ServerProcess, client: Client, tmp_path: Path
) -> None:
    job = client.jobs.create("audit")
    sleeper = client.jobs.take("sleeper", ["audit"])
    assert sleeper is not None
    assert client.jobs.take("other", ["audit"]) is None
    catalog.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "ledger.db")) as db:
        db.execute("update lease set until_ms = 1")  # the lease expires
        db.commit()
    catalog.start()
    other = client.jobs.take("other", ["audit"])
    assert other is not None
    assert (other.job.id, other.job.attempt) == (job.id, 2)
    for late in (
        lambda: client.jobs.renew(job.id, sleeper.fence),
        lambda: client.jobs.succeed(job.id, sleeper.fence, {"late": True}),
        lambda: client.jobs.fail(job.id, sleeper.fence, "late"),
        lambda: client.jobs.fail(job.id, sleeper.fence, "late", final=True),
    ):
        with pytest.raises(ClientError) as refused:
            late()
        assert refused.value.code == "LEASE_LOST"
    client.jobs.succeed(job.id, other.fence, {"by": "other"})
    assert client.jobs.get(job.id).result == {"by": "other"}


# --- the worker in this process, with programs defined by the tests ----------------------------------------


def work(client: Client, program: Callable[[Job, Client, Progress], dict[str, Any]], stop: threading.Event) -> None:
    Worker(client, stop, programs={"audit": program}, renewal_s=0.05).run(once=True)


def test_a_program_that_fails_requeues_its_job_with_the_reason(client: Client) -> None:
    def fail_once(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        raise ZeroDivisionError("the lake is empty")

    job = client.jobs.create("audit")
    work(client, fail_once, threading.Event())
    requeued = client.jobs.get(job.id)
    assert (requeued.state, requeued.attempt, requeued.error) == ("queued", 1, "ZeroDivisionError: the lake is empty")
    assert requeued.not_before_ms > job.not_before_ms


def test_a_job_that_failed_permanently_is_not_retried(client: Client) -> None:
    def fail_permanently(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        raise PermanentFailure("entry 7 is missing")

    job = client.jobs.create("audit")
    work(client, fail_permanently, threading.Event())
    ended = client.jobs.get(job.id)
    assert (ended.state, ended.error) == ("failed", "entry 7 is missing")


def test_a_worker_that_is_stopped_requeues_its_job(client: Client) -> None:
    stop = threading.Event()

    def run_on(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        progress({"half": True})
        stop.set()
        progress({"more": True})
        return {"never": "reached"}

    job = client.jobs.create("audit")
    work(client, run_on, stop)
    requeued = client.jobs.get(job.id)
    assert (requeued.state, requeued.error) == ("queued", "the worker was stopped")


def test_progress_is_visible_while_a_program_runs(client: Client) -> None:
    seen: list[dict[str, Any] | None] = []

    def watch(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        progress({"entries": 5})
        deadline = time.monotonic() + 10
        while (now := client.jobs.get(job.id)).progress is None and time.monotonic() < deadline:
            time.sleep(0.02)
        seen.append(now.progress)
        return {}

    client.jobs.create("audit")
    work(client, watch, threading.Event())
    assert seen == [{"entries": 5}]


def test_a_program_whose_job_was_cancelled_is_stopped_and_its_result_discarded(client: Client) -> None:
    stopped: list[bool] = []

    def run_on(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        client.jobs.cancel(job.id)
        deadline = time.monotonic() + 10
        try:
            while time.monotonic() < deadline:
                progress({})
                time.sleep(0.02)
        except LostLease:
            stopped.append(True)
            raise
        return {"must": "not count"}

    job = client.jobs.create("audit")
    work(client, run_on, threading.Event())
    ended = client.jobs.get(job.id)
    assert stopped == [True]
    assert (ended.state, ended.result) == ("cancelled", None)


def test_a_lease_that_could_not_be_renewed_in_time_counts_as_lost(catalog: ServerProcess, client: Client) -> None:
    client.jobs.create("audit")
    lease = client.jobs.take("w", ["audit"])
    assert lease is not None
    now = 1000.0
    with LeaseKeeper(client, lease, since=now, renewal_s=0.02, monotonic=lambda: now) as keeper:
        catalog.kill()
        now += LEASE_MS / 1000 - 1
        lost = [keeper.is_lost]
        now += 1
        lost.append(keeper.is_lost)
        assert lost == [False, True]
        with pytest.raises(LostLease):
            keeper.require()
