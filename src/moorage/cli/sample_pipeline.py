"""The pipeline of the sample lake: files of port calls become tables of all three formats.

It is registered with its graph, and its first run waits in the queue for the worker with Spark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moorage.cli.sample import CATALOG
from moorage.core.jobs import PIPELINE

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.answers import Flow

SCHEMA: Final = "science"
NAME: Final = "traffic"
TOTALS: Final = f"{CATALOG}.{SCHEMA}.calls_by_port"
_SPACE: Final = f"{CATALOG}.{SCHEMA}"
_SPEC: Final = """\
name: {name}
storage: {storage}
catalog: {catalog}
schema: {schema}
libraries:
  - glob:
      include: steps/**
"""
_STEPS: Final = '''\
"""Calls of boats at ports arrive as JSON files. Put more files into the folder, and run the pipeline again."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from moorage.client.expectations import define_checked

spark = SparkSession.active()
INCOMING = {incoming!r}


@dp.table(comment="Every call, as it arrived.")
def calls():
    columns = "boat STRING, port STRING, day DATE, miles DOUBLE, x FLOAT, y FLOAT"
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(INCOMING)


rules = {{"the port is known": "port IS NOT NULL", "the distance is usual": ("miles < 5000", "warn")}}
define_checked("good_calls", "calls", rules, keep_rejected=True)


@dp.materialized_view(comment="How busy each port is.")
def calls_by_port():
    calls = spark.read.table("good_calls")
    return calls.groupBy("port").agg({{"*": "count", "miles": "sum"}}).toDF("port", "calls", "miles")


dp.create_sink("log", "moorage", {{"path": "{space}.call_log"}})
dp.create_sink("points", "moorage", {{"path": "{space}.call_points", "tableFormat": "lance"}})


@dp.append_flow(target="log")
def call_log():
    return spark.readStream.table("calls").select("boat", "port", "day", "miles")


@dp.append_flow(target="points")
def call_points():
    return spark.readStream.table("calls").selectExpr("boat", "port", "array(x, y) AS position")
'''
_READS: Final = {
    "calls": (),
    "good_calls": ("calls",),
    "good_calls_rejected": ("calls",),
    "good_calls_quality": ("calls",),
    "calls_by_port": ("good_calls",),
    "call_log": ("calls",),
    "call_points": ("calls",),
}
_SINKS: Final = ("call_log", "call_points")
_PORTS: Final = (
    ("Valparaiso", -71.6, -33.0),
    ("Gravesend", 0.37, 51.4),
    ("Kinshasa", 15.3, -4.3),
    ("Brixham", -3.5, 50.4),
)
_BOATS: Final = ("Esmeralda", "Nellie", "Roi des Belges", "Vigilance")


def make(client: Client, folder: Path) -> None:
    """Write the files, register the pipeline, and enqueue its first run. What exists stays as it is."""
    folder = folder.absolute()
    incoming = folder / "incoming"
    if not incoming.is_dir():
        _write_calls(incoming)
    spec = _SPEC.format(name=NAME, storage=(folder / "state").as_uri(), catalog=CATALOG, schema=SCHEMA)
    steps = _STEPS.format(incoming=str(incoming), space=_SPACE)
    pipeline = client.pipelines.register(
        CATALOG,
        [SCHEMA],
        NAME,
        {"spark-pipeline.yml": spec, "steps/traffic.py": steps},
        tables=[f"{_SPACE}.calls"],
        views=[f"{_SPACE}.{name}" for name in _READS if name not in ("calls", *_SINKS)],
        sinks=[f"{_SPACE}.{name}" for name in _SINKS],
        flows=_flows(str(incoming)),
        comment="Port calls: from files to tables of all three formats.",
    )
    if next(iter(client.jobs.list(kind=PIPELINE, subject=pipeline.id)), None) is None:
        client.pipelines.run(CATALOG, [SCHEMA], NAME)


def _flows(incoming: str) -> list[Flow]:
    from moorage.client.answers import Flow

    return [
        Flow(
            name=name,
            target=f"{_SPACE}.{name}",
            reads=tuple(f"{_SPACE}.{read}" for read in reads),
            sources=() if reads else (incoming,),
            file="steps/traffic.py",
        )
        for name, reads in _READS.items()
    ]


def _write_calls(folder: Path) -> None:
    """Three days of calls, a few of them without a port."""
    made = folder.with_name(".incoming")
    made.mkdir(parents=True, exist_ok=True)
    for day in range(1, 4):
        rows = []
        for number in range(100):
            port, x, y = _PORTS[(number * 7 + day) % len(_PORTS)]
            call = {"boat": _BOATS[number % 4], "port": None if number % 25 == 24 else port, "day": f"2026-11-{day:02}"}
            rows.append({**call, "miles": float(number * 61 % 6000), "x": x, "y": y})
        (made / f"day-{day}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made.rename(folder)
