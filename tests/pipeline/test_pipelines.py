"""Pipelines: checked, registered, run by a worker on a Spark Connect server, with views that change together."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from moorage.cli.pipeline import run as pipeline_command
from moorage.client import Client
from moorage.client.answers import Job
from moorage.client.lineage import LineageStep
from moorage.client.openlineage import to_events
from moorage.core.entries import JobState
from moorage.core.lineage import lineage_of
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.results import states_of
from moorage.pipeline.sdp.runs import empty_together
from moorage.testing.server import COMMAND, ServerProcess
from tests.pipeline.sites import SLOW, Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark-pipeline")


NAMES = ("bronze", "silver", "gold")
FLOWS = """
    from pyspark.sql import functions as F

    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, amount DOUBLE").json("{in}")

    @dp.materialized_view
    def silver():
        return spark.read.table("bronze").filter("amount >= 0").groupBy("id").agg(F.max("amount").alias("amount"))

    @dp.materialized_view
    def gold():
        return spark.read.table("silver").selectExpr("count(*) AS n", "sum(amount) AS total", "1 / (count(*) - 7) AS x")
"""


def test_files_become_tables_and_a_failed_run_leaves_the_old_rows(site: Site) -> None:
    site.python(FLOWS)
    graph = site.check()
    assert [name.rsplit(".", 1)[1] for name in (*graph.tables, *graph.views)] == ["bronze", "silver", "gold"]
    assert {flow.target.rsplit(".", 1)[1]: [read.rsplit(".", 1)[1] for read in flow.reads] for flow in graph.flows} == {
        "bronze": [],
        "silver": ["bronze"],
        "gold": ["silver"],
    }
    site.put("a.json", [{"id": at, "amount": 1.0} for at in range(5)] + [{"id": 0, "amount": -1.0}])
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert done.result is not None
    bronze = done.result["tables"][f"lake.{site.schema}.bronze"]
    assert (bronze["rows"], bronze["added"]) == (6, 6)
    assert [(row["n"], row["total"]) for row in site.rows("gold")] == [(5, 5.0)]
    # The second run reads only what is new, and the views see all of it.
    site.put("b.json", [{"id": at, "amount": 1.0} for at in range(5, 7)])
    failed = site.run()
    assert failed.state is JobState.QUEUED, failed.state
    assert failed.error is not None
    line = site.files["steps/flows.py"].splitlines().index("def gold():")  # that of the decorator
    assert failed.error.startswith(
        f"steps/flows.py:{line}: the flow 'lake.{site.schema}.gold' failed: [DIVIDE_BY_ZERO]"
    )
    assert failed.progress is not None
    assert failed.progress["flows"] == {
        f"lake.{site.schema}.{name}": "FAILED" if name == "gold" else "COMPLETED" for name in NAMES
    }
    assert len(site.rows("bronze")) == 8
    assert len(site.rows("silver")) == 5
    assert [(row["n"], row["total"]) for row in site.rows("gold")] == [(5, 5.0)]
    refs = {table: set(site.lake.load_table(f"{site.schema}.{table}").refs()) for table in ("silver", "gold")}
    assert refs == {"silver": {"main"}, "gold": {"main"}}
    site.client.jobs.cancel(failed.id)
    site.put("c.json", [{"id": 7, "amount": 1.0}])
    again = site.run()
    assert again.state is JobState.SUCCEEDED, again.error
    assert len(site.rows("bronze")) == 9
    assert [(row["n"], row["total"]) for row in site.rows("gold")] == [(8, 8.0)]
    _require_lineage(site, done, again)


def _require_lineage(site: Site, first: Job, last: Job) -> None:
    """Each version of `gold` leads to the files, by the snapshots that its run has read."""
    heads = {name: str(site.lake.load_table(f"{site.schema}.{name}").metadata.current_snapshot_id) for name in NAMES}
    found = site.client.lineage.get("lake", [site.schema], "gold")
    assert found.version == heads["gold"]
    assert [step.job for step in found.steps] == [last.id] * 3
    gold, silver, bronze = found.steps
    assert [(each.table, each.version) for each in gold.inputs] == [(f"lake.{site.schema}.silver", heads["silver"])]
    assert [(each.table, each.version) for each in silver.inputs] == [(f"lake.{site.schema}.bronze", heads["bronze"])]
    assert bronze.sources == (str(site.folder / "in"),)
    assert gold.columns == {"total": (f"lake.{site.schema}.silver.amount",)}
    assert silver.columns == {name: (f"lake.{site.schema}.bronze.{name}",) for name in ("amount", "id")}
    # What the failed run has committed to the streaming table is part of the next one.
    assert len(bronze.output.versions) == 2
    old = {step.output.table: step.output.versions for step in lineage_of(first.result).steps}
    first_gold = old[f"lake.{site.schema}.gold"][-1]
    before = site.client.lineage.get("lake", [site.schema], "gold", version=first_gold)
    assert {step.job for step in before.steps} == {first.id}
    below = site.client.lineage.get("lake", [site.schema], "bronze", direction="downstream")
    assert {step.output.table for step in below.steps} == {f"lake.{site.schema}.{name}" for name in ("silver", "gold")}
    _require_openlineage(site, found.steps)


def _require_openlineage(site: Site, steps: tuple[LineageStep, ...]) -> None:
    start, end = to_events(steps, site.client.url)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert end["job"]["name"] == f"lake.{site.schema}.daily"
    assert {"namespace": "file", "name": str(site.folder / "in")} in end["inputs"]
    versions = {each["name"].rsplit(".", 1)[1]: each["facets"]["version"]["datasetVersion"] for each in end["outputs"]}
    assert versions == {step.output.table.rsplit(".", 1)[1]: step.output.versions[-1] for step in steps}


SINKS = """
    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, x FLOAT, y FLOAT").json("{in}")

    @dp.temporary_view
    def points():
        return spark.readStream.table("bronze").selectExpr("id", "array(x, y) AS vector")

    dp.create_sink("to_delta", "moorage", {"path": "lake.{schema}.points_delta", "url": "{url}"})
    dp.create_sink(
        "to_lance", "moorage", {"path": "lake.{schema}.points_lance", "tableFormat": "lance", "url": "{url}"}
    )

    @dp.append_flow(target="to_delta")
    def fill_delta():
        return spark.readStream.table("points").selectExpr("id", "vector[0] AS x")

    @dp.append_flow(target="to_lance")
    def fill_lance():
        return spark.readStream.table("points")
