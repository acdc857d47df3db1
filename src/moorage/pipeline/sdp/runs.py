"""A run of a registered pipeline: the program of a worker. Its views are published together, at the end, or not."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from moorage.client import Client
from moorage.client.answers import Job, Pipeline
from moorage.client.operations import IcebergCommit
from moorage.pipeline.program import PermanentFailure, Program, Progress
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.project import Outcome, ProjectFailed, interrupt, run_project

MAIN: Final = "main"
_NAMESPACE: Final = uuid.UUID("5d7b5c1e-3f4a-4e0e-9a57-0d6f5f2f7a10")


def pipeline_program(server: ConnectServer) -> Program:
    """The program for jobs of kind `pipeline`."""

    def run(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        catalog, *path, name = job.args["pipeline"]
        pipeline = client.pipelines.get(catalog, path, name)
        for attempt in range(1, job.attempt):
            interrupt(server, session_of(job, attempt))
        branch = f"run-{job.id}"
        before = {table: client.pipelines.iceberg_metadata(table) for table in _involved(pipeline)}
        drop_branches(client, pipeline, branch)  # of an attempt that was killed
        chosen = ("refresh", "full_refresh", "full_refresh_all")
        order: dict[str, Any] = {key: value for key, value in job.args.items() if key in chosen}
        order["conf"] = {"spark.wap.branch": branch}
        try:
            outcome = run_project(
                pipeline.files,
                server,
                order,
                session_id=session_of(job, job.attempt),
                on_event=_reporter(progress),
                catalog=catalog,
            )
        except ProjectFailed as error:
            drop_branches(client, pipeline, branch)
            raise (PermanentFailure if error.refused else RuntimeError)(str(error)) from error
        except BaseException:
            interrupt(server, session_of(job, job.attempt))
            drop_branches(client, pipeline, branch)
            raise
        publish(client, pipeline, branch)
        return result_of(client, pipeline, outcome, before)

    return run


def session_of(job: Job, attempt: int) -> str:
    """The session of an attempt. A later attempt knows it, and ends what the earlier one left."""
    return str(uuid.uuid5(_NAMESPACE, f"{job.id}/{attempt}"))


def _reporter(progress: Progress) -> Callable[[Outcome], None]:
    def report(outcome: Outcome) -> None:
        done = sum(state in ("COMPLETED", "FAILED", "SKIPPED", "EXCLUDED") for state in outcome.flows.values())
        fraction = done / len(outcome.flows) if outcome.flows else 0.0
        step = next((f"{flow} is {state}" for flow, state in outcome.flows.items() if state == "RUNNING"), "planning")
        progress({"fraction": round(fraction, 3), "step": step, "flows": dict(outcome.flows)})

    return report


def _involved(pipeline: Pipeline) -> list[str]:
    read = {table for flow in pipeline.flows for table in flow.reads}
    return sorted({*pipeline.tables, *pipeline.views, *(table for table in read if table.count(".") == 2)})


def publish(client: Client, pipeline: Pipeline, branch: str) -> None:
    """Move `main` of all views to what the run has written, in one entry of the ledger."""
    commits = []
    for view in pipeline.views:
        refs = _refs(client, view)
        if branch not in refs:
            continue
        main, written = refs.get(MAIN), refs[branch]
        commits.append(
            IcebergCommit(
                path=tuple(view.split(".")),
                requirements=(
                    {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": main},
                    {"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": written},
                ),
                updates=(
                    {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": written},
                    {"action": "remove-snapshot-ref", "ref-name": branch},
                ),
            )
        )
    if commits:
        client.transact(commits)


def drop_branches(client: Client, pipeline: Pipeline, branch: str) -> None:
    """Forget what a run has written to views. Readers never saw it."""
    commits = [
        IcebergCommit(path=tuple(view.split(".")), updates=({"action": "remove-snapshot-ref", "ref-name": branch},))
        for view in pipeline.views
        if branch in _refs(client, view)
    ]
    if commits:
        client.transact(commits)


def _refs(client: Client, table: str) -> dict[str, int]:
    metadata = client.pipelines.iceberg_metadata(table)
    refs = {} if metadata is None else metadata.get("refs") or {}
    return {name: ref["snapshot-id"] for name, ref in refs.items()}


def result_of(
    client: Client, pipeline: Pipeline, outcome: Outcome, before: dict[str, dict[str, Any] | None]
) -> dict[str, Any]:
    """The rows of each table, and which snapshots were read and written."""
    tables, written = {}, []
    for table in (*pipeline.tables, *pipeline.views):
        after = client.pipelines.iceberg_metadata(table)
        if after is None:
            continue
        snapshot = _main_snapshot(after)
        summary = {} if snapshot is None else snapshot.get("summary") or {}
        tables[table] = {"rows": _count(summary, "total-records"), "added": _added(before.get(table), after)}
        if snapshot is not None and snapshot != _main_snapshot(before.get(table)):
            written.append({"table": table, "snapshot": str(snapshot["snapshot-id"])})
    own = {*pipeline.tables, *pipeline.views}
    read = [
        {"table": table, "snapshot": None if snapshot is None else str(snapshot["snapshot-id"])}
        for table in _involved(pipeline)
        if table not in own
        for snapshot in [_main_snapshot(before.get(table))]
    ]
    lineage = {"reads": read, "writes": written, "flows": [[flow.target, *flow.reads] for flow in pipeline.flows]}
    return {"digest": pipeline.digest, "tables": tables, "flows": outcome.flows, "lineage": lineage}


def _main_snapshot(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    current = None if metadata is None else metadata.get("current-snapshot-id")
    if metadata is None or current in (None, -1):
        return None
    return next((each for each in metadata["snapshots"] if each["snapshot-id"] == current), None)


def _added(before: dict[str, Any] | None, after: dict[str, Any]) -> int:
    """The rows of the snapshots that the run has added to main."""
    known = {each["snapshot-id"] for each in (before or {}).get("snapshots") or ()}
    new = {each["snapshot-id"]: each for each in after["snapshots"] if each["snapshot-id"] not in known}
    rows, at = 0, after.get("current-snapshot-id")
    while at in new:
        rows += _count(new[at].get("summary") or {}, "added-records") or 0
        at = new[at].get("parent-snapshot-id")
    return rows


def _count(summary: dict[str, str], name: str) -> int | None:
    return int(summary[name]) if name in summary else None
