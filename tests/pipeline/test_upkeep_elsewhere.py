"""Upkeep of tables in an object store, and upkeep whose worker is killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from moorage.client import Client
from moorage.client.lance import Lake
from moorage.core.entries import JobState
from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.guarded_lakes import administrator_of
from tests.conformance.lakes import pyiceberg_of, s3_lake_server
from tests.pipeline.workers import spark_worker, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("upkeep"), pytest.mark.timeout(600)]

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def test_tables_in_an_object_store_are_compacted_and_expired(minio: MinioServer, tmp_path: Path) -> None:
    """The worker has no key of its own."""
    location = f"s3://{minio.new_bucket()}/lake/"
    with (
        s3_lake_server(tmp_path / "data", minio, location) as server,
        spark_worker(server.url, tmp_path / "worker.log"),
        Client(server.url) as client,
    ):
        client.namespaces.create("lake", ["sea"])
        delegation = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
        iceberg = pyiceberg_of(server, **delegation).create_table("sea.ice", ROWS.schema)
        lake, id = Lake(server.url), ["lake", "sea", "lan"]
        for number in range(6):
            iceberg.append(ROWS)
            mode = "append" if number else "create"
            lance.write_dataset(ROWS, namespace_client=lake, table_id=id, mode=mode)
        for name, kind in (("ice", "compact"), ("ice", "expire"), ("lan", "compact"), ("lan", "expire")):
            args = {"older_than_days": 0} if kind == "expire" else {}
            ended = wait_for(client, client.namespaces.create_job("lake", ["sea"], name, kind, args), seconds=300)
            assert ended.state is JobState.SUCCEEDED, ended
            assert ended.result is not None
            if kind == "compact":
                assert (ended.result["before"]["files"], ended.result["after"]["files"]) == (6, 1)
        iceberg.refresh()
        assert ids(iceberg.scan().to_arrow()) == sorted(list(range(10)) * 6)
        dataset = lance.dataset(namespace_client=lake, table_id=id)
        assert ids(dataset.to_table()) == sorted(list(range(10)) * 6)


def test_the_jobs_of_a_killed_worker_are_completed_by_another_one(tmp_path: Path) -> None:
    """With authentication on: the workers are a service principal that may run jobs, and has no grant on tables."""
    with ServerProcess(tmp_path / "data", flags=("--auth", "on")) as server:
        admin = administrator_of(server)
        with Client(server.url, token=admin) as client:
            worker = _new_worker(client)
            _complete_after_a_kill(server, client, admin, worker, tmp_path)


def _new_worker(client: Client) -> str:
    """The token of a service principal that may only run jobs."""
    client.catalogs.create("lake")
    client.namespaces.create("lake", ["sea"])
    client.access.create("ServicePrincipals", "worker")
    client.access.change_grants("metastore", "main", "worker", add=["RUN JOBS"])
    return client.access.create_token("worker").token or ""


def _complete_after_a_kill(server: ServerProcess, client: Client, admin: str, worker_token: str, folder: Path) -> None:
    iceberg = pyiceberg_of(server, token=admin).create_table("sea.ice", ROWS.schema)
    lake, id = Lake(server.url, headers={"authorization": f"Bearer {admin}"}), ["lake", "sea", "lan"]
    for number in range(10):
        iceberg.append(ROWS)
        mode = "append" if number else "create"
        lance.write_dataset(ROWS, namespace_client=lake, table_id=id, mode=mode)
    jobs = [client.namespaces.create_job("lake", ["sea"], name, "compact") for name in ("ice", "lan")]
    with spark_worker(server.url, folder / "first.log", MOORAGE_TOKEN=worker_token) as worker:
        deadline = time.monotonic() + 120
        while not _is_rewriting(client, jobs[0].id):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        worker.send_signal(signal.SIGKILL)
    with spark_worker(server.url, folder / "second.log", MOORAGE_TOKEN=worker_token):
        ended = [wait_for(client, job, seconds=240) for job in jobs]
    assert [job.state for job in ended] == [JobState.SUCCEEDED] * 2, ended
    assert ended[0].attempt == 2
    assert ended[0].progress is not None
    assert {line["attempt"] for line in ended[0].progress["log"]} == {1, 2}
    iceberg.refresh()
    assert ids(iceberg.scan().to_arrow()) == sorted(list(range(10)) * 10)
    assert ids(lance.dataset(namespace_client=lake, table_id=id).to_table()) == sorted(list(range(10)) * 10)
    for name in ("ice", "lan"):
        assert client.namespaces.health("lake", ["sea"], name).score >= 90


def _is_rewriting(client: Client, id: str) -> bool:
    job = client.jobs.get(id)
    return job.state is not JobState.QUEUED and "rewriting" in str((job.progress or {}).get("step"))
