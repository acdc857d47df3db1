"""Index routes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.arrow import CHANGE_ERRORS, EXAMPLE_DATA, READ_ERRORS, Branch, branch_in
from moorage.api.lance.bodies import Count, Named
from moorage.core.errors import NameTaken
from moorage.formats.lance.indexes import Index, IndexContent, IndexStats
from moorage.http import Answer, Call, Example, NoBody
from moorage.http.router import percent_decoded
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.lance import indexes as lance_indexes
from moorage.usecases.ports import Ports

routes = lance.section(tags=("indexes",))

_INDEX_NAME_SEGMENT = 6
"""The path segment of the index name: /lance/v1/table/{id}/index/{index_name}/…"""

EXAMPLE_INDEX = {**EXAMPLE_DATA, "index_name": "id_idx"}


class CreateTableIndexRequest(Index, frozen=True, kw_only=True, omit_defaults=True):
    """An index to build."""

    id: list[str] | None = None
    branch: Branch = None


class IndexMade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The transaction of the change."""

    transaction_id: str | None = None


@routes.post(
    "/v1/table/{id}/create_index",
    operation="CreateTableIndex",
    summary="Build an index.",
    body=CreateTableIndexRequest,
    answer=IndexMade,
    patient=True,
    errors=(NameTaken, *CHANGE_ERRORS),
    example=Example(
        path=EXAMPLE_DATA,
        body={"column": "vector", "index_type": "IVF_FLAT", "num_partitions": 1, "distance_type": "l2"},
        answer={"transaction_id": "8"},
    ),
)
async def create_table_index(call: Call[CreateTableIndexRequest, Delimited], ports: Ports) -> Answer:
    """Build an index of any type. The response is sent when the index is built."""
    return await _create(call, ports, scalar=False)


@routes.post(
    "/v1/table/{id}/create_scalar_index",
    operation="CreateTableScalarIndex",
    summary="Build a scalar index.",
    body=CreateTableIndexRequest,
    answer=IndexMade,
    patient=True,
    errors=(NameTaken, *CHANGE_ERRORS),
    example=Example(
        path=EXAMPLE_DATA,
        body={"column": "text", "index_type": "BITMAP", "name": "text_bits"},
        answer={"transaction_id": "8"},
    ),
)
async def create_table_scalar_index(call: Call[CreateTableIndexRequest, Delimited], ports: Ports) -> Answer:
    """Build an index of scalar values or a full-text index. A vector index is refused."""
    return await _create(call, ports, scalar=True)


async def _create(call: Call[CreateTableIndexRequest, Delimited], ports: Ports, *, scalar: bool) -> Answer:
    body = call.body
    done = await lance_indexes.create_index(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body,
        branch=branch_in(body.branch),
        scalar=scalar,
    )
    return Answer.json(IndexMade(transaction_id=done.transaction))


class ListTableIndicesRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The version, and the page of the list."""

    version: Count | None = None
    branch: Branch = None
    page_token: Annotated[str | None, Meta(description="The token from the previous page.")] = None
    limit: Annotated[int, Meta(ge=0, le=2**31 - 1, description="The maximum number of indexes.")] | None = None


class ListTableIndicesResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Indexes of a table, in name order."""

    indexes: list[IndexContent]
    page_token: str | None = None


@routes.post(
    "/v1/table/{id}/index/list",
    operation="ListTableIndices",
    summary="List indexes.",
    body=ListTableIndicesRequest,
    body_required=False,
    answer=ListTableIndicesResponse,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(
        path=EXAMPLE_DATA,
        body={"limit": 10},
        answer={
            "indexes": [
                {
                    "index_name": "id_idx",
                    "index_uuid": "3cd73b52-321a-4697-9d3b-1db450c0f67a",
                    "columns": ["id"],
                    "status": "done",
                    "index_type": "BTREE",
                    "num_indexed_rows": 2,
                    "num_unindexed_rows": 0,
                }
            ]
        },
    ),
)
async def list_table_indices(call: Call[ListTableIndicesRequest, Delimited], ports: Ports) -> Answer:
    """List the indexes of a table at a version. Only built indexes are listed, so `status` is always `done`."""
    body = call.body
    found, token = await lance_indexes.list_indexes(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        branch=branch_in(body.branch),
        version=body.version,
        token=body.page_token,
        limit=page_size(body.limit, field="limit"),
    )
    return Answer.json(ListTableIndicesResponse(indexes=found, page_token=token))


class DescribeTableIndexStatsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The version to describe."""

    version: Count | None = None
    branch: Branch = None


class DescribeTableIndexStatsResponse(IndexStats, frozen=True, kw_only=True, omit_defaults=True):
    """How much of the table an index covers."""


@routes.post(
    "/v1/table/{id}/index/{index_name}/stats",
    operation="DescribeTableIndexStats",
    summary="Describe an index.",
    body=DescribeTableIndexStatsRequest,
    body_required=False,
    answer=DescribeTableIndexStatsResponse,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(
        path=EXAMPLE_INDEX,
        body={},
        answer={"index_type": "BTREE", "num_indexed_rows": 2, "num_unindexed_rows": 0, "num_indices": 1},
    ),
)
async def describe_table_index_stats(call: Call[DescribeTableIndexStatsRequest, Delimited], ports: Ports) -> Answer:
    """The numbers of rows that an index covers and does not cover."""
    body = call.body
    found = await lance_indexes.index_stats(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        _index_name(call),
        branch=branch_in(body.branch),
        version=body.version,
    )
    return Answer.json(found)


class DropIndexQuery(Delimited, frozen=True, kw_only=True):
    """The branch of the index."""

    branch: Branch = None


@routes.post(
    "/v1/table/{id}/index/{index_name}/drop",
    operation="DropTableIndex",
    summary="Drop an index.",
    query=DropIndexQuery,
    answer=IndexMade,
    errors=CHANGE_ERRORS,
    example=Example(path=EXAMPLE_INDEX, answer={"transaction_id": "8"}),
)
async def drop_table_index(call: Call[NoBody, DropIndexQuery], ports: Ports) -> Answer:
    """Drop an index from the table. Earlier versions keep it."""
    done = await lance_indexes.drop_index(
        ports, errand_of(call, ports), table_of(call), _index_name(call), branch=branch_in(call.query.branch)
    )
    return Answer.json(IndexMade(transaction_id=done.transaction))


def _index_name(call: Call[Any, Any]) -> str:
    """Lance's clients encode paths like forms, where a plus is a space."""
    return percent_decoded(call.path.split(b"/")[_INDEX_NAME_SEGMENT].replace(b"+", b"%20").decode("latin-1"))
