"""`moorage up` starts a catalog with a sample lake and a worker."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from moorage.cli import sample, sample_delta
from moorage.client import Client
from moorage.server.settings import Settings
from moorage.testing.minio import MinioServer
from moorage.testing.server import COMMAND, ServerProcess, clean_environment

VOYAGES = f"{sample_delta.SCHEMA}/tables/{sample_delta.NAME}"


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no Spark starts for the run of the sample pipeline. Its run is a test of pipelines."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def welcome_of(catalog: ServerProcess) -> str:
    """The welcome text, up to its last line, which is printed when the sample lake exists."""
    deadline = time.monotonic() + 60
    while '"audit"' not in catalog.output():
        assert time.monotonic() < deadline, catalog.words()
        time.sleep(0.02)
    return catalog.output()


def stop(catalog: ServerProcess) -> tuple[int, str]:
    return catalog.stop(signal.SIGINT), catalog.words()


def test_up_creates_a_sample_lake_and_runs_jobs_until_it_is_interrupted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", verb="up") as catalog, Client(catalog.url) as client:
        welcome = welcome_of(catalog)
        address = f"{catalog.url}/api/moorage/v1/catalogs/sample/namespaces"
        assert f"curl '{address}'" in welcome
        with urllib.request.urlopen(address) as answer:
            assert [item["name"] for item in json.load(answer)["items"]] == ["sales", "science"]
        assert client.namespaces.get("sample", ("sales", "eu")).properties["region"] == "eu"
        assert client.namespaces.table("sample", ("sales",), "orders").format == "iceberg"
        assert client.namespaces.table("sample", ("science",), "voyages").format == "delta"
        assert "Delta table: sample.science.voyages" in welcome
        assert "No worker with Spark: " in welcome
        pipeline = client.pipelines.get("sample", ("science",), "traffic")
        (run,) = client.jobs.list(subject=pipeline.id)  # it waits for a worker with Spark
        assert run.state == "queued"
        with urllib.request.urlopen(f"{catalog.url}{VOYAGES}") as answer:
            assert json.load(answer)["latest-table-version"] == 1
        counted = urllib.request.Request(f"{catalog.url}/lance/v1/table/sample$science$boats/count_rows", b"{}")
        with urllib.request.urlopen(counted) as answer:
            assert json.load(answer) == 4

        job = client.jobs.create("audit")
        follow = client.feed.follow(after=client.health().seq - 1)
        while not any(change.get("job") == job.id for change in next(follow).changes):
            pass
        assert client.jobs.get(job.id).state == "succeeded"
        assert stop(catalog) == (0, "")


SLOW_WORKER = """
import sys, time
from moorage.cli.main import main
from moorage.pipeline.programs import PROGRAMS

def run_forever(job, client, progress):
    while True:
        progress({"at": "work"})
        time.sleep(0.05)