"""


def test_streams_fill_a_delta_table_and_a_lance_table_and_their_lineage_names_the_versions(
    site: Site, spark: SparkSession, server: ServerProcess
) -> None:
    site.python(SINKS.replace("{schema}", site.schema).replace("{url}", server.url))
    graph = site.check()
    sinks = [f"lake.{site.schema}.points_delta", f"lake.{site.schema}.points_lance"]
    assert sorted(graph.sinks.values()) == sinks
    for at in range(2):
        site.put(f"{at}.json", [{"id": at, "x": 1.0, "y": 2.0}])
        done = site.run()
        assert done.state is JobState.SUCCEEDED, done.error
        assert done.result is not None
        assert {sink: done.result["tables"][sink]["rows"] for sink in sinks} == dict.fromkeys(sinks, at + 1)
    for sink in sinks:
        assert sorted(row.id for row in spark.read.format("moorage").load(sink).collect()) == [0, 1]
        name = sink.rsplit(".", 1)[1]
        head = site.client.namespaces.table("lake", [site.schema], name).head
        found = site.client.lineage.get("lake", [site.schema], name)
        assert found.version == str(head and head.version)
        assert [step.output.table.rsplit(".", 1)[1] for step in found.steps] == [name, "bronze"]


def test_a_full_refresh_that_would_fill_a_sink_twice_is_refused(site: Site, server: ServerProcess) -> None:
    site.python(SINKS.replace("{schema}", site.schema).replace("{url}", server.url))
    site.check()
    site.put("a.json", [{"id": 1, "x": 1.0, "y": 2.0}])
    assert site.run().state is JobState.SUCCEEDED
    refused = site.run(full_refresh_all=True)
    assert refused.state is JobState.FAILED
    assert "to the sink 'lake." in (refused.error or "")
    assert len(site.rows("bronze")) == 1


CHAIN = """
    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, amount DOUBLE").json("{in}")

    @dp.temporary_view
    def positive():
        return spark.readStream.table("bronze").filter("id > 0")

    @dp.table
    def silver():
        return spark.readStream.table("positive")

    @dp.materialized_view
    def gold():
        return spark.read.table("silver").selectExpr("count(*) AS n", "1 / (count(*) - 7) AS x")
