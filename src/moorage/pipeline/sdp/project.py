"""Checks and runs a project in a child process, and collects what the child reports."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.client.answers import Flow
from moorage.pipeline.sdp.connect_server import ConnectServer, dying_with_parent

_POLL_SECONDS: Final = 1.0
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "JAVA_HOME", "SPARK_LOCAL_IP")
"""The variables that the child inherits. Others may hold secrets."""
_FLOW_EVENT: Final = re.compile(r"Flow '?(?P<flow>[^\s']+)'? (?:is |has |has been )?(?P<state>[A-Z]{4,})")
_UNRESOLVED: Final = re.compile(r"Failed to resolve flow: '(?P<flow>[^']+)'")
_ERROR: Final = "Error: "
_MAX_ERROR: Final = 5_000


class ProjectFailed(Exception):
    """The check or the run failed. `refused` means that another attempt would fail in the same way.

    `has_ended` means that Spark reported the end. Otherwise the run may go on in the Spark server.
    """

    def __init__(self, message: str, *, refused: bool = False, has_ended: bool = False) -> None:
        super().__init__(message)
        self.refused, self.has_ended = refused, has_ended


class FlowColumns(msgspec.Struct, frozen=True, kw_only=True):
    """What a flow tells about the columns of its target."""

    columns: dict[str, tuple[tuple[str, str], ...]]
    """Column → the tables and columns that it is computed from."""
    every: tuple[str, ...]
    """The tables of which every column that is not named is passed on."""
    hidden: tuple[str, ...] = ()
    """Columns of unknown origin, also if a table in `every` has one of that name."""


class Graph(msgspec.Struct, kw_only=True):
    """What a project defines. Names are complete: catalog, schema and table."""

    name: str = ""
    catalog: str | None = None
    database: str | None = None
    storage: str = ""
    tables: list[str] = []
    views: list[str] = []
    sinks: dict[str, str] = {}
    """Name → the table of the catalog to which it appends. Other sinks are left out."""
    flows: list[Flow] = []
    columns: dict[str, list[FlowColumns]] = {}
    """Target → what each of its flows tells about its columns."""

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
    errors: dict[str, str] = {}
    """Flow → why it failed."""

    def failures(self) -> str:
        """Each failed flow with its file, line and reason. Spark's own error has the reason of one, without its name.

        Flows that failed because of another one are left out.
        """
        where = {self.graph.full_name(flow.name): flow for flow in self.graph.flows}
        lines = []
        for name, reason in self.errors.items():
            flow = where.get(name)
            place = f"{flow.file}:{flow.line}: " if flow and flow.file else ""
            lines.append(f"{place}the flow '{name}' failed: {reason}")
        return "\n".join(lines)[:_MAX_ERROR]


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
        outcome = Outcome(graph=Graph(), flows={}, log=[])
        address = server.address(catalog, on_wait=lambda: on_event(outcome))
        remote = f"{address}/;user_id=moorage;session_id={session_id}"
        whole = {"conf": {}, "dry": False, **order, "folder": str(folder), "remote": remote}
        return _watched(whole, server, outcome, on_event)


def _watched(order: dict[str, Any], server: ConnectServer, outcome: Outcome, on_event: OnEvent) -> Outcome:
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
        case "output" if line["type"] == "sink":
            graph.sinks[line["name"]] = line["table"]
        case "output":
            (graph.views if line["type"] == "view" else graph.tables).append(graph.full_name(line["name"]))
        case "flow":
            flow = Flow(
                name=line["name"],
                target=graph.sinks.get(line["target"]) or graph.full_name(line["target"]),
                reads=tuple(map(graph.full_name, line["reads"])),
                sources=tuple(line["sources"]),
                file=line["file"],
                line=line["line"],
            )
            graph.flows.append(flow)
            graph.columns.setdefault(flow.target, []).append(_flow_columns(line, graph))
        case "event":
            _take_event(line["text"], outcome)
        case "error":
            message = line["message"] if line["refused"] else (outcome.failures() or line["message"])
            return ProjectFailed(message, refused=line["refused"], has_ended=True)
    return None


def _flow_columns(line: dict[str, Any], graph: Graph) -> FlowColumns:
    return FlowColumns(
        columns={
            name: tuple((graph.full_name(table), column) for table, column in places)
            for name, places in line["columns"].items()
        },
        every=tuple(map(graph.full_name, line["every"])),
        hidden=tuple(line["hidden"]),
    )


def _take_event(text: str, outcome: Outcome) -> None:
    outcome.log.append(text)
    found, state = _FLOW_EVENT.match(text), "FAILED"
    if found is not None:
        state = found["state"]
    else:
        found = _UNRESOLVED.match(text)
    if found is None:
        return
    outcome.flows[found["flow"]] = state
    if state == "FAILED" and _ERROR in text:
        outcome.errors[found["flow"]] = text.partition(_ERROR)[2].strip()


def interrupt(server: ConnectServer, session_id: str) -> None:
    """End what an earlier attempt left running in the server: a run goes on there when its client dies."""
    from pyspark.errors import PySparkException

    if not server.is_alive:
        return
    # A session that has ended already, or ends just now, is refused with an error.
    with contextlib.suppress(PySparkException), _session(server, session_id) as spark:
        spark.interruptAll()


def fetch_rows(server: ConnectServer, query: str) -> list[dict[str, Any]]:
    """The result of a query, by a session of its own."""
    with _session(server, str(uuid.uuid4())) as spark:
        return [row.asDict() for row in spark.sql(query).collect()]


@contextlib.contextmanager
def _session(server: ConnectServer, session_id: str) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    # Not the common builder: it would refuse a second session in the process of a worker.
    spark = SparkSession.builder.remote(f"{server.address()}/;user_id=moorage;session_id={session_id}").create()
    try:
        yield spark
    finally:
        spark.client.release_session()
        spark.client.close()
