"""Scan planning by the server."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from moorage.api.iceberg.api import iceberg, relation_of
from moorage.api.iceberg.bodies import EXAMPLE_TABLE, Kebab
from moorage.api.iceberg.tables import MISSING
from moorage.core.errors import InvalidInput, PlanNotFound, PlanTaskNotFound, Unsupported, VersionNotFound
from moorage.core.securables import Kind
from moorage.formats.iceberg.scans import PlanTableScanRequest
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.answers import JSON
from moorage.usecases.iceberg import plans as iceberg_plans
from moorage.usecases.iceberg.plans import PlanRequest
from moorage.usecases.ports import Ports

routes = iceberg.section(tags=("planning",))

_ERRORS = (InvalidInput, VersionNotFound, Unsupported, *MISSING)
_JAVA = "Apache Iceberg "
"""The prefix of the version that Java clients send."""


PrimitiveTypeValue = bool | int | float | str


class CountMap(Kebab, frozen=True, kw_only=True):
    """Counts by column; the keys are column ids."""

    keys: tuple[int, ...]
    values: tuple[int, ...]


class ValueMap(Kebab, frozen=True, kw_only=True):
    """Values by column, each in the JSON form of its type; the keys are column ids."""

    keys: tuple[int, ...]
    values: tuple[PrimitiveTypeValue, ...]


class ContentFile(Kebab, frozen=True, kw_only=True):
    """The properties that data files and delete files share."""

    file_path: str
    file_format: str
    spec_id: int
    partition: Annotated[
        tuple[PrimitiveTypeValue | None, ...],
        Meta(description="The values of the partition, in the order of its spec."),
    ]
    file_size_in_bytes: int
    record_count: int
    key_metadata: str | None = None
    split_offsets: tuple[int, ...] | None = None
    sort_order_id: int | None = None


class DataFile(ContentFile, frozen=True, kw_only=True):
    """A data file. It has statistics only for the fields that the request names."""

    content: Literal["data"]
    first_row_id: int | None = None
    column_sizes: CountMap | None = None
    value_counts: CountMap | None = None
    null_value_counts: CountMap | None = None
    nan_value_counts: CountMap | None = None
    lower_bounds: ValueMap | None = None
    upper_bounds: ValueMap | None = None


class DeleteFile(ContentFile, frozen=True, kw_only=True):
    """A file that deletes rows of data files, by position or by value."""

    content: Literal["position-deletes", "equality-deletes"]
    equality_ids: tuple[int, ...] | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


class FileScanTask(Kebab, frozen=True, kw_only=True):
    """A data file to read."""

    data_file: DataFile
    delete_file_references: Annotated[
        tuple[int, ...] | None, Meta(description="The indexes of the delete files that apply, from 0.")
    ] = None
    residual_filter: Annotated[Any, Meta(description="The residual filter: an expression or a boolean.")] = None


class ScanTasks(Kebab, frozen=True, kw_only=True):
    """Files to read, and tasks with which more files can be fetched."""

    delete_files: tuple[DeleteFile, ...] | None = None
    file_scan_tasks: tuple[FileScanTask, ...] | None = None
    plan_tasks: tuple[str, ...] | None = None


class FetchPlanningResult(ScanTasks, frozen=True, kw_only=True):
    """A plan, or the status that it is not ready or was cancelled."""

    status: Literal["completed", "submitted", "cancelled"]


class PlanTableScanResult(ScanTasks, frozen=True, kw_only=True):
    """A plan, or the id with which it can be fetched later."""

    status: Literal["completed", "submitted"]
    plan_id: str


class FetchScanTasksRequest(Kebab, frozen=True, kw_only=True):
    """One task of a plan."""

    plan_task: str


_EXAMPLE_TASKS: dict[str, Any] = {
    "delete-files": [],
    "file-scan-tasks": [
        {
            "data-file": {
                "content": "data",
                "file-path": "file:///data/managed/tables/01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d77/data/00000.parquet",
                "file-format": "parquet",
                "spec-id": 0,
                "partition": [],
                "file-size-in-bytes": 2048,
                "record-count": 3,
            },
            "residual-filter": {"type": "eq", "term": "city", "value": "Oslo"},
        }
    ],
    "plan-tasks": [],
}
_EXAMPLE_ID = "GJVX3vWzSLdOqLfo9lVqJnsiYXNrZWQiOnt9fQ"


def _json_answer(body: bytes) -> Answer:
    return Answer(200, body, (JSON,))


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    operation="planTableScan",
    summary="Plan a scan.",
    body=PlanTableScanRequest,
    answer=PlanTableScanResult,
    errors=_ERRORS,
    mutation=False,
    example=Example(
        path=EXAMPLE_TABLE,
        body={"select": ["id", "city"], "filter": {"type": "eq", "term": "city", "value": "Oslo"}},
        answer={"status": "completed", "plan-id": _EXAMPLE_ID, **_EXAMPLE_TASKS},
    ),
)
async def plan_table_scan(call: Call[PlanTableScanRequest, NoQuery], ports: Ports) -> Answer:
    """Find the files that a scan has to read, each with its residual filter, and tasks for more files.

    With `Prefer: respond-async`, or if many manifests have to be read first, the plan is only submitted.
    """
    prefers = (call.header("prefer") or "").replace(" ", "").lower().split(",")
    request = PlanRequest(
        scan=call.body,
        in_background="respond-async" in prefers,
        raw_bounds=(call.header("x-client-version") or "").startswith(_JAVA),
    )
    return _json_answer(await iceberg_plans.plan_scan(ports, call.caller, relation_of(call, Kind.TABLE), request))


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    operation="fetchPlanningResult",
    summary="Fetch a submitted plan.",
    answer=FetchPlanningResult,
    errors=(PlanNotFound, *_ERRORS),
    example=Example(path={**EXAMPLE_TABLE, "plan-id": _EXAMPLE_ID}, answer={"status": "completed", **_EXAMPLE_TASKS}),
)
async def fetch_planning_result(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Fetch a plan. If the status is `submitted`, it is not ready: retry later. Every server can answer."""
    address, id = relation_of(call, Kind.TABLE), call.params["plan-id"]
    return _json_answer(await iceberg_plans.fetch_plan(ports, call.caller, address, id))


@routes.delete(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    operation="cancelPlanning",
    summary="Cancel a plan.",
    status=204,
    errors=(PlanNotFound, *_ERRORS),
    mutation=False,
    example=Example(path={**EXAMPLE_TABLE, "plan-id": _EXAMPLE_ID}),
)
async def cancel_planning(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Stop computing a plan. Its tasks can still be fetched until they expire."""
    await iceberg_plans.cancel_plan(ports, call.caller, relation_of(call, Kind.TABLE), call.params["plan-id"])
    return Answer.empty()


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    operation="fetchScanTasks",
    summary="Fetch the files of a task.",
    body=FetchScanTasksRequest,
    answer=ScanTasks,
    errors=(PlanTaskNotFound, *_ERRORS),
    mutation=False,
    example=Example(path=EXAMPLE_TABLE, body={"plan-task": _EXAMPLE_ID}, answer=_EXAMPLE_TASKS),
)
async def fetch_scan_tasks(call: Call[FetchScanTasksRequest, NoQuery], ports: Ports) -> Answer:
    """Fetch the files of one task. Tasks can be fetched in any order, in parallel, and from any server."""
    address = relation_of(call, Kind.TABLE)
    return _json_answer(await iceberg_plans.fetch_tasks(ports, call.caller, address, call.body.plan_task))
