"""`moorage up`: something to look at in one command."""

import json
import signal
import sys
import time
import urllib.request
from pathlib import Path

from moorage.client import Client
from moorage.testing.server import ServerProcess


def welcome_of(catalog: ServerProcess) -> str:
    """Up to its last line, which comes when the sample lake is there."""
    deadline = time.monotonic() + 60
    while '"audit"' not in catalog.output():
        assert time.monotonic() < deadline, catalog.words()
        time.sleep(0.02)
    return catalog.output()


def stop(catalog: ServerProcess) -> tuple[int, str]:
    return catalog.stop(signal.SIGINT), catalog.words()


def test_up_shows_a_sample_lake_and_works_off_jobs_until_it_is_interrupted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", verb="up") as catalog, Client(catalog.url) as client:
        welcome = welcome_of(catalog)
        address = f"{catalog.url}/api/moorage/v1/catalogs/sample/namespaces"
        assert f"curl '{address}'" in welcome
        with urllib.request.urlopen(address) as answer:
            assert [item["name"] for item in json.load(answer)["items"]] == ["sales", "science"]
        assert client.namespaces.get("sample", ("sales", "eu")).properties["region"] == "eu"
        assert client.namespaces.table("sample", ("sales",), "orders").format == "iceberg"
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

def for_ever(job, client, progress):
    while True:
        progress({"at": "work"})
        time.sleep(0.05)

PROGRAMS["audit"] = for_ever
sys.exit(main(sys.argv[1:]))
"""


def test_a_job_in_hand_is_given_back_before_the_server_stops(tmp_path: Path) -> None:
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
