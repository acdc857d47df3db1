"""Checks and runs a project in a child process, and collects what the child reports."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.client.answers import Flow
from moorage.pipeline.sdp.connect_server import ConnectServer, dying_with_parent

_POLL_SECONDS: Final = 1.0
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "JAVA_HOME", "SPARK_LOCAL_IP")
"""The variables that the child inherits. Others may hold secrets."""
_FLOW_EVENT: Final = re.compile(r"Flow '?(?P<flow>\S+?)'? is (?P<state>[A-Z]+)")
_SQL_OUTPUT: Final = re.compile(
    r"CREATE\s+(?:OR\s+REFRESH\s+)?(?P<type>STREAMING\s+TABLE|MATERIALIZED\s+VIEW)\s+(?P<name>[\w.`]+)", re.IGNORECASE
)
_SQL_READ: Final = re.compile(r"(?:FROM|JOIN)\s+(?:STREAM\s*\(?\s*)?(?P<name>[\w.`]+)", re.IGNORECASE)


class ProjectFailed(Exception):
    """The check or the run failed. `refused` means that another attempt would fail in the same way."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class Graph(msgspec.Struct, kw_only=True):
    """What a project defines. Names are complete: catalog, schema and table."""

    name: str = ""
    catalog: str | None = None
    database: str | None = None
    storage: str = ""
    tables: list[str] = []
    views: list[str] = []
    sinks: list[str] = []
    flows: list[Flow] = []

    def full_name(self, name: str) -> str:
        parts = name.replace("`", "").split(".")
        if len(parts) == 1 and self.database:
            parts = [self.database, *parts]
        if len(parts) == 2 and self.catalog:
            parts = [self.catalog, *parts]
        return ".".join(parts)


class Outcome(msgspec.Struct, kw_only=True):
    graph: Graph
    flows: dict[str, str]
    """The last state of each flow."""
    log: list[str]


OnEvent = Callable[[Outcome], None]


def run_project(
    files: Mapping[str, str],
    server: ConnectServer,
    order: dict[str, Any],
    *,
    session_id: str,
    on_event: OnEvent = lambda _: None,
    catalog: str | None = None,
) -> Outcome:
    """Run a project, or check it with `order["dry"]`. `on_event` may raise, which ends the run."""
    with tempfile.TemporaryDirectory(prefix="moorage-pipeline-") as name:
        folder = Path(name)
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        remote = f"{server.address(catalog)}/;user_id=moorage;session_id={session_id}"
        whole = {"conf": {}, "dry": False, **order, "folder": str(folder), "remote": remote}
        return _watched(whole, server, on_event)


def _watched(order: dict[str, Any], server: ConnectServer, on_event: OnEvent) -> Outcome:
    outcome = Outcome(graph=Graph(), flows={}, log=[])
    child = subprocess.Popen(
        dying_with_parent([sys.executable, "-m", "moorage.pipeline.sdp.child", json.dumps(order)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"no_proxy": "127.0.0.1"},
    )
    assert child.stdout is not None  # noqa: S101  it is a pipe
    lines: queue.Queue[str | None] = queue.Queue()
    readers = [
        threading.Thread(target=_read, args=(child.stdout, lines), daemon=True),
        threading.Thread(target=_drain, args=(child.stderr, outcome.log), daemon=True),
    ]
    for reader in readers:
        reader.start()
    error: ProjectFailed | None = None
    try:
        while True:
            try:
                line = lines.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if not server.is_alive:
                    raise ProjectFailed("the Spark Connect server died during the run") from None
                on_event(outcome)
                continue
            if line is None:
                break
            error = _take(json.loads(line), outcome) or error
            on_event(outcome)
        code = child.wait()
    finally:
        child.kill()
        child.wait()
        for reader in readers:
            reader.join()
        child.stdout.close()
        if child.stderr is not None:
            child.stderr.close()
    if error is not None:
        raise error
    if code:
        raise ProjectFailed(f"the project's process ended with code {code}: {' '.join(outcome.log[-5:])}")
    return outcome


def _read(source: Any, lines: queue.Queue[str | None]) -> None:
    for line in source:
        lines.put(line)
    lines.put(None)


def _drain(source: Any, log: list[str]) -> None:
    for line in source:
        log.append(line.rstrip())
        del log[:-200]


def _take(line: dict[str, Any], outcome: Outcome) -> ProjectFailed | None:
    graph = outcome.graph
    match line["kind"]:
        case "spec":
            graph.name, graph.storage = line["name"], line["storage"]
            graph.catalog, graph.database = line["catalog"], line["database"]
        case "output":
            {"view": graph.views, "table": graph.tables, "sink": graph.sinks}[line["type"]].append(
                graph.full_name(line["name"])
            )
        case "flow":
            flow = Flow(
                name=line["name"],
                target=graph.full_name(line["target"]),
                reads=tuple(map(graph.full_name, line["reads"])),
                file=line["file"],
                line=line["line"],
            )
            graph.flows.append(flow)
        case "sql":
            _take_sql(line, graph)
        case "event":
            outcome.log.append(line["text"])
            if found := _FLOW_EVENT.search(line["text"]):
                outcome.flows[found["flow"]] = found["state"]
        case "error":
            return ProjectFailed(line["message"], refused=line["refused"])
    return None


def _take_sql(line: dict[str, Any], graph: Graph) -> None:
    """The outputs of a SQL file and the tables that it reads, found by their keywords."""
    text = re.sub(r"--[^\n]*", "", line["text"])
    start = 0
    for statement in text.split(";"):
        if found := _SQL_OUTPUT.search(statement):
            name = graph.full_name(found["name"])
            (graph.views if "VIEW" in found["type"].upper() else graph.tables).append(name)
            reads = tuple(sorted({graph.full_name(read["name"]) for read in _SQL_READ.finditer(statement)}))
            at = line["text"].count("\n", 0, start + found.start()) + 1
            graph.flows.append(Flow(name=name, target=name, reads=reads, file=line["file"], line=at))
        start += len(statement) + 1


def interrupt(server: ConnectServer, session_id: str) -> None:
    """End what an earlier attempt left running in the server: a run goes on there when its client dies."""
    from pyspark.sql.connect.session import SparkSession

    if not server.is_alive:
        return
    # Not the common builder: it would refuse a second session in the process of a worker.
    spark = SparkSession.builder.remote(f"{server.address()}/;user_id=moorage;session_id={session_id}").create()
    spark.interruptAll()
    spark.client.release_session()
    spark.client.close()