"""


def test_streaming_tables_of_streaming_tables_are_computed_again_after_they_were_dropped(site: Site) -> None:
    site.python(CHAIN)
    site.check()
    site.put("a.json", [{"id": 1, "amount": 1.0}])
    assert site.run().state is JobState.SUCCEEDED
    for name in ("bronze", "silver"):
        assert [row["id"] for row in site.rows(name)] == [1]
        site.lake.drop_table(f"{site.schema}.{name}")
    site.put("b.json", [{"id": 2, "amount": 1.0}])
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    for name in ("bronze", "silver"):
        assert sorted(row["id"] for row in site.rows(name)) == [1, 2]


def test_a_full_refresh_computes_streams_of_streams_from_scratch(site: Site) -> None:
    """Spark truncates tables, and Iceberg ends a stream that meets a truncation. So the catalog empties them."""
    site.python(CHAIN)
    site.check()
    site.put("a.json", [{"id": 1, "amount": 1.0}])
    site.put("b.json", [{"id": 2, "amount": 1.0}])
    assert site.run().state is JobState.SUCCEEDED
    alone = site.run(full_refresh=["bronze"])
    assert alone.state is JobState.FAILED
    assert f"Add --full-refresh lake.{site.schema}.silver" in (alone.error or "")
    old = site.lake.load_table(f"{site.schema}.silver")
    again: list[dict[str, Any]] = [
        {"full_refresh_all": True},
        {"full_refresh": ["bronze", "silver"], "refresh": ["gold"]},
    ]
    for at, what in enumerate(again):
        (site.folder / "in" / "a.json").write_text(f'{{"id": {at + 3}, "amount": 1.0}}\n')  # only a refresh reads it
        done = site.run(**what)
        assert done.state is JobState.SUCCEEDED, done.error
        for name in ("bronze", "silver"):
            assert sorted(row["id"] for row in site.rows(name)) == [2, at + 3]
        assert [row["n"] for row in site.rows("gold")] == [2]
    # Later runs continue, and the rows of before the refresh are there by their snapshot.
    site.put("c.json", [{"id": 9, "amount": 1.0}])
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert sorted(row["id"] for row in site.rows("silver")) == [2, 4, 9]
    assert site.lake.load_table(f"{site.schema}.silver").metadata.table_uuid == old.metadata.table_uuid
    before = old.metadata.current_snapshot_id
    assert sorted(
        site.lake.load_table(f"{site.schema}.silver").scan(snapshot_id=before).to_arrow()["id"].to_pylist()
    ) == [
        1,
        2,
    ]


def test_a_full_refresh_that_ended_early_is_completed_by_the_next_run(site: Site) -> None:
    """As after a kill of the worker, and a cancelled job, between its steps."""
    site.python(CHAIN)
    site.check()
    site.put("a.json", [{"id": 1, "amount": 1.0}])
    assert site.run().state is JobState.SUCCEEDED
    pipeline = site.client.pipelines.get("lake", [site.schema], "daily")
    empty_together(site.client, states_of(site.client, pipeline.tables), set(pipeline.tables))
    assert site.rows("silver") == []
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    for name in ("bronze", "silver"):
        assert [row["id"] for row in site.rows(name)] == [1]


def test_a_full_refresh_of_no_rows_leaves_a_pipeline_that_runs(site: Site) -> None:
    site.python(CHAIN)
    site.check()
    site.put("a.json", [{"id": 1, "amount": 1.0}])
    assert site.run().state is JobState.SUCCEEDED
    (site.folder / "in" / "a.json").unlink()
    for ids in ([], [2], [2, 3]):
        if ids:
            site.put(f"{ids[-1]}.json", [{"id": ids[-1], "amount": 1.0}])
        done = site.run(**({} if ids else {"full_refresh_all": True}))
        assert done.state is JobState.SUCCEEDED, done.error
        assert sorted(row["id"] for row in site.rows("silver")) == ids
        assert [row["n"] for row in site.rows("gold")] == [len(ids)]


def test_one_table_is_computed_from_scratch(site: Site) -> None:
    site.python(SLOW)
    site.check()
    site.put("a.json", [{"id": 1, "amount": 1.0}])
    assert site.run().state is JobState.SUCCEEDED
    (site.folder / "in" / "a.json").write_text('{"id": 1, "amount": 1.0}\n{"id": 2, "amount": 1.0}\n')
    assert site.run().state is JobState.SUCCEEDED
    assert len(site.rows("bronze")) == 1  # a file is known by its name
    again = site.run(full_refresh=[f"lake.{site.schema}.bronze"], refresh=[f"lake.{site.schema}.gold"])
    assert again.state is JobState.SUCCEEDED, again.error
    assert sorted(row["id"] for row in site.rows("bronze")) == [1, 2]
    assert site.rows("gold") == [{"n": 2, "ids": 2}]


CHECKED = """
    from moorage.client.expectations import define_checked

    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, amount DOUBLE").json("{in}")

    rules = {
        "id is known": ("id IS NOT NULL", "fail"),
        "amount is positive": ("amount > 0", "drop"),
        "amount is usual": ("amount < 1000", "warn"),
    }
    define_checked("silver", "bronze", rules, stream=True, keep_rejected=True)
