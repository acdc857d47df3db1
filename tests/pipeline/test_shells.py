"""`moorage spark-sql`, `pyspark` and `spark-conf` reach the tables of a server without further settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from moorage.client import Client
from moorage.testing.server import COMMAND, ServerProcess

pytestmark = pytest.mark.xdist_group("spark-pipeline")

PROGRAM = """
spark.createDataFrame([(1,)], "id long").write.format("moorage").mode("append").save("lake.shells.boats")
print("rows", spark.read.format("moorage").load("lake.shells.boats").count() + spark.table("lake.shells.t").count())
"""


def moorage(*args: str, jars: Path, home: Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars), "MOORAGE_SPARK_MASTER": "local[2]"}
    environment["PYSPARK_DRIVER_PYTHON_OPTS"] = "-i"  # the shell starts its session only when it is interactive
    return subprocess.run(
        [*COMMAND, *args], input=given, capture_output=True, text=True, cwd=home, env=environment, check=False
    )


def test_the_shells_reach_all_tables_of_a_server(server: ServerProcess, jars: Path, tmp_path: Path) -> None:
    with Client(server.url) as client:
        client.namespaces.create("lake", ["shells"])
    sql = "CREATE TABLE lake.shells.t AS SELECT 1L AS id; SELECT concat('rows ', count(*)) FROM lake.shells.t"
    done = moorage("spark-sql", "--url", server.url, "-e", sql, jars=jars, home=tmp_path)
    assert "rows 1" in done.stdout, done.stderr
    done = moorage("pyspark", "--url", server.url, jars=jars, home=tmp_path, given=PROGRAM)
    assert "rows 2" in done.stdout, done.stderr


def test_the_settings_name_the_catalogs_and_the_jars(server: ServerProcess, jars: Path, tmp_path: Path) -> None:
    done = moorage("spark-conf", "--url", server.url, "--packages", "--token", "secret", jars=jars, home=tmp_path)
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert lines["spark.sql.catalog.lake.uri"] == f"{server.url}/iceberg"
    assert lines["spark.sql.catalog.lake.token"] == "secret"
    assert "iceberg-spark-runtime" in lines["spark.jars.packages"]


def test_an_unknown_server_is_one_line(jars: Path, tmp_path: Path) -> None:
    done = moorage("spark-conf", "--url", "http://127.0.0.1:1", jars=jars, home=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
