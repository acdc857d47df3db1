"""Batches: several changes that are committed in one entry, all or nothing."""

from __future__ import annotations

from typing import Any

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_in_body
from moorage.api.lance.bodies import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    BatchCreateTableVersionsRequest,
    BatchCreateTableVersionsResponse,
    BatchDeleteTableVersionsRequest,
    BatchDeleteTableVersionsResponse,
    CommitTableOperation,
    CommitTableResult,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    TableGone,
)
from moorage.api.lance.tables import MISSING_TABLE
from moorage.api.lance.versions import EXAMPLE_STAGED, EXAMPLE_VERSION, new_version, ranges_of, to_wire
from moorage.core.errors import (
    InvalidInput,
    NameTaken,
    PlaceTaken,
    RequirementFailed,
    SecurableNotFound,
    VersionTaken,
)
from moorage.core.securables import Doc
from moorage.formats.lance.manifests import require_branch
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import batches as lance_batches
from moorage.usecases.lance.batches import ItemErrors, Result
from moorage.usecases.lance.steps import Add, Declare, Delete, Deregister, Item
from moorage.usecases.lance.versions import TableVersion
from moorage.usecases.ports import Ports

routes = lance.section(tags=("transactions",))

_EXAMPLE_NAMES = ["sample", "sales", "vectors"]


@routes.post(
    "/v1/table/batch-commit",
    operation="BatchCommitTables",
    summary="Commit a batch of table operations.",
    body=BatchCommitTablesRequest,
    answer=BatchCommitTablesResponse,
    errors=(InvalidInput, NameTaken, PlaceTaken, VersionTaken, RequirementFailed, SecurableNotFound, *MISSING_TABLE),
    example=Example(
        body={
            "operations": [
                {"declare_table": {"id": ["sample", "sales", "images"]}},
                {
                    "delete_table_versions": {
                        "id": _EXAMPLE_NAMES,
                        "ranges": [{"start_version": 0, "end_version": 1}],
                    }
                },
            ]
        },
        answer={
            "transaction_id": "7",
            "results": [
                {
                    "declare_table": {
                        "location": "file:///var/lib/moorage/managed/tables/01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d98",
                        "properties": {},
                        "managed_versioning": True,
                    }
                },
                {"delete_table_versions": {"deleted_count": 0}},
            ],
        },
    ),
)
async def batch_commit_tables(call: Call[BatchCommitTablesRequest, Delimited], ports: Ports) -> Answer:
    """Commit all operations in one ledger entry, or none. Each operation sees the effects of those before it.

    A batch that creates a version can be retried: a retry returns the original response.
    """
    items: list[Item] = []
    for index, operation in enumerate(call.body.operations):
        with ItemErrors("operations", index):
            items.append(_to_item(call, operation))
    done = await lance_batches.commit_batch(
        ports, errand_of(call, ports), items, fingerprint=call.fingerprint, field="operations"
    )
    results = [_to_result(item, result) for item, result in zip(items, done.results, strict=True)]
    return Answer.json(BatchCommitTablesResponse(transaction_id=transaction_id(done.seq), results=results))


@routes.post(
    "/v1/table/version/batch-create",
    operation="BatchCreateTableVersions",
    summary="Create versions of several tables.",
    body=BatchCreateTableVersionsRequest,
    answer=BatchCreateTableVersionsResponse,
    errors=(InvalidInput, VersionTaken, *MISSING_TABLE),
    example=Example(
        body={"entries": [{"id": _EXAMPLE_NAMES, **EXAMPLE_STAGED}]},
        answer={"transaction_id": "7", "versions": [EXAMPLE_VERSION]},
    ),
)
async def batch_create_table_versions(call: Call[BatchCreateTableVersionsRequest, Delimited], ports: Ports) -> Answer:
    """Create all versions in one ledger entry, or none."""
    items: list[Item] = []
    for index, entry in enumerate(call.body.entries):
        with ItemErrors("entries", index):
            items.append(_add(call, entry))
    done = await lance_batches.commit_batch(
        ports, errand_of(call, ports), items, fingerprint=call.fingerprint, field="entries"
    )
    versions = [to_wire(result) for result in done.results if isinstance(result, TableVersion)]
    return Answer.json(BatchCreateTableVersionsResponse(transaction_id=transaction_id(done.seq), versions=versions))


def transaction_id(seq: int | None) -> str | None:
    """The id of a transaction is the number of its ledger entry."""
    return None if seq is None else str(seq)


def _to_item(call: Call[BatchCommitTablesRequest, Delimited], operation: CommitTableOperation) -> Item:
    given = [
        each
        for each in (
            operation.declare_table,
            operation.create_table_version,
            operation.delete_table_versions,
            operation.deregister_table,
        )
        if each is not None
    ]
    match given:
        case [DeclareTableRequest() as one]:
            return Declare(address=table_in_body(call, one.id), location=one.location, properties=one.properties or {})
        case [CreateTableVersionRequest() as one]:
            return _add(call, one)
        case [BatchDeleteTableVersionsRequest() as one]:
            return Delete(address=table_in_body(call, one.id), ref=require_branch(one.branch), ranges=ranges_of(one))
        case [DeregisterTableRequest() as one]:
            return Deregister(address=table_in_body(call, one.id))
    raise InvalidInput(f"an item must have exactly one operation; this one has {len(given) or 'none'}")


def _add(call: Call[Any, Delimited], entry: CreateTableVersionRequest) -> Add:
    return Add(address=table_in_body(call, entry.id), new=new_version(entry))


def _to_result(item: Item, result: Result) -> CommitTableResult:
    match item, result:
        case Declare(), Doc():
            return CommitTableResult(
                declare_table=DeclareTableResponse(
                    location=_location(result), properties=result.properties, managed_versioning=True
                )
            )
        case Add(), TableVersion():
            return CommitTableResult(create_table_version=CreateTableVersionResponse(version=to_wire(result)))
        case Delete(), int():
            return CommitTableResult(delete_table_versions=BatchDeleteTableVersionsResponse(deleted_count=result))
        case Deregister(address=address), Doc():
            dropped = TableGone(id=list(address.path), location=_location(result), properties=result.properties)
            return CommitTableResult(deregister_table=dropped)
    raise TypeError(f"{item} cannot have the result {result}")


def _location(doc: Doc) -> str:
    return (doc.location or "").rstrip("/")
