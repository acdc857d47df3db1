"""Ingest and pipelines, compared with plain Spark: `python -m bench.pipelines --megabytes 100 --files 1000`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.report import Row, show
from moorage.client import Client
from moorage.client.answers import Flow, Job
from moorage.client.spark import SparkSettings, session
from moorage.client.spark.jars import find_pyspark
from moorage.core.entries import JobState
from moorage.core.jobs import PIPELINE
from moorage.pipeline.ingest import Request, ingest
from moorage.pipeline.ingest.requests import TableFormat
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.project import run_project
from moorage.pipeline.sdp.runs import pipeline_program
from moorage.pipeline.worker import Worker
from moorage.testing.server import ServerProcess
from scripts.steps import TOOLS
from tests.conformance.lakes import pyiceberg_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEGABYTES, FILES = 1_000, 10_000
_COLUMNS = "id LONG, port STRING, amount DOUBLE, at TIMESTAMP, note STRING"
_LINE = (
    '{{"id": {0}, "port": "port {1}", "amount": {2}, "at": "2026-11-{3:02}T12:00:00Z", "note": "call {0} of {1}"}}\n'
)
_OPEN_COST = "spark.sql.files.openCostInBytes"
_RUNS, _COMMITS = 3, 10


def _write_lines(folder: Path, *, files: int, bytes_per_file: int = 0, rows_per_file: int = 0) -> None:
    """JSON lines, until each file has these bytes or rows."""
    folder.mkdir(parents=True)
    row = 0
    for number in range(files):
        with (folder / f"{number:06}.json").open("w") as sink:
            first, size = row, 0
            while size < bytes_per_file or row - first < rows_per_file:
                size += sink.write(_LINE.format(row, row % 97, row / 8, row % 28 + 1))
                row += 1


def _seconds(work: Callable[[], object]) -> float:
    before = time.monotonic()
    work()
    return time.monotonic() - before


class _Ingests:
    """The same files by `moorage ingest`, and by plain Spark into a table without a catalog server."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self._spark, self._url, self._folder = spark, url, folder
        for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}.items():
            spark.conf.set(f"spark.sql.catalog.plain{key}", value)
        spark.conf.set("spark.sql.catalog.plain.warehouse", (folder / "plain").as_uri())

    def ours(self, source: Path, kind: TableFormat) -> float:
        request = Request(
            source=str(source),
            table=f"lake.sea.t{uuid.uuid4().hex}",
            url=self._url,
            table_format=kind,
            input_format="json",
            schema=_COLUMNS,
        )
        return _seconds(lambda: ingest(self._spark, request))

    def plain(self, source: Path, kind: TableFormat) -> float:
        rows = self._spark.read.schema(_COLUMNS).json(str(source))
        name = f"t{uuid.uuid4().hex}"
        if kind == "delta":
            return _seconds(lambda: rows.write.format("delta").save(str(self._folder / name)))
        return _seconds(lambda: rows.writeTo(f"plain.sea.{name}").using("iceberg").create())

    def plain_stream(self, source: Path) -> float:
        """The best plain setting for small files: one batch, and a low price for opening a file."""
        name = f"plain.sea.t{uuid.uuid4().hex}"
        self._spark.createDataFrame([], _COLUMNS).writeTo(name).using("iceberg").create()

        def run() -> None:
            rows = self._spark.readStream.schema(_COLUMNS).json(str(source))
            checkpoint = str(self._folder / f"checkpoint{uuid.uuid4().hex}")
            writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            writer.toTable(name).awaitTermination()

        before = self._spark.conf.get(_OPEN_COST)
        self._spark.conf.set(_OPEN_COST, "16384")
        try:
            return _seconds(run)
        finally:
            self._spark.conf.set(_OPEN_COST, before)


def _ingest_rows(ingests: _Ingests, folder: Path, megabytes: int, files: int) -> list[Row]:
    warm, large, small = folder / "warm", folder / "large", folder / "small"
    _write_lines(warm, files=2, bytes_per_file=2_000_000)
    _write_lines(large, files=8, bytes_per_file=megabytes * 125_000)
    _write_lines(small, files=files, rows_per_file=10)
    rows = []
    kinds: tuple[TableFormat, ...] = ("delta", "iceberg")
    for kind in kinds:
        for _ in range(2):
            ingests.plain(warm, kind)
            ingests.ours(warm, kind)
        # In turn and twice, the better of each: another program on this machine slows one of them down.
        tries = [(ingests.plain(large, kind), ingests.ours(large, kind)) for _ in range(2)]
        plain_s, ours_s = (min(each) for each in zip(*tries, strict=True))
        ratio = ours_s / plain_s
        rows += [
            Row(f"{megabytes:,} MB of JSON lines, plain Spark into {kind}", f"{plain_s:.2f} s"),
            Row(f"the same by moorage ingest into {kind}", f"{ours_s:.2f} s"),
            Row("compared with plain Spark", f"{ratio:.2f} ×", "≤ 1.15 ×", ratio <= 1.15),
        ]
    ingests.plain_stream(warm)
    plain_s, ours_s = ingests.plain_stream(small), ingests.ours(small, "iceberg")
    ratio = ours_s / plain_s
    return [
        *rows,
        Row(f"{files:,} small files, plain stream into iceberg", f"{plain_s:.2f} s"),
        Row("the same by moorage ingest into iceberg", f"{ours_s:.2f} s"),
        Row("compared with the plain stream", f"{ratio:.2f} ×", "≤ 1.2 ×", ratio <= 1.2),
    ]


_FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()

@dp.table
def bronze():
    return spark.readStream.schema("{columns}").json("{source}")

@dp.materialized_view
def silver():
    return spark.read.table("bronze").groupBy("port").count()

