"""Routes that update, delete, count and restore rows."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.arrow import CHANGE_ERRORS, EXAMPLE_DATA, READ_ERRORS, Branch, branch_in
from moorage.api.lance.bodies import Count, Named, Properties
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import data as lance_data
from moorage.usecases.ports import Ports

routes = lance.section(tags=("data",))

Predicate = Annotated[str, Meta(min_length=1, max_length=100_000, description="An SQL expression.")]
Pair = Annotated[tuple[str, ...], Meta(min_length=2, max_length=2)]


class UpdateTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """New values for columns."""

    updates: Annotated[tuple[Pair, ...], Meta(min_length=1, description="Pairs of a column and an SQL expression.")]
    predicate: Predicate | None = None
    branch: Branch = None
    properties: Annotated[Properties | None, Meta(description="Properties to set on the table as well.")] = None


class UpdateTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new version."""

    transaction_id: str | None = None
    updated_rows: Count
    version: Count
    properties: Properties | None = None


@routes.post(
    "/v1/table/{id}/update",
    operation="UpdateTable",
    summary="Update rows.",
    body=UpdateTableRequest,
    answer=UpdateTableResponse,
    errors=CHANGE_ERRORS,
    example=Example(
        path=EXAMPLE_DATA,
        body={"updates": [["text", "upper(text)"]], "predicate": "id > 1"},
        answer={"transaction_id": "8", "updated_rows": 1, "version": 2},
    ),
)
async def update_table(call: Call[UpdateTableRequest, Delimited], ports: Ports) -> Answer:
    """Update columns in all rows, or in the rows for which the predicate is true."""
    body = call.body
    done = await lance_data.update(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        [(column, expression) for column, expression in body.updates],
        body.predicate,
        branch=branch_in(body.branch),
        properties=body.properties,
    )
    answer = UpdateTableResponse(
        transaction_id=done.transaction,
        updated_rows=done.result.updated,
        version=done.result.version,
        properties=body.properties,
    )
    return Answer.json(answer)


class DeleteFromTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The rows to delete."""

    predicate: Predicate
    branch: Branch = None


class DeleteFromTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new version."""

    transaction_id: str | None = None
    version: Count


@routes.post(
    "/v1/table/{id}/delete",
    operation="DeleteFromTable",
    summary="Delete rows.",
    body=DeleteFromTableRequest,
    answer=DeleteFromTableResponse,
    errors=CHANGE_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"predicate": "id > 1"}, answer={"transaction_id": "8", "version": 2}),
)
async def delete_from_table(call: Call[DeleteFromTableRequest, Delimited], ports: Ports) -> Answer:
    """Delete the rows for which the predicate is true."""
    body = call.body
    done = await lance_data.delete(
        ports, errand_of(call, ports), table_of(call, body.id), body.predicate, branch=branch_in(body.branch)
    )
    return Answer.json(DeleteFromTableResponse(transaction_id=done.transaction, version=done.result.version))


class CountTableRowsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The rows to count, and the version to read."""

    version: Count | None = None
    branch: Branch = None
    predicate: Predicate | None = None


@routes.post(
    "/v1/table/{id}/count_rows",
    operation="CountTableRows",
    summary="Count rows.",
    body=CountTableRowsRequest,
    body_required=False,
    answer=Count,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"predicate": "id > 1"}, answer=1),
)
async def count_table_rows(call: Call[CountTableRowsRequest, Delimited], ports: Ports) -> Answer:
    """Count all rows, or the rows for which the predicate is true."""
    body = call.body
    return Answer.json(
        await lance_data.count(
            ports,
            errand_of(call, ports),
            table_of(call, body.id),
            body.predicate,
            branch=branch_in(body.branch),
            version=body.version,
        )
    )


class RestoreTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The version to restore."""

    version: Count
    branch: Branch = None


class RestoreTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The transaction of the change."""

    transaction_id: str | None = None


@routes.post(
    "/v1/table/{id}/restore",
    operation="RestoreTable",
    summary="Restore an earlier version.",
    body=RestoreTableRequest,
    answer=RestoreTableResponse,
    errors=CHANGE_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"version": 1}, answer={"transaction_id": "8"}),
)
async def restore_table(call: Call[RestoreTableRequest, Delimited], ports: Ports) -> Answer:
    """Create a new version with the contents of an earlier one. The versions in between stay."""
    body = call.body
    done = await lance_data.restore(
        ports, errand_of(call, ports), table_of(call, body.id), body.version, branch=branch_in(body.branch)
    )
    return Answer.json(RestoreTableResponse(transaction_id=done.transaction))
