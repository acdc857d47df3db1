"""`moorage status` and `moorage feed`, as text and as JSON."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from moorage.client import Client
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.cli.conftest import Moorage


@pytest.fixture(autouse=True)
def some_history(client: Client) -> None:
    client.catalogs.create("lake")
    client.namespaces.create("lake", ("sea",))


def test_status_shows_the_version_and_the_last_entry(moorage: Moorage, catalog: ServerProcess) -> None:
    result = moorage("status", "--url", catalog.url)
    assert result.returncode == 0
    assert result.stdout.startswith(f"{catalog.url} is ready: Moorage 0.")
    assert "last entry   3 at 20" in result.stdout
    parsed = json.loads(moorage("status", "--json", MOORAGE_URL=catalog.url).stdout)
    assert (parsed["seq"], parsed["ledger"], parsed["url"]) == (3, "sqlite", catalog.url)


def test_a_catalog_that_does_not_run_is_reported_in_one_line_with_advice(
    moorage: Moorage, catalog: ServerProcess
) -> None:
    catalog.stop()
    result = moorage("status", "--url", catalog.url)
    assert (result.returncode, result.stdout) == (1, "")
    reason = "[Errno 111] Connection refused; is `moorage serve` running there?"
    assert result.stderr == f"moorage: cannot reach {catalog.url}: {reason}\n"


def test_a_url_with_a_wrong_path_is_reported_in_one_line(moorage: Moorage, catalog: ServerProcess) -> None:
    result = moorage("status", "--url", f"{catalog.url}/lake")
    assert result.returncode == 1
    assert result.stderr == "moorage: no operation exists at GET /lake/api/moorage/v1/health; check --url\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("status", "--url", "lake.example"), "expected an http:// or https:// URL, not 'lake.example'"),
        (("status", "--url", "http://[::1"), "expected an http:// or https:// URL, not 'http://[::1'"),
        (("status", "--url", "http://lake.example:99999"), "expected an http:// or https:// URL"),
        (("feed", "--after", "-1"), "argument --after: expected"),
        (("feed", "--after", "soon"), "expected a whole number of at least 0, not 'soon'"),
        (("backup", "--data", "x"), "the following arguments are required: --to"),
        (("backup", "--to", "x"), "one of the arguments --data --database is required"),
        (("move", "--from-data", "x", "--to-database", "y"), "expected a postgresql:// URL"),
        (("migrate", "--database", "postgresql://db:99999/x"), "expected a postgresql:// URL"),
    ],
)
def test_a_wrong_argument_is_reported_in_one_line(args: tuple[str, ...], words: str, moorage: Moorage) -> None:
    result = moorage(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_feed_prints_one_line_for_each_entry_after_a_number(moorage: Moorage, catalog: ServerProcess) -> None:
    lines = moorage("feed", "--url", catalog.url).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert lines[1].endswith("create catalog 'lake'")
    entries = [
        json.loads(line) for line in moorage("feed", "--url", catalog.url, "--after", 1, "--json").stdout.splitlines()
    ]
    assert [entry["seq"] for entry in entries] == [2, 3]
    assert entries[1]["story"]["changes"][0]["name"] == "sea"


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_a_reader_that_is_ahead_of_the_ledger_is_refused(
    moorage: Moorage, catalog: ServerProcess, follow: tuple[str, ...]
) -> None:
    assert moorage("feed", "--url", catalog.url, "--after", 3).stdout == ""
    result = moorage("feed", "--url", catalog.url, "--after", 4, *follow)
    assert (result.returncode, result.stdout) == (1, "")
    assert "the ledger ends at entry 3, so entry 4 is of another ledger or was lost in a restore" in result.stderr


def test_the_feed_exits_with_zero_when_its_pipe_is_closed(catalog: ServerProcess) -> None:
    feed = " ".join([*COMMAND, "feed", "--url", catalog.url])
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {feed} | true"],
        env=clean_environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")


@contextmanager
def following(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "feed", "--url", url, "--after", "3", "--follow", "--json"]
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT


def next_seq(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(json.loads(process.stdout.readline())["seq"])


def test_following_continues_at_the_same_entry_after_the_catalog_was_killed(
    catalog: ServerProcess, client: Client
) -> None:
    with following(catalog.url) as process:
        client.namespaces.create("lake", ("bay",))
        assert next_seq(process) == 4
        catalog.kill()
        catalog.start()
        client.namespaces.create("lake", ("cove",))
        client.namespaces.create("lake", ("firth",))
        assert [next_seq(process), next_seq(process)] == [5, 6]
