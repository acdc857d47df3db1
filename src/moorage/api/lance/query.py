"""Query routes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.arrow import EXAMPLE_DATA, FILE, READ_ERRORS, Branch, branch_in
from moorage.api.lance.bodies import Count, Named
from moorage.formats.lance.queries import Query
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import queries as lance_queries
from moorage.usecases.ports import Ports

routes = lance.section(tags=("data",))

EXAMPLE_QUERY = {
    "k": 1,
    "vector": {"single_vector": [1.0, 0.0]},
    "filter": "id < 10",
    "columns": {"column_names": ["id", "text"]},
}


class QueryTableRequest(Query, frozen=True, kw_only=True, omit_defaults=True):
    """The query, and the version to read."""

    id: list[str] | None = None
    branch: Branch = None
    version: Count | None = None


class ExplainTableQueryPlanRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The query to explain."""

    query: QueryTableRequest
    verbose: bool | None = None
    branch: Branch = None


class AnalyzeTableQueryPlanRequest(QueryTableRequest, frozen=True, kw_only=True, omit_defaults=True):
    """The query to run."""


@routes.post(
    "/v1/table/{id}/query",
    operation="QueryTable",
    summary="Query a table.",
    body=QueryTableRequest,
    content_types=(FILE,),
    mutation=False,
    errors=READ_ERRORS,
    example=Example(path=EXAMPLE_DATA, body=EXAMPLE_QUERY, answer="ARROW1"),
)
async def query_table(call: Call[QueryTableRequest, Delimited], ports: Ports) -> Answer:
    """Return the rows of a vector search, a full-text search or a filter, as an Arrow IPC file."""
    body = call.body
    chunks = await lance_queries.query(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body,
        branch=branch_in(body.branch),
        version=body.version,
    )
    return Answer.stream(chunks, FILE)


@routes.post(
    "/v1/table/{id}/explain_plan",
    operation="ExplainTableQueryPlan",
    summary="Explain a query.",
    body=ExplainTableQueryPlanRequest,
    answer=Annotated[str, Meta(description="The plan as text.")],
    mutation=False,
    errors=READ_ERRORS,
    example=Example(
        path=EXAMPLE_DATA, body={"query": EXAMPLE_QUERY, "verbose": True}, answer="ProjectionExec: expr=[id@0 as id]"
    ),
)
async def explain_table_query_plan(call: Call[ExplainTableQueryPlanRequest, Delimited], ports: Ports) -> Answer:
    """Return the plan by which Lance would run a query."""
    body = call.body
    plan = await lance_queries.explain(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body.query,
        branch=branch_in(body.branch or body.query.branch),
        version=body.query.version,
        verbose=bool(body.verbose),
    )
    return Answer.json(plan)


@routes.post(
    "/v1/table/{id}/analyze_plan",
    operation="AnalyzeTableQueryPlan",
    summary="Analyze a query.",
    body=AnalyzeTableQueryPlanRequest,
    answer=Annotated[str, Meta(description="The plan with measured costs, as text.")],
    mutation=False,
    errors=READ_ERRORS,
    example=Example(path=EXAMPLE_DATA, body=EXAMPLE_QUERY, answer="AnalyzeExec verbose=true, elapsed=1.3ms"),
)
async def analyze_table_query_plan(call: Call[AnalyzeTableQueryPlanRequest, Delimited], ports: Ports) -> Answer:
    """Run a query and return its plan with the measured cost of each step."""
    body = call.body
    plan = await lance_queries.analyze(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body,
        branch=branch_in(body.branch),
        version=body.version,
    )
    return Answer.json(plan)
