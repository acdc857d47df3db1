"""Lineage: which versions of which tables a version of a table was made of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.console.api import console, levels
from moorage.api.errands import errand_of
from moorage.api.job_info import EXAMPLE_JOB, JobInfo, job_info
from moorage.core.errors import CatalogNotFound, InvalidInput, KeyReused, NamespaceNotFound, TableNotFound
from moorage.core.jobs import INGEST, PIPELINE
from moorage.core.lineage import MAX_STEPS
from moorage.http import Answer, Call, Example, Int64, NoBody, NoQuery
from moorage.usecases.catalog import addresses
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.lineage import Origin, Trace, TracedStep, record_origin, trace

routes = console.section(tags=("tables",))

_LARGEST = 2**63 - 1
Version = Annotated[
    str,
    Meta(
        pattern="^[0-9]{1,19}$",
        description="The version of a Delta or Lance table, or the id of a snapshot of an Iceberg table.",
    ),
]
Names = Annotated[tuple[str, ...], Meta(max_length=1000)]


class LineageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which version, and in which direction."""

    version: Annotated[Version | None, Meta(description="Not set: the newest version that a job has made.")] = None
    direction: Annotated[
        Literal["upstream", "downstream"], Meta(description="What it was made of, or what was made of it.")
    ] = "upstream"
    limit: Annotated[int, Meta(ge=1, le=MAX_STEPS, description="The most steps to return.")] = 100


class LineageInput(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was read. A table that the caller may not see has neither a name nor an id."""

    table: str | None
    id: str | None
    version: Version | None
    until: Annotated[
        Version | None, Meta(description="The newest version that may have been read, if it changed meanwhile.")
    ] = None


class LineageOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was written, with its new versions in order."""

    table: str
    id: str
    versions: tuple[Version, ...]


class LineageStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one job made one table of."""

    job: str
    kind: str
    pipeline: str | None
    started_at_ms: Int64
    ended_at_ms: Int64 | None
    output: LineageOutput
    inputs: tuple[LineageInput, ...]
    sources: Annotated[tuple[str, ...], Meta(description="Files and folders outside the catalog.")]
    columns: Annotated[dict[str, tuple[str, ...]], Meta(description="Column → the columns that it was computed from.")]


class LineageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that lead to a version of a table or from it, the nearest first."""

    table: str
    id: str
    version: Version | None
    steps: tuple[LineageStep, ...]
    complete: Annotated[bool, Meta(description="False: there are more steps than the limit.")]


class NewInput(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was read, by its path of names."""

    path: Annotated[tuple[str, ...], Meta(min_length=3, max_length=100)]
    version: Version | None = None


class NewOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What the client made versions of this table of."""

    versions: Annotated[tuple[Version, ...], Meta(min_length=1, max_length=1000)]
    previous: Annotated[Version | None, Meta(description="The version that the rows were added to.")] = None
    inputs: Annotated[tuple[NewInput, ...], Meta(max_length=1000)] = ()
    sources: Names = ()
    columns: dict[str, tuple[str, ...]] = {}
    counts: Annotated[dict[str, Int64], Meta(description="Such as rows, files and bytes.")] = {}


_WHERE = {"catalog": "sample", "namespace": "sales", "table": "orders"}
_STEP: dict[str, Any] = {
    "job": EXAMPLE_JOB["id"],
    "kind": PIPELINE,
    "pipeline": "sample.sales.daily",
    "started_at_ms": 1794737732278,
    "ended_at_ms": 1794737739999,
    "output": {"table": "sample.sales.orders", "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d12", "versions": ["7"]},
    "inputs": [
        {"table": "sample.sales.events", "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d13", "version": "41", "until": None}
    ],
    "sources": [],
    "columns": {"total": ["sample.sales.events.amount"]},
}


def _address(call: Call[Any, Any]) -> Address:
    space = addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))
    return addresses.table(space, call.params["table"])


@routes.get(
    "/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/lineage",
    operation="getLineage",
    summary="Get the lineage of a table.",
    stage="public_preview",
    query=LineageQuery,
    answer=LineageInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound),
    example=Example(
        path=_WHERE,
        query={"version": "7"},
        answer={
            "table": "sample.sales.orders",
            "id": _STEP["output"]["id"],
            "version": "7",
            "steps": [_STEP],
            "complete": True,
        },
    ),
)
async def get_lineage(call: Call[NoBody, LineageQuery], ports: Ports) -> Answer:
    """Get the jobs that made a version, with the versions that they read, or the jobs that read it.

    Without a version: upstream of the newest version that a job has made, and downstream of every version.
    """
    query = call.query
    if query.version is not None:
        _require_number(query.version, "version")
    found = await trace(
        ports, call.caller, _address(call), version=query.version, direction=query.direction, limit=query.limit
    )
    return Answer.json(_to_info(found))


@routes.post(
    "/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/lineage",
    operation="recordLineage",
    summary="Record what versions of a table were made of.",
    stage="public_preview",
    body=NewOrigin,
    answer=JobInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound, KeyReused),
    example=Example(
        path=_WHERE,
        body={"versions": ["0"], "sources": ["file:///srv/incoming"], "counts": {"rows": 1000}},
        answer=EXAMPLE_JOB | {"kind": INGEST, "state": "succeeded", "ended_at_ms": 1794737799999},
    ),
)
async def record_lineage(call: Call[NewOrigin, NoQuery], ports: Ports) -> Answer:
    """Record what a client made versions of a table of, as a job that has succeeded. Tables that it read are named by
    their path. The caller needs MODIFY on the table and SELECT on the tables that it read."""
    body = call.body
    for version in (*body.versions, *(each.version for each in body.inputs if each.version is not None)):
        _require_number(version, "versions")
    inputs = [(addresses.namespace(*each.path[:-1]), each) for each in body.inputs]
    origin = Origin(
        versions=body.versions,
        previous=body.previous,
        inputs=tuple((addresses.table(space, each.path[-1]), each.version) for space, each in inputs),
        sources=body.sources,
        columns=body.columns,
        counts=body.counts,
    )
    return Answer.json(job_info(await record_origin(ports, errand_of(call, ports), _address(call), origin)))


def _require_number(version: str, field: str) -> None:
    if int(version) > _LARGEST:
        raise InvalidInput(f"{field} has the number {version}; the largest one is {_LARGEST}", field=field)


def _to_info(found: Trace) -> LineageInfo:
    return LineageInfo(
        table=found.name,
        id=found.table.id,
        version=found.version,
        steps=tuple(map(_to_step, found.steps)),
        complete=found.is_complete,
    )


def _to_step(traced: TracedStep) -> LineageStep:
    job, step = traced.job, traced.step
    return LineageStep(
        job=job.id,
        kind=job.kind,
        pipeline=traced.pipeline,
        started_at_ms=job.created_at_ms,
        ended_at_ms=job.ended_at_ms,
        output=LineageOutput(table=step.output.table, id=step.output.id, versions=step.output.versions),
        inputs=tuple(
            LineageInput(table=each.table or None, id=each.id or None, version=each.version, until=each.until)
            for each in step.inputs
        ),
        sources=step.sources,
        columns=step.columns,
    )
