"""Mistakes on the command line: each is one line that says what would be right, before anything heavy starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from moorage.client import Client
from moorage.testing.server import COMMAND, ServerProcess


def moorage(*args: str, jars: Path) -> tuple[int, str]:
    """Run a verb that fails if it looks for the jars of Spark."""
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars)}
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stderr


def test_mistakes_in_an_ingest_are_found_before_spark_starts(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    with ServerProcess(tmp_path / "lake") as server:
        with Client(server.url) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sea"])
        for args, message in (
            ((f"{source}/none", "lake.sea.t"), f"the source '{source}/none' does not exist"),
            ((str(source), "lake.t"), "expected a table name CATALOG.SCHEMA.TABLE, not 'lake.t'"),
            ((str(source), "lake.sky.t"), "namespace 'lake.sky' does not exist"),
            (
                (str(source), "lake.sea.t", "--mode", "upsert"),
                "an upsert needs the columns that identify a row: --key id",
            ),
        ):
            found = moorage("ingest", *args, "--url", server.url, jars=tmp_path / "no-jars")
            assert found == (1, f"moorage: {message}\n")


@pytest.mark.parametrize("verb", ["sql", "ingest", "spark-sql", "spark-conf", "pyspark"])
def test_options_of_a_worker_are_unknown_elsewhere(verb: str, tmp_path: Path) -> None:
    arguments = ("x", "a.b.c") if verb == "ingest" else ()
    code, line = moorage(verb, *arguments, "--no-spark", jars=tmp_path)
    assert (code, line) == (2, f"moorage: unrecognized arguments: --no-spark; see `moorage {verb} --help`\n")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("show", "daily"), "a pipeline CATALOG.SCHEMA.NAME, not 'daily'"),
        (("run", "lake.daily"), "a pipeline CATALOG.SCHEMA.NAME, not 'lake.daily'"),
        (("list", "lake"), "CATALOG.SCHEMA, not 'lake'"),
    ],
)
def test_short_names_of_pipelines_are_refused(args: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "lake") as server:
        code, line = moorage("pipeline", *args, "--url", server.url, jars=tmp_path)
    assert (code, line) == (2, f"moorage: expected {expected}\n")


def test_an_unknown_member_or_owner_of_a_token_is_named(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "lake") as server, Client(server.url) as client:
        client.access.create("Groups", "crew")
        code, line = moorage("group", "add", "crew", "ann", "--url", server.url, jars=tmp_path)
        assert (code, line) == (1, "moorage: there is no user, service principal or group 'ann'\n")
        code, line = moorage("token", "create", "--url", server.url, jars=tmp_path)
        remedy = "the server has no authentication, so name the owner of the token"
        assert (code, line) == (1, f"moorage: there is no active user or service principal 'local'; {remedy}\n")