PROGRAMS["audit"] = run_forever
sys.exit(main(sys.argv[1:]))
"""


def test_a_running_job_is_returned_to_the_queue_before_the_server_stops(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", verb="up", command=(sys.executable, "-c", SLOW_WORKER)) as catalog:
        welcome_of(catalog)
        with Client(catalog.url) as client:
            job = client.jobs.create("audit")
            deadline = time.monotonic() + 60
            while client.jobs.get(job.id).progress is None:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert stop(catalog) == (0, "")
    with ServerProcess(tmp_path / "data") as catalog, Client(catalog.url) as client:
        after = client.jobs.get(job.id)
        assert (after.state, after.error) == ("queued", "the worker was stopped")


def test_a_second_up_changes_nothing(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with ServerProcess(tmp_path / "data", verb="up") as catalog, Client(catalog.url) as client:
            welcome_of(catalog)
            seen.append((client.health().seq, client.health().metastore_id))
            assert stop(catalog) == (0, "")
    assert seen[0] == seen[1]


def test_an_interrupted_sample_is_completed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        ServerProcess(data) as catalog,
        Client(catalog.url) as client,
        httpx.Client(base_url=catalog.url, trust_env=False) as http,
    ):
        sample.make(client)
        assert sample_delta.create(http, Settings(data=data)).json()["latest-table-version"] == 0
        sample.make_tables(catalog.url, Settings(data=data))
        assert http.get(VOYAGES).json()["latest-table-version"] == 1


def test_without_managed_tables_the_sample_has_no_delta_table(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", verb="up", flags=("--managed-tables", "off")) as catalog:
        assert "voyages" not in welcome_of(catalog)
        assert stop(catalog) == (0, "")


@pytest.mark.xdist_group("s3")
def test_the_sample_can_be_written_to_an_object_store(tmp_path: Path, minio: MinioServer) -> None:
    location = f"s3://{minio.new_bucket()}/lake/"
    environment = {**minio.settings(location), "MOORAGE_MANAGED_LOCATION": f"{location}managed"}
    with ServerProcess(tmp_path / "data", verb="up", environment=environment) as catalog:
        welcome_of(catalog)
        with urllib.request.urlopen(f"{catalog.url}{VOYAGES}") as answer:
            found = json.load(answer)
        assert (found["latest-table-version"], found["metadata"]["location"].startswith(location)) == (1, True)
        assert stop(catalog) == (0, "")


def spark_workers(up: int) -> list[psutil.Process]:
    """The worker processes with Spark of `moorage up`. Others of its children may end at any time."""
    found = []
    for child in psutil.Process(up).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "--only-spark" in child.cmdline():
                found.append(child)
    return found


def test_a_worker_with_spark_that_was_killed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "jvm" / "bin" / "java"  # it starts no Spark: the worker needs none for this
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jvm"))
    with ServerProcess(tmp_path / "data", verb="up") as catalog:
        first = wait_for_worker(catalog.pid, ())
        first.kill()
        second = wait_for_worker(catalog.pid, (first.pid,))
        assert "The worker with Spark ended with code -9, see " in catalog.output()
        assert second.is_running()
        assert stop(catalog)[0] == 0
        assert not second.is_running()


def wait_for_worker(up: int, known: tuple[int, ...]) -> psutil.Process:
    """Wait for a new worker that gives way to the server."""
    deadline, usual = time.monotonic() + 60, psutil.Process(up).nice()
    while not (found := [each for each in spark_workers(up) if each.pid not in known and each.nice() > usual]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found[0]


# Only a terminal that controls the session turns Ctrl-C into SIGINT for every process in the foreground.
IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A command that runs in its own terminal."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self.process = process

    def read_until(self, words: str) -> str:
        """Read the terminal until these words appear."""
        shown = ""
        while words not in shown:
            more = self._read()
            assert more, shown
            shown += more
        return shown

    def read_until_closed(self) -> str:
        """Read until no process has the terminal open."""
        shown = ""
        while more := self._read():
            shown += more
        return shown

    def press_ctrl_c(self) -> None:
        os.write(self._descriptor, b"\x03")

    def _read(self) -> str:
        try:
            return os.read(self._descriptor, 65_536).decode().replace("\r\n", "\n")
        except OSError:  # Linux reports the end of a terminal as EIO
            return ""


@contextmanager
def up_in_terminal(data: Path) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, *COMMAND, "up", "--data", str(data), "--port", "0"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=clean_environment(),
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_ctrl_c_in_a_terminal_prints_one_line_and_leaves_no_process(tmp_path: Path) -> None:
    with up_in_terminal(tmp_path / "data") as terminal:
        terminal.read_until('"audit"}\'\n')
        workers = psutil.Process(terminal.process.pid).children(recursive=True)
        assert workers, "the Lance table of the sample was written by a worker process"
        terminal.press_ctrl_c()
        assert terminal.read_until_closed() == "^C\nMoorage has stopped.\n"
        assert terminal.process.wait() == 0
        psutil.wait_procs(workers, timeout=10)
        assert not [worker for worker in workers if worker.is_running()]


def test_ctrl_c_while_the_sample_is_created_prints_no_welcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")  # otherwise a line says that Java is missing
    with up_in_terminal(tmp_path / "data") as terminal:
        process = psutil.Process(terminal.process.pid)
        deadline = time.monotonic() + 60
        while not process.children(recursive=True):  # the worker that will write the Lance table
            assert time.monotonic() < deadline
            time.sleep(0.01)
        terminal.press_ctrl_c()
        assert terminal.read_until_closed() == "^C\nMoorage has stopped.\n"
        assert terminal.process.wait() == 0
