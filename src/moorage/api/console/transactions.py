"""Transactions: several operations in one ledger entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Union

import msgspec
from msgspec import Meta

from moorage.api.console.api import console
from moorage.api.console.bodies import EXAMPLE_CATALOG, Whole
from moorage.api.errands import errand_of
from moorage.core.errors import (
    CatalogNotFound,
    DraftTooLarge,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    NotEmpty,
    PlaceTaken,
    RequirementFailed,
    TableNotFound,
    VersionTaken,
)
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.ports import Ports
from moorage.usecases.registry import FORMATS
from moorage.usecases.settling.transact import MAX_OPERATIONS, Operation, transact

if TYPE_CHECKING:
    AnyOperation = Operation
else:
    AnyOperation = Union[tuple(FORMATS.operations)]  # noqa: UP007 - the registered operations


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that are applied together or not at all."""

    operations: Annotated[tuple[AnyOperation, ...], Meta(min_length=1, max_length=MAX_OPERATIONS)]


class TransactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of the transaction, and the objects that it changed, in the order of the operations."""

    seq: Whole
    ids: tuple[str, ...]
    versions: tuple[Whole, ...]


_EXAMPLE: dict[str, Any] = {
    "operations": [
        {"op": "create_namespace", "path": ["sample", "archive"]},
        {
            "op": "rename",
            "kind": "table",
            "path": ["sample", "sales", "orders"],
            "to": ["sample", "sales", "orders_old"],
        },
    ]
}


@console.post(
    "/transactions",
    operation="transact",
    summary="Apply several operations as one transaction.",
    stage="public_preview",
    tags=("transactions",),
    body=Transaction,
    answer=TransactionResult,
    errors=(
        InvalidInput,
        DraftTooLarge,
        CatalogNotFound,
        NamespaceNotFound,
        TableNotFound,
        NameTaken,
        NotEmpty,
        PlaceTaken,
        VersionTaken,
        RequirementFailed,
        KeyReused,
    ),
    example=Example(
        body=_EXAMPLE, answer={"seq": 12, "ids": [EXAMPLE_CATALOG["id"], EXAMPLE_CATALOG["id"]], "versions": []}
    ),
)
async def post_transaction(call: Call[Transaction, NoQuery], ports: Ports) -> Answer:
    """Apply all operations in one entry of the ledger, or none. An error names the operation that failed."""
    settled = await transact(ports, errand_of(call, ports), call.body.operations)
    seq = settled.receipt.seq or 0
    return Answer.json(TransactionResult(seq=seq, ids=settled.done.ids, versions=settled.done.versions))
