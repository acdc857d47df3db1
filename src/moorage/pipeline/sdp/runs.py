"""A run of a registered pipeline: the program of a worker. Its views are published together, at the end, or not."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from moorage.client import Client
from moorage.client.answers import Job, Pipeline
from moorage.client.expectations import PROPERTY as EXPECTATIONS
from moorage.client.operations import IcebergCommit
from moorage.core.entries import JobState
from moorage.core.jobs import PIPELINE
from moorage.pipeline.program import Failure, PermanentFailure, Program, Progress
from moorage.pipeline.sdp.checkpoints import can_read, has_checkpoint, remove_checkpoints, storage_of
from moorage.pipeline.sdp.connect_server import ConnectServer
from moorage.pipeline.sdp.project import Outcome, ProjectFailed, fetch_rows, interrupt, run_project
from moorage.pipeline.sdp.results import (
    State,
    States,
    involved_tables,
    recorded_versions,
    result_of,
    states_of,
    with_rows,
)

MAIN: Final = "main"
_NAMESPACE: Final = uuid.UUID("5d7b5c1e-3f4a-4e0e-9a57-0d6f5f2f7a10")


def pipeline_program(server: ConnectServer) -> Program:
    """The program for jobs of kind `pipeline`."""

    def run(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
        catalog, *path, name = job.args["pipeline"]
        pipeline = client.pipelines.get(catalog, path, name)
        interrupt_earlier(server, client, job)
        branch = f"run-{job.id}"
        before = states_of(client, involved_tables(pipeline))
        drop_branches(client, pipeline, branch)  # of an attempt that was killed
        chosen = ("refresh", "full_refresh", "full_refresh_all")
        order: dict[str, Any] = {key: value for key, value in job.args.items() if key in chosen}
        order["conf"] = {"spark.wap.branch": branch}
        require_empty_sinks(client, pipeline, before, order)
        refreshed = refreshed_tables(pipeline, order)
        if streams := streams_of(pipeline, refreshed):
            require_whole(pipeline, streams, refreshed, order)
            before = empty_together(client, before, refreshed)
            order = without_full_refresh(order, refreshed)
        order |= recompute_lost(pipeline, before, order)
        try:
            outcome = run_project(
                pipeline.files,
                server,
                order,
                session_id=session_of(job, job.attempt),
                on_event=_reporter(progress),
                catalog=catalog,
            )
        except BaseException as error:
            if not (isinstance(error, ProjectFailed) and error.has_ended):
                interrupt(server, session_of(job, job.attempt))
                # An interrupt can leave flows running, so a server of this worker ends with them.
                server.kill()
            drop_branches(client, pipeline, branch)
            if isinstance(error, ProjectFailed):
                raise (PermanentFailure if error.refused else Failure)(str(error)) from error
            raise
        published = publish(client, pipeline, branch)
        after = with_rows(client, states_of(client, involved_tables(pipeline)), pipeline.sinks)
        recorded = recorded_versions(client, pipeline)
        columns = outcome.graph.columns
        result = result_of(pipeline, before, after, published=published, recorded=recorded, columns=columns)
        return {**result, "flows": outcome.flows, "expectations": expectation_counts(server, after, published)}

    return run


def interrupt_earlier(server: ConnectServer, client: Client, job: Job) -> None:
    """End what earlier attempts have left in the Spark server, also those of the last run, which was given up."""
    for attempt in range(1, job.attempt):
        interrupt(server, session_of(job, attempt))
    runs = client.jobs.list(kind=PIPELINE, subject=job.subject, newest_first=True)
    last = next((each for each in islice(runs, 2) if each.id != job.id), None)
    if last is not None and last.state in (JobState.CANCELLED, JobState.FAILED):
        for attempt in range(1, last.attempt + 1):
            interrupt(server, session_of(last, attempt))


def recompute_lost(pipeline: Pipeline, before: States, order: Mapping[str, Any]) -> dict[str, list[str]]:
    """What to refresh so that streaming tables that were dropped or emptied get all their rows again.

    They have no version, but their stream has a checkpoint, and would continue after the rows that are gone.
    """
    empty = [table for table in pipeline.tables if (found := before.get(table)) is None or found.version is None]
    storage = storage_of(pipeline.files)
    if storage is None or order.get("full_refresh_all"):
        return {}
    lost = {table for table in empty if has_checkpoint(storage, table)}
    full, chosen = set(order.get("full_refresh") or ()), set(order.get("refresh") or ())
    if not full and not chosen:  # everything: to name one table excludes those that are not named
        chosen = {*pipeline.tables, *pipeline.views}
    lost &= chosen
    for table in [table for table in lost if before.get(table) is not None]:
        # Spark would truncate it, although it is empty, and Iceberg ends a stream that meets a truncation.
        remove_checkpoints(storage, table)
        lost.remove(table)
    return {"full_refresh": sorted(full | lost), "refresh": sorted(chosen - lost)} if lost else {}


def require_empty_sinks(client: Client, pipeline: Pipeline, before: States, order: Mapping[str, Any]) -> None:
    """A full refresh reads all sources again. Spark empties the tables of the project, but no sink."""
    if not order.get("full_refresh_all"):
        return
    states = with_rows(client, before, pipeline.sinks)
    filled = [sink for sink in pipeline.sinks if (state := states.get(sink)) is not None and state.rows]
    if filled:
        raise PermanentFailure(
            f"a full refresh would append all rows to the sink '{filled[0]}' a second time; delete its rows or drop it "
            "before, or name the tables to refresh"
        )


def refreshed_tables(pipeline: Pipeline, order: Mapping[str, Any]) -> set[str]:
    """The streaming tables that Spark empties. A user may name one without its catalog and schema."""
    named = set(order.get("full_refresh") or ())
    return {
        table
        for table in pipeline.tables
        if order.get("full_refresh_all") or table in named or table.rsplit(".", 1)[-1] in named
    }


def streams_of(pipeline: Pipeline, emptied: set[str]) -> dict[str, str]:
    """Target → the table among `emptied` that a stream into the target reads, also through temporary views."""
    reads = defaultdict[str, set[str]](set)
    for flow in pipeline.flows:
        reads[flow.target].update(flow.reads)
    temporary = set(reads) - {*pipeline.tables, *pipeline.views, *pipeline.sinks}
    streams = {}
    for target in (*pipeline.tables, *pipeline.sinks):
        left, found = set(reads[target]), set[str]()
        while left:
            found |= left
            left = {read for view in left & temporary for read in reads[view]} - found
        if hit := sorted(found & emptied):
            streams[target] = hit[0]
    return streams


def require_whole(
    pipeline: Pipeline, streams: Mapping[str, str], refreshed: set[str], order: Mapping[str, Any]
) -> None:
    """A table can be computed again only together with all that its rows were streamed to."""
    sinks = [sink for sink in pipeline.sinks if sink in streams or order.get("full_refresh_all")]
    if sinks:
        raise PermanentFailure(
            f"the tables cannot be computed again: the sink '{sinks[0]}' would get rows a second time, or not all of "
            "them. Drop the sink and the tables, and run the pipeline: it computes streaming tables that were dropped"
        )
    for target, source in streams.items():
        if target not in refreshed:
            raise PermanentFailure(
                f"'{source}' cannot be computed again alone: '{target}' is filled by a stream of it. Add "
                f"--full-refresh {target}"
            )
    storage = storage_of(pipeline.files)
    if storage is None or not can_read(storage):
        raise PermanentFailure(
            f"'{next(iter(streams.values()))}' is read by a stream. To compute both again, the worker needs access to "
            f"the checkpoints in '{storage}'. Otherwise drop the tables, and run the pipeline with another storage"
        )


def empty_together(client: Client, before: States, tables: set[str]) -> dict[str, State | None]:
    """Let the tables have no rows, in one entry of the ledger. Their old snapshots stay until they expire.

    Spark would write a snapshot that deletes all rows, and Iceberg ends a stream that meets one. Whatever happens next,
    the tables are empty and their streams have checkpoints, so a run computes them again.
    """
    commits = [
        IcebergCommit(
            path=tuple(table.split(".")),
            requirements=({"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": int(state.version)},),
            updates=({"action": "remove-snapshot-ref", "ref-name": MAIN},),
        )
        for table in sorted(tables)
        if (state := before.get(table)) is not None and state.version is not None
    ]
    if commits:
        client.transact(commits)
    return {**before, **states_of(client, tables)}


def without_full_refresh(order: Mapping[str, Any], emptied: set[str]) -> dict[str, Any]:
    """The order for a run after the tables were emptied."""
    left = {name: value for name, value in order.items() if name not in ("full_refresh", "full_refresh_all")}
    return left if order.get("full_refresh_all") else {**left, "refresh": sorted({*order.get("refresh", ()), *emptied})}


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


def publish(client: Client, pipeline: Pipeline, branch: str) -> dict[str, int]:
    """Move `main` of all views to what the run has written, in one entry of the ledger. Returns their new snapshots."""
    commits, published = [], {}
    for view in pipeline.views:
        refs = _refs(client, view)
        if branch not in refs:
            continue
        main, written = refs.get(MAIN), refs[branch]
        published[view] = written
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
    return published


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


def expectation_counts(server: ConnectServer, after: States, published: Mapping[str, int]) -> dict[str, Any]:
    """The counts that the run has published: table → expectation → action, fulfilled rows, broken rows."""
    found: dict[str, Any] = {}
    for view, snapshot in published.items():
        state = after.get(view)
        counted = None if state is None else ((state.metadata or {}).get("properties") or {}).get(EXPECTATIONS)
        if counted is None:
            continue
        rows = fetch_rows(server, f"SELECT * FROM {quoted(view)} VERSION AS OF {snapshot}")  # noqa: S608
        table = ".".join((*view.split(".")[:-1], counted.rsplit(".", 1)[-1]))
        found[table] = {row.pop("expectation"): row for row in rows}
    return found


def quoted(table: str) -> str:
    return ".".join(f"`{part}`" for part in table.split("."))
