"""Pipelines: projects of Spark's declarative pipelines, registered in a namespace and run by workers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.console.api import Paging, console, levels
from moorage.api.console.bodies import EXAMPLE_NAMESPACE, Name, ObjectInfo, object_info
from moorage.api.errands import errand_of
from moorage.api.job_info import EXAMPLE_JOB, JobInfo, job_info, job_location_header
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    SecurableNotFound,
)
from moorage.core.jobs import PIPELINE
from moorage.core.pipelines import SPEC, Definition, Flow, definition_of, digest_of
from moorage.core.securables import Securable, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import addresses, browse, objects
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.pipelines import pipelines
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.job_views import visible_job

routes = console.section(tags=("pipelines",))

MISSING = (CatalogNotFound, NamespaceNotFound, SecurableNotFound)
Files = Annotated[dict[str, str], Meta(description=f"Path → text of the project's files. One of them is {SPEC}.")]


class FlowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A query that fills a table, with the tables that it reads and where it is defined."""

    name: str
    target: str
    reads: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    file: str | None = None
    line: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class RegisterPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A checked project. Registering a name again replaces its project."""

    name: Name
    files: Files
    tables: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    sinks: Annotated[tuple[str, ...], Meta(description="The Delta and Lance tables to which it appends.")] = ()
    flows: tuple[FlowInfo, ...] = ()
    schedule: Annotated[str | None, Meta(description="When to run it: a cron expression, in UTC.")] = None
    on_change: Annotated[bool, Meta(description="Run it when a table that it reads has a new version.")] = False
    comment: str | None = None

    def to_definition(self) -> Definition:
        flows = tuple(Flow(**msgspec.structs.asdict(flow)) for flow in self.flows)
        return Definition(
            files=self.files,
            digest="",
            tables=self.tables,
            views=self.views,
            sinks=self.sinks,
            flows=flows,
            schedule=self.schedule,
            on_change=self.on_change,
        )


class PipelineInfo(ObjectInfo, frozen=True, kw_only=True):
    """A pipeline with the graph of its project."""

    digest: str
    tables: tuple[str, ...]
    views: tuple[str, ...]
    sinks: tuple[str, ...]
    flows: tuple[FlowInfo, ...]
    schedule: str | None
    on_change: bool
    files: Files


class PipelineList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of pipelines. Without a token it is the last page."""

    items: tuple[PipelineInfo, ...]
    next_page_token: str | None


class RunPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """What to refresh. By default every table takes what is new."""

    refresh: Annotated[tuple[str, ...], Meta(description="Only these tables.")] = ()
    full_refresh: Annotated[tuple[str, ...], Meta(description="Empty these tables and compute them again.")] = ()
    full_refresh_all: bool = False


_FILES = {SPEC: "name: daily\nstorage: file:///srv/daily\n", "daily.sql": "CREATE MATERIALIZED VIEW v AS SELECT 1"}
_WHERE = {"catalog": "sample", "namespace": "sales"}
_ONE = {**_WHERE, "pipeline": "daily"}
_FLOW = {"name": "totals", "target": "totals", "reads": ["orders"], "sources": [], "file": "daily.py", "line": 7}
EXAMPLE_PIPELINE: dict[str, Any] = EXAMPLE_NAMESPACE | {
    "kind": "pipeline",
    "name": "daily",
    "digest": digest_of(_FILES),
    "tables": [],
    "views": ["sample.sales.totals"],
    "sinks": [],
    "flows": [_FLOW],
    "schedule": None,
    "on_change": False,
    "files": _FILES,
}


def pipeline_info(pipeline: Securable) -> PipelineInfo:
    found = definition_of(pipeline.doc)
    return PipelineInfo(
        **msgspec.structs.asdict(object_info(pipeline)),
        digest=found.digest,
        tables=found.tables,
        views=found.views,
        sinks=found.sinks,
        flows=tuple(FlowInfo(**msgspec.structs.asdict(flow)) for flow in found.flows),
        schedule=found.schedule,
        on_change=found.on_change,
        files=found.files,
    )


def _space(call: Call[Any, Any]) -> Address:
    return addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))


