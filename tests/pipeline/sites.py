"""A project of a declarative pipeline, for tests."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
from pyiceberg.catalog import Catalog

from moorage.client import Client
from moorage.client.answers import Job
from moorage.core.jobs import PIPELINE
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.project import Graph, run_project
from moorage.pipeline.sdp.runs import pipeline_program
from moorage.pipeline.worker import Worker


class Site:
    """A project in a folder, its pipeline in a schema of its own, and a worker."""

    def __init__(self, client: Client, connect: ConnectServer, schema: str, folder: Path, lake: Catalog) -> None:
        self.client, self.connect, self.folder, self.lake = client, connect, folder, lake
        self.schema = schema.split(".")[1]
        (folder / "in").mkdir()
        self.files: dict[str, str] = {
            "spark-pipeline.yml": dedent(f"""\
                name: daily
                storage: {(folder / "state").as_uri()}
                catalog: lake
                schema: {self.schema}
                libraries:
                  - glob:
                      include: steps/**
                """)
        }

    def python(self, text: str) -> None:
        head = (
            "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\nspark = SparkSession.active()\n"
        )
        self.files["steps/flows.py"] = head + dedent(text).replace("{in}", str(self.folder / "in"))

    def put(self, name: str, rows: list[dict[str, Any]]) -> None:
        part = self.folder / f".{name}"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        part.rename(self.folder / "in" / name)

    def check(self) -> Graph:
        graph = run_project(self.files, self.connect, {"dry": True}, session_id=str(uuid.uuid4())).graph
        self.client.pipelines.register(
            "lake",
            [self.schema],
            "daily",
            self.files,
            tables=graph.tables,
            views=graph.views,
            sinks=sorted(graph.sinks.values()),
            flows=graph.flows,
        )
        return graph

    def run(self, **what: Any) -> Job:
        job = self.client.pipelines.run("lake", [self.schema], "daily", **what)
        Worker(self.client, threading.Event(), programs={PIPELINE: pipeline_program(self.connect)}).run(once=True)
        return self.client.jobs.get(job.id)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lake.load_table(f"{self.schema}.{table}").scan().to_arrow().to_pylist()
        return found


def kill_projects() -> None:
    """Kill the processes that import projects."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            if any("sdp.child" in word for word in process.cmdline()):
                process.kill()


SLOW = """
    @dp.table
    def bronze():
        return spark.readStream.schema("id LONG, amount DOUBLE").option("maxFilesPerTrigger", 1).json("{in}")

    @dp.materialized_view
    def gold():
        return spark.read.table("bronze").selectExpr("count(*) AS n", "count(DISTINCT id) AS ids")
"""
"""Each file is a batch, so that a kill comes between two of them."""
