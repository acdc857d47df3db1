"""Pipelines beside kills, lost files, other writers and strange input: each input row is stored exactly once.

MOORAGE_SOAK=1 makes the kill run and the number of files long.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.cli import sample, sample_pipeline
from moorage.cli.pipeline import run as pipeline_command
from moorage.client import Client
from moorage.client.answers import Job
from moorage.client.spark.settings import SparkSettings
from moorage.core.entries import JobState
from moorage.core.jobs import PIPELINE
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.project import fetch_rows
from moorage.pipeline.sdp.runs import pipeline_program
from moorage.pipeline.worker import Worker
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.conformance.guarded_lakes import administrator_of
from tests.pipeline.sites import SLOW, Site, kill_projects

pytestmark = pytest.mark.xdist_group("spark-pipeline")

SOAK = os.environ.get("MOORAGE_SOAK") == "1"


def fill(site: Site, files: range, rows: int = 10) -> None:
    for at in files:
        site.put(f"{at}.json", [{"id": rows * at + row, "amount": 1.0} for row in range(rows)])


def require_rows(site: Site, count: int) -> None:
    """Every row is in the streaming table once, and the view equals a computation from scratch."""
    assert sorted(row["id"] for row in site.rows("bronze")) == list(range(count))
    assert site.rows("gold") == [{"n": count, "ids": count}]


def beside_the_run(site: Site, act: Callable[[], object]) -> Job:
    """Run the pipeline, and act after its first batch is in the table."""
    before = len(snapshots(site))

    def watch() -> None:
        deadline = time.monotonic() + 150
        while len(snapshots(site)) <= before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        act()

    watcher = threading.Thread(target=watch)
    watcher.start()
    job = site.run()
    watcher.join()
    return job


def snapshots(site: Site) -> list[dict[str, object]]:
    found = site.client.pipelines.iceberg_metadata(f"lake.{site.schema}.bronze")
    return [] if found is None else found.get("snapshots") or []


def test_a_run_whose_process_was_killed_is_ended_in_the_spark_server(site: Site) -> None:
    site.python(SLOW)
    site.check()
    fill(site, range(8))
    failed = beside_the_run(site, kill_projects)
    assert failed.state is JobState.QUEUED
    assert "ended with code -9" in (failed.error or "")
    left = len(snapshots(site))
    time.sleep(2)
    assert len(snapshots(site)) <= left + 1  # the run does not go on without its client
    site.client.jobs.cancel(failed.id)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    require_rows(site, 80)


def test_a_run_that_is_stopped_publishes_nothing_and_the_next_one_has_each_row_once(site: Site) -> None:
    site.python(SLOW)
    site.check()
    fill(site, range(1))
    assert site.run().state is JobState.SUCCEEDED
    fill(site, range(1, 8))
    command = ["stop", f"lake.{site.schema}.daily", "--url", site.client.url]
    stopped = beside_the_run(site, lambda: pipeline_command(command))
    assert stopped.state is JobState.CANCELLED
    assert site.rows("gold") == [{"n": 10, "ids": 10}]
    assert site.run().state is JobState.SUCCEEDED
    require_rows(site, 80)


def test_a_batch_that_is_repeated_finds_its_mark_behind_a_compaction_and_an_expiry(site: Site) -> None:
    site.python(SLOW)
    site.check()
    fill(site, range(3))
    assert site.run().state is JobState.SUCCEEDED
    table = f"lake.{site.schema}.bronze"
    fetch_rows(site.connect, f"CALL lake.system.rewrite_data_files(table => '{table}', options => {MERGE_ALL})")
    job = site.client.namespaces.create_job("lake", [site.schema], "bronze", "expire", EXPIRE_ALL)
    command = [*COMMAND, "worker", "--once", "--url", site.client.url, "--spark-remote", site.connect.address()]
    subprocess.run(command, env=clean_environment(), check=True, timeout=180, capture_output=True)
    ended = site.client.jobs.get(job.id)
    assert ended.state is JobState.SUCCEEDED, ended.error
    assert len(snapshots(site)) == 2  # the compaction and, behind it, the last batch
    # The window between the commit of the table and that of Spark: the batch is in the table, and Spark repeats it.
    commits = next((site.folder / "state").glob("_checkpoints/**/bronze/**/commits"))
    newest = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    fill(site, range(3, 4))
    assert site.run().state is JobState.SUCCEEDED
    require_rows(site, 40)


MERGE_ALL = "map('rewrite-all', 'true')"
EXPIRE_ALL = {"older_than_days": 0, "keep_last": 1}


def test_a_compaction_in_the_middle_of_a_run_loses_no_row(site: Site) -> None:
    site.python(SLOW)
    site.check()
    fill(site, range(5))
    call = f"CALL lake.system.rewrite_data_files(table => 'lake.{site.schema}.bronze', options => {MERGE_ALL})"
    done = beside_the_run(site, lambda: fetch_rows(site.connect, call))
    assert done.state is JobState.SUCCEEDED, done.error
    require_rows(site, 50)


def test_a_streaming_table_that_was_dropped_in_the_middle_of_a_run_is_computed_again(site: Site) -> None:
    site.python(SLOW)
    site.check()
    fill(site, range(5))
    failed = beside_the_run(site, lambda: site.lake.drop_table(f"{site.schema}.bronze"))
    assert failed.state is JobState.QUEUED
    site.client.jobs.cancel(failed.id)
    fill(site, range(5, 6))
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    require_rows(site, 60)


def test_strange_files_lose_no_row_and_stop_no_run(site: Site) -> None:
    """Corrupt lines, empty files, files that are late, and files that change after they were read.

    A file is known by its name: one that was copied or renamed is read again, and its rows are duplicates.
    """
    site.python(
        SLOW.replace('"id LONG, amount DOUBLE"', '"id LONG, amount DOUBLE, corrupt STRING"').replace(
            '.json("{in}")', '.option("columnNameOfCorruptRecord", "corrupt").json("{in}")'
        )
    )
    site.check()
    fill(site, range(1, 2))
    (site.folder / "in" / "empty.json").touch()
    (site.folder / "in" / "corrupt.json").write_text('{"id": 20, "amount": 1.0}\n{broken\n')
    assert site.run().state is JobState.SUCCEEDED
    fill(site, range(1))
    os.utime(site.folder / "in" / "0.json", (1_000_000_000, 1_000_000_000))  # late: older than all files before it
    (site.folder / "in" / "empty.json").write_text('{"id": 99, "amount": 1.0}\n')  # under a name that was read already
    shutil.copy(site.folder / "in" / "1.json", site.folder / "in" / "copied.json")
    (site.folder / "in" / "corrupt.json").rename(site.folder / "in" / "renamed.json")
    assert site.run().state is JobState.SUCCEEDED
    found = site.rows("bronze")
    assert sorted(row["id"] for row in found if row["corrupt"] is None) == sorted([*range(21), *range(10, 21)])
    assert [row["corrupt"] for row in found if row["corrupt"] is not None] == ["{broken"] * 2
    assert [row["ids"] for row in site.rows("gold")] == [21]


def test_columns_that_come_and_go_between_runs_keep_the_old_rows(site: Site) -> None:
    site.python(SLOW)
    site.check()
    fill(site, range(1))
    assert site.run().state is JobState.SUCCEEDED
    site.python(SLOW.replace("id LONG, amount DOUBLE", "id LONG, flag STRING"))
    site.check()
    site.put("new.json", [{"id": 10, "flag": "NO"}])
    assert site.run().state is JobState.SUCCEEDED
    rows = sorted(site.rows("bronze"), key=lambda row: row["id"])
    assert [(row["id"], row["amount"], row["flag"]) for row in rows[-2:]] == [(9, 1.0, None), (10, None, "NO")]
    site.python(SLOW.replace("id LONG, amount DOUBLE", "id LONG, flag LONG"))
    site.check()
    refused = site.run()  # another type of a column needs another table
    assert refused.state is JobState.QUEUED
    assert "incompatible" in (refused.error or "")
    assert len(site.rows("bronze")) == 11
    site.client.jobs.cancel(refused.id)


def test_many_small_files_become_few_data_files(site: Site) -> None:
    count = 10_000 if SOAK else 400
    site.python(SLOW.replace('.option("maxFilesPerTrigger", 1)', ""))
    site.check()
    fill(site, range(count), rows=2)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    require_rows(site, 2 * count)
    files = site.lake.load_table(f"{site.schema}.bronze").inspect.files()
    assert len(files) <= 4


def test_the_sample_of_moorage_up_runs(client: Client, connect: ConnectServer, tmp_path: Path) -> None:
    sample.make(client)
    for _ in range(2):
        sample_pipeline.make(client, tmp_path)
    (job,) = client.jobs.list(kind=PIPELINE, subject=client.pipelines.get("sample", ["science"], "traffic").id)
    Worker(client, threading.Event(), programs={PIPELINE: pipeline_program(connect)}).run(once=True)
    done = client.jobs.get(job.id)
    assert done.state is JobState.SUCCEEDED, done.error
    found = {table.name: table.format for table in client.namespaces.tables("sample", ["science"])}
    assert {name: found[name] for name in ("calls_by_port", "call_log", "call_points")} == {
        "calls_by_port": "iceberg",
        "call_log": "delta",
        "call_points": "lance",
    }
    for name in ("calls_by_port", "call_log", "call_points"):
        steps = client.lineage.get("sample", ["science"], name).steps
        assert [step.sources for step in steps][-1] == (str(tmp_path / "incoming"),)
        assert client.namespaces.health("sample", ["science"], name).facts["files"] > 0
    assert done.result is not None
    quality = done.result["expectations"]["sample.science.good_calls"]["the port is known"]
    assert quality == {"action": "drop", "fulfilled": 288, "broken": 12}


@pytest.mark.skipif(not SOAK, reason="it starts a Spark server of its own")
def test_a_pipeline_and_an_ingest_run_on_a_server_that_authenticates(jars: Path, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"]) as server:
        admin = administrator_of(server)
        settings = SparkSettings(master="local[2]", jars=jars, conf={"spark.driver.memory": "1g"})
        with Client(server.url, token=admin) as client, ConnectServer(settings, server.url, admin) as connect:
            sample.make(client)
            sample_pipeline.make(client, tmp_path / "sample")
            Worker(client, threading.Event(), programs={PIPELINE: pipeline_program(connect)}).run(once=True)
            (job,) = client.jobs.list(kind=PIPELINE)
            assert job.state is JobState.SUCCEEDED, job.error
            command = [*COMMAND, "ingest", str(tmp_path / "sample" / "incoming"), "sample.science.taken"]
            command += ["--url", server.url, "--json", "--spark-master", "local[2]"]
            environment = clean_environment(MOORAGE_SPARK_JARS=str(jars), MOORAGE_TOKEN=admin)
            done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["rows"] == 300
            steps = client.lineage.get("sample", ["science"], "taken").steps
            assert [step.kind for step in steps] == ["ingest"]


@pytest.mark.skipif(not SOAK, reason="the long form; the kills one by one are tests of their own")
def test_files_keep_arriving_while_every_process_is_killed_in_turn(
    site: Site, server: ServerProcess, connect: ConnectServer
) -> None:
    site.python(SLOW)
    site.check()
    kills: tuple[Callable[[], object], ...] = (connect.kill, kill_projects, server.restart)
    files = 0
    for turn in range(12):
        fill(site, range(files, files + 6))
        files += 6
        kill, delay = kills[turn % len(kills)], random.uniform(0.5, 15.0)
        killer = threading.Timer(delay, kill)
        killer.start()
        job = site.run()
        killer.join()
        if job.ended_at_ms is None:
            site.client.jobs.cancel(job.id)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    require_rows(site, 10 * files)