"""


def test_expectations_are_counted_in_the_result_of_a_run_and_dropped_rows_are_kept_aside(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.python(CHECKED)
    site.check()
    site.put("a.json", [{"id": 1, "amount": 5.0}, {"id": 2, "amount": -1.0}, {"id": 3, "amount": 5000.0}])
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert done.result is not None
    assert done.result["expectations"] == {
        f"lake.{site.schema}.silver": {
            "id is known": {"action": "fail", "fulfilled": 3, "broken": 0},
            "amount is positive": {"action": "drop", "fulfilled": 2, "broken": 1},
            "amount is usual": {"action": "warn", "fulfilled": 2, "broken": 1},
        }
    }
    assert sorted(row["id"] for row in site.rows("silver")) == [1, 3]
    assert [(row["id"], row["broken"]) for row in site.rows("silver_rejected")] == [(2, ["amount is positive"])]
    for verb in ("show", "history"):
        assert pipeline_command([verb, f"lake.{site.schema}.daily", "--url", site.client.url]) == 0
        assert "amount is positive (drop): 1 of 3 rows break it" in capsys.readouterr().out
    site.put("b.json", [{"amount": 1.0}])
    failed = site.run()
    assert failed.error is not None
    assert "'id is known' is not fulfilled by the row" in failed.error
    site.client.jobs.cancel(failed.id)


SQL = """\
CREATE STREAMING TABLE calls;
CREATE FLOW early AS INSERT INTO calls BY NAME SELECT id, amount FROM STREAM bronze WHERE id < 5;
CREATE FLOW late AS INSERT INTO calls BY NAME SELECT id, amount FROM STREAM bronze WHERE id >= 5;
CREATE TEMPORARY VIEW dear AS SELECT * FROM calls WHERE amount > 1;
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('write.wap.enabled' = 'true') AS
  SELECT count(*) AS n, sum(amount) AS amount FROM dear;