@dp.materialized_view
def gold():
    return spark.read.table("silver").selectExpr("max(count) AS most")
"""


class _Project:
    """A small project in a schema of its own, with files that keep arriving."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema
        self._arrived = 0
        (folder / "steps").mkdir(parents=True)
        (folder / "in").mkdir()
        self.files = {
            "spark-pipeline.yml": f"name: daily\nstorage: {(folder / 'state').as_uri()}\ncatalog: lake\n"
            f"schema: {schema}\nlibraries:\n  - glob:\n      include: steps/**\n",
            "steps/flows.py": _FLOWS.format(columns=_COLUMNS, source=folder / "in"),
        }
        for name, text in self.files.items():
            (folder / name).write_text(text)

    def add_rows(self) -> None:
        lines = (_LINE.format(row, row % 97, row / 8, row % 28 + 1) for row in range(1_000))
        (self.folder / "in" / f"{self._arrived}.json").write_text("".join(lines))
        self._arrived += 1


@contextmanager
def _working(client: Client, connect: ConnectServer) -> Iterator[None]:
    stop = threading.Event()
    worker = Worker(client, stop, programs={PIPELINE: pipeline_program(connect)})
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _run_rows(client: Client, url: str, folder: Path, settings: SparkSettings) -> list[Row]:
    ours, plain = _Project(folder / "ours", "ours"), _Project(folder / "plain_project", "plain")
    for project in (ours, plain):
        client.namespaces.create("lake", [project.schema])
    with ConnectServer(settings, url) as connect, _working(client, connect):
        graph = run_project(ours.files, connect, {"dry": True}, session_id=str(uuid.uuid4())).graph
        found: dict[str, Any] = {"tables": graph.tables, "views": graph.views, "flows": graph.flows}
        client.pipelines.register("lake", ["ours"], "daily", ours.files, **found)
        spec = str(plain.folder / "spark-pipeline.yml")
        program = str(find_pyspark() / "bin" / "spark-pipelines")
        command = [program, "run", "--remote", connect.address(), "--spec", spec]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}

        def run_ours() -> None:
            ours.add_rows()
            _require_success(client, client.pipelines.run("lake", ["ours"], "daily"))

        def run_plain() -> None:
            plain.add_rows()
            subprocess.run(command, env=environment, check=True, capture_output=True)

        run_ours()
        run_plain()
        times = [(_seconds(run_plain), _seconds(run_ours)) for _ in range(_RUNS)]
    plain_s, ours_s = (min(each) for each in zip(*times, strict=True))
    more_s = ours_s - plain_s
    return [
        Row("spark-pipelines run, 3 flows, warm server", f"{plain_s:.2f} s"),
        Row("run of the same pipeline by a worker", f"{ours_s:.2f} s"),
        Row("more than spark-pipelines run", f"{more_s:+.2f} s", "≤ 5 s", more_s <= 5),
    ]


def _require_success(client: Client, job: Job) -> None:
    while (now := client.jobs.get(job.id)).ended_at_ms is None:
        time.sleep(0.05)
    if now.state is not JobState.SUCCEEDED:
        raise RuntimeError(f"the run {now.state}: {now.error}")


def _trigger_rows(server: ServerProcess, client: Client) -> list[Row]:
    """From a commit to the run that it triggers. No worker runs, so each run is cancelled."""
    table = pyiceberg_of(server).create_table("sea.orders", pa.schema([("id", pa.int64())]))
    flow = Flow(name="totals", target="lake.sea.totals", reads=("lake.sea.orders",))
    files = {"spark-pipeline.yml": "name: eager\n"}
    eager = client.pipelines.register("lake", ["sea"], "eager", files, flows=[flow], on_change=True)
    waits = []
    for number in range(_COMMITS):
        table.append(pa.table({"id": [number]}))
        before = time.monotonic()
        while not (found := list(client.jobs.list(state=JobState.QUEUED, kind=PIPELINE, subject=eager.id))):
            time.sleep(0.005)
        waits.append(time.monotonic() - before)
        client.jobs.cancel(found[0].id)
        time.sleep(0.1 * number)  # at another moment of the server's interval
    longest = max(waits)
    return [Row(f"commit to enqueued run, longest of {_COMMITS}", f"{longest:.2f} s", "≤ 1 s", longest <= 1)]


def pipeline_rows(folder: Path, *, megabytes: int = MEGABYTES, files: int = FILES) -> list[Row]:
    """Measure ingest and pipelines with a server, a session of Spark in this process, and a Spark Connect server."""
    folder.mkdir(parents=True)
    conf = {"spark.driver.memory": "2g", "spark.local.dir": str(folder / "local")}
    settings = SparkSettings(master="local[2]", jars=TOOLS / "spark-jars", conf=conf)
    # A test server has short intervals. The last flag wins: this is the default of a server.
    slow = ("--chores-interval-seconds", "2")
    with ServerProcess(folder / "data", flags=slow) as server, Client(server.url) as client:
        client.catalogs.create("lake")
        client.namespaces.create("lake", ["sea"])
        rows = _trigger_rows(server, client)
        spark = session(server.url, catalog="lake", settings=settings)
        try:
            rows = [*_ingest_rows(_Ingests(spark, server.url, folder), folder, megabytes, files), *rows]
        finally:
            spark.stop()
        rows = [*rows, *_run_rows(client, server.url, folder, settings)]
    return [*rows, Row("load average at the end", f"{os.getloadavg()[0]:.1f}")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--files", type=int, default=FILES)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = pipeline_rows(Path(name) / "pipelines", megabytes=args.megabytes, files=args.files)
        show("Ingest and pipelines on Spark", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
