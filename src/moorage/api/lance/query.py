"""Queries."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.arrow import EXAMPLE_DATA, FILE, UNFIT, Branch, branch_in
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
    """What is looked for, at which version."""

    id: list[str] | None = None
    branch: Branch = None
    version: Count | None = None


class ExplainTableQueryPlanRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The query, and how much is to be told of it."""

    query: QueryTableRequest
    verbose: bool | None = None
    branch: Branch = None


class AnalyzeTableQueryPlanRequest(QueryTableRequest, frozen=True, kw_only=True, omit_defaults=True):
    """The query, which is run."""


@routes.post(
    "/v1/table/{id}/query",
    operation="QueryTable",
    summary="Query a table.",
    body=QueryTableRequest,
    content_types=(FILE,),
    mutation=False,
    errors=UNFIT,
    example=Example(path=EXAMPLE_DATA, body=EXAMPLE_QUERY, answer="ARROW1"),
)
async def query_table(call: Call[QueryTableRequest, Delimited], ports: Ports) -> Answer:
    """Rows near vectors, rows in which words occur, or rows for which a filter holds, as an Arrow IPC file."""
    body = call.body
    pieces = await lance_queries.query(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body,
        branch=branch_in(body.branch),
        version=body.version,
    )
    return Answer.stream(pieces, FILE)


@routes.post(
    "/v1/table/{id}/explain_plan",
    operation="ExplainTableQueryPlan",
    summary="Explain a query.",
    body=ExplainTableQueryPlanRequest,
    answer=Annotated[str, Meta(description="The plan, for people.")],
    mutation=False,
    errors=UNFIT,
    example=Example(
        path=EXAMPLE_DATA, body={"query": EXAMPLE_QUERY, "verbose": True}, answer="ProjectionExec: expr=[id@0 as id]"
    ),
)
async def explain_table_query_plan(call: Call[ExplainTableQueryPlanRequest, Delimited], ports: Ports) -> Answer:
    """How Lance would run a query."""
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
    summary="Run a query and tell what it cost.",
    body=AnalyzeTableQueryPlanRequest,
    answer=Annotated[str, Meta(description="The plan with its costs, for people.")],
    mutation=False,
    errors=UNFIT,
    example=Example(path=EXAMPLE_DATA, body=EXAMPLE_QUERY, answer="AnalyzeExec verbose=true, elapsed=1.3ms"),
)
async def analyze_table_query_plan(call: Call[AnalyzeTableQueryPlanRequest, Delimited], ports: Ports) -> Answer:
    """How Lance ran a query, and what each step cost."""
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
