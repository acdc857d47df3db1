"""Workers and servers that are killed during a compaction: nothing is lost or doubled, and no files are left over."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moorage.client import Client, ClientError
from moorage.client.answers import Lease
from moorage.core.rewrites import Shadow
from moorage.faults import COMPACTION
from moorage.pipeline.delta_upkeep import optimise
from moorage.testing.server import ServerProcess, clean_environment
from tests.crash.children import SOAK
from tests.upkeep.conftest import Finish, OwnSession
from tests.upkeep.managed_lake import CATALOG, SCHEMA, UNITY, ManagedTable, rows_of, small_files
from tests.upkeep.test_worker_process import worker_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("taken", "planned", "rewritten", "offered")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    # No chores: they write too, and a server is killed at its n-th write. The start of a server is its first one.
    with ServerProcess(tmp_path / "data", flags=("--chores-interval-seconds", "3600")) as server:
        with httpx.Client(base_url=server.url, trust_env=False) as http:
            http.post(f"{UNITY}/catalogs", json={"name": CATALOG}).raise_for_status()
            http.post(f"{UNITY}/schemas", json={"name": SCHEMA, "catalog_name": CATALOG}).raise_for_status()
        yield server


def run_until(step: str, client: Client, table: ManagedTable, spark: SparkSession) -> tuple[Lease, Shadow | None]:
    """What a worker has done when it is killed after a step."""
    table.compact()
    lease = client.jobs.take("victim", ["compact"])
    assert lease is not None
    worker, shadow = client.for_job(lease), None
    if step != "taken":
        shadow = worker.rewrites.next_shadow(table.id).shadow
        assert shadow is not None
        if step != "planned":
            optimise(OwnSession(spark), shadow, lease.job, lambda _: None)
        if step == "offered":
            worker.rewrites.offer(table.id, shadow)
    return lease, shadow


def expire_lease(server: ServerProcess) -> None:
    server.stop()
    with contextlib.closing(sqlite3.connect(server.data / "ledger.db")) as db:
        db.execute("update lease set until_ms = 1")
        db.commit()
    server.start()


def leftovers(table: ManagedTable) -> set[str]:
    """Files in the folders of shadows that no version refers to."""
    named = {
        action[kind]["path"]
        for actions in table.commits().values()
        for action in actions
        for kind in ("add", "remove")
        if kind in action
    }
    found = {str(path.relative_to(table.folder)) for path in table.folder.glob("compact-*/**/*") if path.is_file()}
    return {path for path in found if path not in named and not path.endswith(".crc")}


@pytest.mark.parametrize("step", STEPS)
def test_another_worker_completes_the_job_of_a_killed_one(
    spark: SparkSession,
    http: httpx.Client,
    client: Client,
    server: ServerProcess,
    finish: Finish,
    copy: Path,
    step: str,
) -> None:
    table = small_files(spark, http, "t", times=2).adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    lease, shadow = run_until(step, client, table, spark)
    expire_lease(server)
    ended = finish({"id": lease.job.id})
    assert (ended.state, ended.error) == ("succeeded", None)
    if shadow is not None:  # the first worker was only asleep
        with pytest.raises(ClientError) as refused:
            client.for_job(lease).rewrites.offer(table.id, shadow)
        assert refused.value.code == "LEASE_LOST"
    assert len(table.files()) == 1
    assert leftovers(table) == set()
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


@pytest.mark.skipif(not SOAK, reason="each worker starts its own Spark; MOORAGE_SOAK=1 runs it")
@pytest.mark.parametrize("step", ["worker.taken", *COMPACTION, "worker.done"])
def test_another_worker_completes_the_job_of_a_killed_process(
    spark: SparkSession,
    http: httpx.Client,
    server: ServerProcess,
    finish: Finish,
    copy: Path,
    tmp_path: Path,
    step: str,
) -> None:
    table = small_files(spark, http, "t", times=2).adopt()
    before = rows_of(spark, table.plain_copy(copy / "before"))
    job = table.compact()
    with worker_process(server.url, tmp_path / "worker.log", die_at=step) as worker:
        assert worker.wait(240) == -9
    expire_lease(server)
    ended = finish(job)
    assert (ended.state, ended.error, ended.attempt) == ("succeeded", None, 2)
    assert len(table.files()) == 1
    assert leftovers(table) == set()
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


def dying_at(server: ServerProcess, step: str) -> None:
    server.stop()
    server._environment = clean_environment(MOORAGE_DIE_AT=step)
    server.start()


@pytest.mark.parametrize("step", ["append.checked", "append.applied", "append.committed:2"])
def test_an_offer_during_which_the_server_is_killed_happens_once(
    spark: SparkSession, http: httpx.Client, client: Client, server: ServerProcess, copy: Path, step: str
) -> None:
    table = small_files(spark, http, "t", times=2).adopt()
    before, version = rows_of(spark, table.plain_copy(copy / "before")), table.version()
    lease, shadow = run_until("rewritten", client, table, spark)
    assert shadow is not None
    dying_at(server, step)
    offered = in_thread(lambda: client.for_job(lease).rewrites.offer(table.id, shadow))
    assert server._process is not None
    assert server._process.wait(60) == -9
    server._environment = clean_environment()
    server._process = None
    server.start()
    result = offered()
    assert (result.outcome, result.version, table.version()) == ("committed", version + 1, version + 1)
    client.jobs.succeed(lease.job.id, lease.fence, {})
    assert len(table.files()) == 1
    assert rows_of(spark, table.plain_copy(copy / "after")) == before


def in_thread(work: Callable[[], object]) -> Callable[[], Any]:
    """Start work in a thread, and return a function that waits for its result."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()

    def result() -> Any:
        thread.join(90)
        return results[0]

    return result