"""


def test_flows_and_views_in_sql_have_lineage_and_one_view_can_be_refreshed_alone(site: Site) -> None:
    site.python("""
        @dp.table
        def bronze():
            return spark.readStream.schema("id LONG, amount DOUBLE").json("{in}")

        @dp.materialized_view
        def gold():
            return spark.sql("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM bronze")
    """)
    site.files["steps/more.sql"] = SQL
    graph = site.check()
    short = {name: name.rsplit(".", 1)[1] for flow in graph.flows for name in (flow.target, *flow.reads)}
    assert {
        (flow.name.rsplit(".", 1)[-1], short[flow.target], *map(short.get, flow.reads)) for flow in graph.flows
    } == {
        ("bronze", "bronze"),
        ("gold", "gold", "bronze"),
        ("early", "calls", "bronze"),
        ("late", "calls", "bronze"),
        ("dear", "dear", "calls"),
        ("totals", "totals", "dear"),
    }
    site.put("a.json", [{"id": at, "amount": float(at)} for at in range(10)])
    assert site.run().state is JobState.SUCCEEDED
    assert site.rows("totals") == [{"n": 8, "amount": 44.0}]
    steps = site.client.lineage.get("lake", [site.schema], "totals").steps
    assert [step.output.table.rsplit(".", 1)[1] for step in steps] == ["totals", "calls", "bronze"]
    site.put("b.json", [{"id": 10, "amount": 10.0}])
    only = site.run(refresh=[f"lake.{site.schema}.bronze", f"lake.{site.schema}.gold"])
    assert only.state is JobState.SUCCEEDED, only.error
    assert site.rows("gold") == [{"n": 11, "ids": 11}]
    assert site.rows("totals") == [{"n": 8, "amount": 44.0}]  # it and its source are left alone


def test_the_project_sees_no_secret_of_the_worker(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_TOKEN", "secret")
    site.python("""
        import os
        assert "MOORAGE_TOKEN" not in os.environ

        @dp.materialized_view
        def one():
            return spark.range(1)
    """)
    site.check()


def test_two_requests_are_one_run(site: Site) -> None:
    site.python("@dp.materialized_view\ndef one():\n    return spark.range(1)\n")
    site.check()
    first = site.client.pipelines.run("lake", [site.schema], "daily")
    assert site.client.pipelines.run("lake", [site.schema], "daily").id == first.id
    site.client.jobs.cancel(first.id)
    assert site.client.pipelines.drop("lake", [site.schema], "daily").dropped_at_ms is not None


def test_the_command_checks_registers_and_runs_a_project(
    server: ServerProcess, jars: Path, schema: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars), "MOORAGE_SPARK_MASTER": "local[2]"}
    name, folder = f"{schema}.daily", tmp_path / "daily"

    def moorage(*args: str) -> str:
        done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    moorage("pipeline", "init", name, "--folder", str(folder))
    (folder / "incoming" / "a.json").write_text('{"id": 1, "amount": 2.5}\n')
    assert "1 streaming table, 1 view" in moorage("pipeline", "check", str(folder), "--url", server.url)
    assert name in moorage("pipeline", "list", schema, "--url", server.url)
    moorage("pipeline", "run", name, "--no-watch", "--url", server.url)
    moorage("worker", "--once", "--url", server.url)
    (run,) = moorage("pipeline", "history", name, "--url", server.url).splitlines()
    assert "succeeded" in run
    assert f"{schema}.daily_totals 1 rows" in run
    assert "daily_events" in moorage("pipeline", "show", name, "--url", server.url)
    moorage("pipeline", "drop", name, "--url", server.url)


def test_a_killed_spark_server_fails_the_run_and_the_next_one_has_each_row_once(
    site: Site, connect: ConnectServer
) -> None:
    site.python(SLOW)
    site.check()
    for at in range(8):
        site.put(f"{at}.json", [{"id": 10 * at + row, "amount": 1.0} for row in range(10)])
    killer = threading.Thread(target=_kill_after_the_first_batch, args=(site, connect))
    killer.start()
    failed = site.run()
    killer.join()
    assert failed.state is JobState.QUEUED
    assert "died" in (failed.error or "")
    site.client.jobs.cancel(failed.id)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert sorted(row["id"] for row in site.rows("bronze")) == list(range(80))
    assert site.rows("gold") == [{"n": 80, "ids": 80}]


def _kill_after_the_first_batch(site: Site, connect: ConnectServer) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = site.client.pipelines.iceberg_metadata(f"lake.{site.schema}.bronze")
        if found is not None and found.get("snapshots"):
            connect.kill()
            return
        time.sleep(0.05)


def test_a_killed_worker_takes_its_spark_server_with_it(
    server: ServerProcess, jars: Path, site: Site, client: Client
) -> None:
    site.python(SLOW)
    site.check()
    for at in range(8):
        site.put(f"{at}.json", [{"id": 10 * at + row, "amount": 1.0} for row in range(10)])
    job = client.pipelines.run("lake", [site.schema], "daily")
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars), "MOORAGE_SPARK_MASTER": "local[2]"}
    worker = subprocess.Popen([*COMMAND, "worker", "--url", server.url], env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            found = client.pipelines.iceberg_metadata(f"lake.{site.schema}.bronze")
            if found is not None and found.get("snapshots"):
                break
            time.sleep(0.05)
        below = psutil.Process(worker.pid).children(recursive=True)
        assert any("java" in process.name() for process in below)
    finally:
        worker.kill()
        worker.wait()
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
    client.jobs.cancel(job.id)
    done = site.run()
    assert done.state is JobState.SUCCEEDED, done.error
    assert sorted(row["id"] for row in site.rows("bronze")) == list(range(80))
    assert site.rows("gold") == [{"n": 80, "ids": 80}]
