"""Commits of managed Delta tables and their reports: the specification, and the preview API of Delta 4.0 to 4.2."""

from __future__ import annotations

from typing import Any

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.delta_bodies import DeltaCommit, DeltaCommits, DeltaMetrics, GetDeltaCommits, commit_info
from moorage.api.unity.shapes import NOTHING, Nothing
from moorage.core.errors import InvalidInput, RevisionMoved, TableNotFound, VersionTaken
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.delta import commits as delta_commits
from moorage.usecases.delta import history as delta_history
from moorage.usecases.delta.families import require_older_families_enabled
from moorage.usecases.delta.reports import store_report
from moorage.usecases.ports import Ports

routes = unity.section(tags=("delta commits",))

_COMMIT: dict[str, Any] = {
    "version": 1,
    "timestamp": 1794737732278,
    "file_name": "00000000000000000001.b5083473-fb27-4411-89b5-5d788a51fadc.json",
    "file_size": 1155,
    "file_modification_timestamp": 1794737732300,
}
DELTA_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d50"
_TABLE = {"table_id": DELTA_ID, "table_uri": f"file:///data/managed/tables/{DELTA_ID}"}
_REPORT = {"commit_report": {"num_files_added": 1, "num_bytes_added": 1199, "commit_version": 0}}

# Each operation has two routes, with the following in common.
_GET: Any = {
    "body": GetDeltaCommits,
    "body_required": False,
    "query": GetDeltaCommits,
    "answer": DeltaCommits,
    "errors": (InvalidInput, TableNotFound),
    "example": Example(query={"table_id": DELTA_ID}, body={}, answer={"commits": [_COMMIT], "latest_table_version": 1}),
}
_WRITE: Any = {
    "body": DeltaCommit,
    "answer": Nothing,
    "errors": (InvalidInput, TableNotFound, VersionTaken, RevisionMoved),
    "example": Example(body={**_TABLE, "commit_info": _COMMIT}, answer={}),
}
_METRICS: Any = {
    "body": DeltaMetrics,
    "answer": Nothing,
    "errors": (InvalidInput, TableNotFound),
    "keyed": False,
    "example": Example(body={**_TABLE, "report": _REPORT}, answer={}),
}


@routes.get(
    "/delta/preview/commits",
    operation="getPreviewCommits",
    summary="Get the commits that may not be published yet, as Delta 4.0 requests them.",
    stage="public_preview",
    **_GET,
)
@routes.get(
    "/delta/commits",
    operation="getCommits",
    summary="Get the commits that may not be published yet.",
    **_GET,
)
async def get_commits(call: Call[GetDeltaCommits, GetDeltaCommits], ports: Ports) -> Answer:
    """Return ratified commits of a managed table in ascending order. Read these first, then the files in the folder.

    A reader that listed the folder first requests the versions after the last one that it found, without an end.
    """
    require_older_families_enabled(ports.managed_tables)
    requested = call.body.merged_with(call.query)
    found, latest = await delta_history.get_commits(
        ports,
        call.caller,
        requested.table_id,
        requested.table_uri,
        first=requested.start_version,
        last=requested.end_version,
    )
    return Answer.json(DeltaCommits(commits=[commit_info(row) for row in found], latest_table_version=latest))


@routes.post(
    "/delta/preview/commits",
    operation="writePreviewCommit",
    summary="Propose a staged commit, as Delta 4.0 does.",
    stage="public_preview",
    **_WRITE,
)
@routes.post(
    "/delta/commit",
    operation="writeCommit",
    summary="Propose a staged commit, or report what was published.",
    **_WRITE,
)
async def write_commit(call: Call[DeltaCommit, NoQuery], ports: Ports) -> Answer:
    """Check a staged file and ratify it as the next version. A retry returns the original response."""
    require_older_families_enabled(ports.managed_tables)
    await delta_commits.commit(ports, errand_of(call, ports), call.body.to_request())
    # Delta 4.0 parses the response as JSON, so it must not be empty.
    return Answer.json(NOTHING)


@routes.post(
    "/delta/preview/metrics",
    operation="writePreviewMetrics",
    summary="Report on a commit, as Delta 4.2 does.",
    stage="public_preview",
    **_METRICS,
)
@routes.post(
    "/delta/metrics",
    operation="writeMetrics",
    summary="Report on a commit.",
    **_METRICS,
)
async def write_metrics(call: Call[DeltaMetrics, NoQuery], ports: Ports) -> Answer:
    """Report the effects of a commit, for the upkeep of the table. Only the first report on a version is stored."""
    require_older_families_enabled(ports.managed_tables)
    body = call.body
    report = body.report.commit_report if body.report is not None else None
    await store_report(
        ports, call.caller, body.table_id, body.table_uri, None if report is None else report.to_report()
    )
    return Answer.json(NOTHING)
