"""Commits to one table, or to several in one transaction."""

from __future__ import annotations

from moorage.api.iceberg.api import iceberg, keyed_errand, relation_of
from moorage.api.iceberg.bodies import (
    EXAMPLE_COMMIT,
    EXAMPLE_LOADED,
    EXAMPLE_TABLE,
    CommitTableRequest,
    CommitTableResponse,
    CommitTransactionRequest,
)
from moorage.api.iceberg.loaded import to_answer
from moorage.api.iceberg.tables import MISSING, relation_in
from moorage.core.errors import InvalidInput, KeyReused, PlaceTaken, RequirementFailed, Unsupported
from moorage.core.securables import Kind
from moorage.formats.iceberg.changes import to_documents
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.iceberg.commits import TableCommit, commit_transaction
from moorage.usecases.iceberg.groups import commit_table
from moorage.usecases.ports import Ports

routes = iceberg.section(tags=("commits",))


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}",
    operation="updateTable",
    summary="Commit to a table.",
    body=CommitTableRequest,
    answer=CommitTableResponse,
    errors=(InvalidInput, RequirementFailed, PlaceTaken, KeyReused, Unsupported, *MISSING),
    example=Example(path=EXAMPLE_TABLE, body=EXAMPLE_COMMIT, answer=EXAMPLE_LOADED),
)
async def update_table(call: Call[CommitTableRequest, NoQuery], ports: Ports) -> Answer:
    """Apply the updates if all requirements hold. A conflict means that a requirement failed."""
    body, address = call.body, relation_of(call, Kind.TABLE)
    if body.identifier is not None and relation_in(call, body.identifier, "identifier") != address:
        raise InvalidInput("identifier names another table than the path", field="identifier")
    return to_answer(await commit_table(ports, keyed_errand(call, ports), _commit(address, body)))


def _commit(address: Address, body: CommitTableRequest) -> TableCommit:
    return TableCommit(
        address=address,
        requirements=to_documents(body.requirements or ()),
        updates=to_documents(body.updates or ()),
    )


@routes.post(
    "/v1/{prefix}/transactions/commit",
    operation="commitTransaction",
    summary="Commit to several tables in one transaction.",
    body=CommitTransactionRequest,
    status=204,
    errors=(InvalidInput, RequirementFailed, PlaceTaken, KeyReused, Unsupported, *MISSING),
    example=Example(
        path={"prefix": "sample"},
        body={
            "table-changes": [
                {**EXAMPLE_COMMIT, "identifier": {"namespace": ["sales"], "name": "shipments"}},
            ]
        },
    ),
)
async def commit_several(call: Call[CommitTransactionRequest, NoQuery], ports: Ports) -> Answer:
    """Apply the updates of all tables, or none of them."""
    commits = []
    for index, change in enumerate(call.body.table_changes):
        where = f"table-changes[{index}].identifier"
        if change.identifier is None:
            raise InvalidInput(f"{where} is missing", field=where)
        commits.append(_commit(relation_in(call, change.identifier, where), change))
    await commit_transaction(ports, keyed_errand(call, ports), commits)
    return Answer.empty()
