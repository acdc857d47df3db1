"""Servers and workers that are killed during upkeep without Spark: another attempt completes the job, exactly once."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moorage.client import Client, ClientError
from moorage.client.answers import Job
from moorage.client.delta import DeltaTables
from moorage.client.delta.data_files import write_files
from moorage.faults import CHECKPOINT, VACUUM, WORKER
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.crash.children import SOAK

SCHEMA = pa.schema([("id", pa.int64())])
FIELDS = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
NOW = {"delta.deletedFileRetentionDuration": "interval 0 days", "delta.logRetentionDuration": "interval 0 days"}
COMMITS = 11
FLAGS = ("--deletion-delay-minutes", "0", "--share-url-minutes", "1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", flags=FLAGS) as server:
        yield server


def new_table(url: str, name: str, commits: int = COMMITS) -> str:
    """A managed table with one file per commit, of which the last commit replaces all. Returns its location."""
    with Client(url) as client, DeltaTables(url) as tables:
        with contextlib.suppress(ClientError):  # they exist
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sea"])
        new = tables.stage(f"lake.sea.{name}")
        tables.create(new, FIELDS, file(new.location, 0), properties=NOW)
        state = tables.state(f"lake.sea.{name}")
        for number in range(1, commits):
            last = number == commits - 1
            tables.commit(
                f"lake.sea.{name}", new.table_id, state.schema_string, file(new.location, number), overwrite=last
            )
        return new.location


def file(location: str, number: int) -> list[dict[str, Any]]:
    return write_files(pa.table({"id": [number]}, SCHEMA).to_batches(), SCHEMA, (), location)


def work(url: str, *, die_at: str = "") -> int:
    """Run a worker without Spark until no job is due, and return its exit code."""
    command = [*COMMAND, "worker", "--url", url, "--once", "--no-spark"]
    environment = clean_environment(MOORAGE_DIE_AT=die_at)
    return subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False).returncode


def expire_leases(server: ServerProcess) -> None:
    server.stop()
    with contextlib.closing(sqlite3.connect(server.data / "ledger.db")) as db:
        db.execute("update lease set until_ms = 1, not_before_ms = 1")
        db.execute("update job set run_at = 1")
        db.commit()
    server.start()


def log_of(location: str) -> Path:
    return Path(location.removeprefix("file://").removeprefix("file:")) / "_delta_log"


def ids(url: str, name: str = "t") -> list[int]:
    import pyarrow.parquet as pq

    with DeltaTables(url) as tables:
        state = tables.state(f"lake.sea.{name}")
        root = log_of(state.location).parent
        return sorted(id for each in state.files for id in pq.read_table(root / each["path"])["id"].to_pylist())


def require_checkpoint(location: str) -> None:
    """Require a complete checkpoint under the hint, and that every sidecar in use exists."""
    log = log_of(location)
    hint = json.loads((log / "_last_checkpoint").read_bytes())
    assert (hint["version"], (log / hint["v2Checkpoint"]["path"]).exists()) == (COMMITS - 1, True)


def ended(url: str, id: str) -> Job:
    with Client(url) as client:
        job = client.jobs.get(id)
    assert (job.state, job.error) == ("succeeded", None)
    return job


@pytest.mark.parametrize("step", WORKER)
def test_another_worker_completes_the_job_of_a_killed_one(server: ServerProcess, step: str) -> None:
    location = new_table(server.url, "t")
    with Client(server.url) as client:
        id = client.namespaces.create_job("lake", ["sea"], "t", "checkpoint").id
    assert work(server.url, die_at=step) == -9
    expire_leases(server)
    assert work(server.url) == 0
    assert ended(server.url, id).attempt == (1 if step == "worker.reported" else 2)
    require_checkpoint(location)
    assert len(list(log_of(location).glob("*.checkpoint.*"))) == 1
    assert ids(server.url) == [COMMITS - 1]


def dies_during(server: ServerProcess, step: str) -> int:
    """Run a worker while the server dies at a step, and is started again. The worker repeats its request."""
    server.stop()
    server._environment = clean_environment(MOORAGE_DIE_AT=step)
    server.start()
    command = [*COMMAND, "worker", "--url", server.url, "--once", "--no-spark"]
    with subprocess.Popen(command, env=clean_environment(), stderr=subprocess.DEVNULL) as worker:
        assert server._process is not None
        assert server._process.wait(60) == -9
        server._environment = clean_environment()
        server._process = None
        server.start()
        return worker.wait(60)


@pytest.mark.parametrize("step", CHECKPOINT if SOAK else ("checkpoint.sidecars", "checkpoint.written"))
def test_a_checkpoint_during_which_the_server_is_killed_is_completed(server: ServerProcess, step: str) -> None:
    location = new_table(server.url, "t")
    with Client(server.url) as client:
        id = client.namespaces.create_job("lake", ["sea"], "t", "checkpoint").id
    assert dies_during(server, step) == 0
    ended(server.url, id)
    require_checkpoint(location)
    assert ids(server.url) == [COMMITS - 1]


@pytest.mark.parametrize("step", VACUUM if SOAK else ("vacuum.deleted",))
def test_a_vacuum_during_which_the_server_is_killed_is_completed(server: ServerProcess, step: str) -> None:
    location = new_table(server.url, "t")
    with Client(server.url) as client:
        client.namespaces.create_job("lake", ["sea"], "t", "expire")
        lease = client.jobs.take("w", ["expire"])
        assert lease is not None
        found = client.for_job(lease).rewrites.announce_expiry(lease.job.subject or "")
        client.jobs.succeed(lease.job.id, lease.fence, {})
        assert (found.floor, found.files) == (COMMITS - 1, COMMITS - 1)
        assert found.job is not None
    expire_leases(server)  # the vacuum is due now, not in a minute
    assert dies_during(server, step) == 0
    ended(server.url, found.job)
    folder = log_of(location).parent
    assert len(list(folder.glob("*.parquet"))) == 1
    assert [int(path.stem) for path in log_of(location).glob("*.json")] == [COMMITS - 1]
    require_checkpoint(location)
    assert ids(server.url) == [COMMITS - 1]


@pytest.mark.postgres
def test_each_job_of_two_servers_and_three_workers_runs_once_at_a_time(tmp_path: Path, database_url: str) -> None:
    names = [f"t{number}" for number in range(9)]
    data = tmp_path / "data"
    with ServerProcess(data, database=database_url) as one, ServerProcess(data, database=database_url) as two:
        locations = {name: new_table(one.url, name, 3) for name in names}
        with Client(one.url) as first, Client(two.url) as second:
            jobs = [
                (first, second)[number % 2].namespaces.create_job("lake", ["sea"], name, "checkpoint").id
                for number, name in enumerate(names)
            ]
        command = [*COMMAND, "worker", "--once", "--no-spark", "--url"]
        workers = [
            subprocess.Popen([*command, url], env=clean_environment(), stderr=subprocess.DEVNULL)
            for url in (one.url, two.url, one.url)
        ]
        assert [worker.wait(60) for worker in workers] == [0, 0, 0]
        found = [ended(two.url, id) for id in jobs]
    assert {job.attempt for job in found} == {1}
    for name in names:
        assert len(list(log_of(locations[name]).glob("*.checkpoint.*"))) == 1, name
