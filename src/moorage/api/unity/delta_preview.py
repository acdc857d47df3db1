"""The same operations under the addresses that Delta 4.0 to 4.2 call."""

from __future__ import annotations

from moorage.api.errands import errand_of
from moorage.api.unity.api import SINCE, unity
from moorage.api.unity.delta_bodies import DeltaCommit, DeltaCommits, DeltaMetrics, GetDeltaCommits
from moorage.api.unity.delta_commits import (
    DELTA_ID,
    EXAMPLE_COMMIT,
    EXAMPLE_REPORT,
    TABLE,
    answer_commits,
    keep_metrics,
)
from moorage.api.unity.shapes import NOTHING, Nothing
from moorage.core.errors import InvalidInput, TableNotFound, VersionTaken
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases import delta_commits
from moorage.usecases.ports import Ports


@unity.get(
    "/delta/preview/commits",
    operation="getPreviewCommits",
    summary="Get the commits that may not be published yet, as Delta 4.0 asks for them.",
    stage="public_preview",
    since=SINCE,
    tags=("delta commits",),
    body=GetDeltaCommits,
    body_required=False,
    query=GetDeltaCommits,
    answer=DeltaCommits,
    errors=(InvalidInput, TableNotFound),
    example=Example(
        query={"table_id": DELTA_ID}, body={}, answer={"commits": [EXAMPLE_COMMIT], "latest_table_version": 1}
    ),
)
async def get_preview_commits(call: Call[GetDeltaCommits, GetDeltaCommits], ports: Ports) -> Answer:
    """As getCommits."""
    return await answer_commits(call, ports)


@unity.post(
    "/delta/preview/commits",
    operation="writePreviewCommit",
    summary="Propose a staged commit, as Delta 4.0 does.",
    stage="public_preview",
    since=SINCE,
    tags=("delta commits",),
    body=DeltaCommit,
    answer=Nothing,
    errors=(InvalidInput, TableNotFound, VersionTaken),
    example=Example(body={**TABLE, "commit_info": EXAMPLE_COMMIT, "latest_backfilled_version": 0}, answer={}),
)
async def write_preview_commit(call: Call[DeltaCommit, NoQuery], ports: Ports) -> Answer:
    """As writeCommit."""
    # Delta 4.0 parses the answer as JSON, so it may not be empty.
    await delta_commits.commit(ports, errand_of(call, ports), call.body.to_request())
    return Answer.json(NOTHING)


@unity.post(
    "/delta/preview/metrics",
    operation="writePreviewMetrics",
    summary="Report on a commit, as Delta 4.2 does.",
    stage="public_preview",
    since=SINCE,
    tags=("delta commits",),
    body=DeltaMetrics,
    answer=Nothing,
    errors=(InvalidInput, TableNotFound),
    keyed=False,
    example=Example(body={**TABLE, "report": EXAMPLE_REPORT}, answer={}),
)
async def write_preview_metrics(call: Call[DeltaMetrics, NoQuery], ports: Ports) -> Answer:
    """As writeMetrics."""
    return await keep_metrics(call, ports)
