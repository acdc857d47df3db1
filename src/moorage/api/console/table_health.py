"""The health of tables."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from moorage.api.console.api import console, levels
from moorage.api.job_info import EXAMPLE_JOB, JobInfo, job_info
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, TableNotFound
from moorage.core.health import Activity, Policy, Problem
from moorage.http import Answer, Call, Example, Int64, NoBody, NoQuery
from moorage.usecases.catalog import addresses
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.table_health import TableHealth, get_table_health


class FactsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the files of the newest version. Null means unknown, or not part of the format."""

    version: Int64
    files: Int64
    bytes: Int64
    rows: Int64 | None
    small_files: Int64
    avoidable_files: Annotated[Int64, Meta(description="How many files fewer a compaction would leave.")]
    deleted_rows: Int64
    delete_files: Int64
    versions_since_checkpoint: Int64 | None
    has_own_log: Annotated[bool, Meta(description="Whether this catalog writes the log, and so its checkpoints.")]
    unpublished: Int64
    files_without_statistics: Int64
    unclustered_bytes: Int64
    clustering_depth: Annotated[
        float | None,
        Meta(description="How many files a file shares values of the clustering columns with, on average."),
    ]
    old_versions: Int64
    manifests: Int64 | None
    avoidable_manifests: Int64
    unindexed_rows: Int64
    refused_conversion: Annotated[str | None, Meta(description="Why Iceberg clients cannot read this version.")]
    activity: Annotated[Activity, Meta(description="What clients reported about their last commits and scans.")]


class FindingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One problem, and the work that mends it."""

    problem: Problem
    severity: Annotated[float, Meta(ge=0, le=1)]
    reason: str
    work: Annotated[str | None, Meta(description="The kind of job that mends it; null if no job does.")]
    advice: str
    due: Annotated[bool, Meta(description="Whether the work is due.")]


class TableHealthInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a table at its newest version."""

    format: str
    score: Annotated[int, Meta(ge=0, le=100, description="100 is a table without a problem.")]
    policy: Annotated[Policy, Meta(description="What the server does with due work.")]
    policy_set_by: Annotated[str | None, Meta(description="The object that sets the policy; null for the default.")]
    policy_problem: str | None
    findings: tuple[FindingInfo, ...]
    facts: FactsInfo
    jobs: Annotated[tuple[JobInfo, ...], Meta(description="The last jobs for this table, the newest first.")]


_EXAMPLE: dict[str, Any] = {
    "format": "delta",
    "score": 5,
    "policy": "advise",
    "policy_set_by": None,
    "policy_problem": None,
    "findings": [
        {
            "problem": "small_files",
            "severity": 0.95,
            "reason": "400 of 420 files are small; compaction would leave 399 files fewer",
            "work": "compact",
            "advice": "compact the table",
            "due": True,
        }
    ],
    "facts": {
        "version": 7,
        "files": 420,
        "bytes": 1048576,
        "rows": 20000,
        "small_files": 400,
        "avoidable_files": 399,
        "deleted_rows": 0,
        "delete_files": 0,
        "versions_since_checkpoint": 7,
        "has_own_log": True,
        "unpublished": 0,
        "files_without_statistics": 0,
        "unclustered_bytes": 0,
        "clustering_depth": None,
        "old_versions": 0,
        "manifests": None,
        "avoidable_manifests": 0,
        "unindexed_rows": 0,
        "refused_conversion": None,
        "activity": {"commits": 7, "files_added": 420, "bytes_added": 1048576, "scans": 0, "files_scanned": 0},
    },
    "jobs": [EXAMPLE_JOB | {"kind": "compact"}],
}


@console.get(
    "/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/health",
    operation="getTableHealth",
    summary="Get the health of a table.",
    stage="public_preview",
    tags=("tables",),
    answer=TableHealthInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound),
    example=Example(path={"catalog": "sample", "namespace": "sales", "table": "orders"}, answer=_EXAMPLE),
)
async def get_health_of_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get what is wrong with the files of a table, the work that mends it, and the policy that applies."""
    space = addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))
    found, jobs = await get_table_health(ports, call.caller, addresses.table(space, call.params["table"]))
    return Answer.json(_to_info(found, tuple(map(job_info, jobs))))


def _to_info(found: TableHealth, jobs: tuple[JobInfo, ...]) -> TableHealthInfo:
    return TableHealthInfo(
        format=found.format,
        score=found.score,
        policy=found.policy.policy,
        policy_set_by=found.policy.set_by,
        policy_problem=found.policy.problem,
        findings=tuple(FindingInfo(**asdict(each), due=each.is_due) for each in found.findings),
        facts=FactsInfo(**asdict(found.facts)),
        jobs=jobs,
    )