def _address(call: Call[Any, Any]) -> Address:
    return pipelines.pipeline_at(_space(call), call.params["pipeline"], "pipeline")


@routes.post(
    "/catalogs/{catalog}/namespaces/{namespace}/pipelines",
    operation="registerPipeline",
    summary="Register a pipeline.",
    stage="private_preview",
    body=RegisterPipeline,
    answer=PipelineInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken, KeyReused),
    example=Example(path=_WHERE, body={"name": "daily", "files": _FILES, "flows": [_FLOW]}, answer=EXAMPLE_PIPELINE),
)
async def register_pipeline(call: Call[RegisterPipeline, NoQuery], ports: Ports) -> Answer:
    """Create a pipeline, or replace the project of the one that has the name. The same project changes nothing."""
    address = pipelines.pipeline_at(_space(call), call.body.name, "name")
    made = await pipelines.register(
        ports, errand_of(call, ports), address, call.body.to_definition(), call.body.comment
    )
    return Answer.json(pipeline_info(made))


@routes.get(
    "/catalogs/{catalog}/namespaces/{namespace}/pipelines",
    operation="listPipelines",
    summary="List pipelines.",
    stage="private_preview",
    query=Paging,
    answer=PipelineList,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(path=_WHERE, answer={"items": [EXAMPLE_PIPELINE], "next_page_token": None}),
)
async def list_pipelines(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the pipelines of a namespace, in the order of their names."""
    page = await browse.page(
        ports,
        call.caller,
        _space(call),
        Shelf.PIPELINE,
        token=call.query.page_token,
        limit=page_size(call.query.max_results),
    )
    return Answer.json(PipelineList(items=tuple(map(pipeline_info, page.items)), next_page_token=page.next_token))


@routes.get(
    "/catalogs/{catalog}/namespaces/{namespace}/pipelines/{pipeline}",
    operation="getPipeline",
    summary="Get a pipeline.",
    stage="private_preview",
    answer=PipelineInfo,
    errors=(InvalidInput, *MISSING),
    example=Example(path=_ONE, answer=EXAMPLE_PIPELINE),
)
async def get_pipeline(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get one pipeline with its files, its graph and its digest."""
    chain = await browse.get(ports, call.caller, _address(call))
    return Answer.json(pipeline_info(chain[-1]))


@routes.delete(
    "/catalogs/{catalog}/namespaces/{namespace}/pipelines/{pipeline}",
    operation="dropPipeline",
    summary="Drop a pipeline.",
    stage="private_preview",
    answer=ObjectInfo,
    errors=(InvalidInput, *MISSING, KeyReused),
    example=Example(
        path=_ONE,
        answer={key: value for key, value in EXAMPLE_PIPELINE.items() if key in ObjectInfo.__struct_fields__}
        | {"dropped_at_ms": 1794737732999, "purge_at_ms": 1795342532999},
    ),
)
async def drop_pipeline(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Drop a pipeline. Its tables stay."""
    dropped = await objects.drop(ports, errand_of(call, ports), _address(call))
    return Answer.json(object_info(dropped))


@routes.post(
    "/catalogs/{catalog}/namespaces/{namespace}/pipelines/{pipeline}:run",
    operation="runPipeline",
    summary="Run a pipeline.",
    stage="private_preview",
    body=RunPipeline,
    body_required=False,
    answer=JobInfo,
    status=202,
    errors=(InvalidInput, *MISSING, KeyReused),
    example=Example(
        path=_ONE,
        body={"refresh": ["sample.sales.totals"]},
        answer=EXAMPLE_JOB | {"kind": PIPELINE, "subject": EXAMPLE_PIPELINE["id"]},
    ),
)
async def run_pipeline(call: Call[RunPipeline, NoQuery], ports: Ports) -> Answer:
    """Enqueue a run. `Location` is the URL of the job. While a run of this pipeline is open, that one is returned."""
    given = {key: value for key, value in msgspec.structs.asdict(call.body).items() if value}
    job = await pipelines.run(ports, errand_of(call, ports), _address(call), msgspec.to_builtins(given))
    shown = job_info(await visible_job(ports, call.caller, job))
    return Answer.json(shown, 202, (job_location_header(job),))
