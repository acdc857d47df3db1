"""Routes of transactions. A transaction is a ledger entry."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.lance.api import Delimited, identifier_of, lance
from moorage.api.lance.bodies import Named, Properties
from moorage.core.errors import InvalidInput, JobEnded, SecurableNotFound
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import transactions as lance_transactions
from moorage.usecases.ports import Ports

routes = lance.section(tags=("transactions",))

EXAMPLE_TRANSACTION = {"id": "3"}


class DescribeTransactionRequest(Named, frozen=True, kw_only=True):
    """The transaction to describe."""


class DescribeTransactionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a transaction. Every entry of the ledger has succeeded; a failed change has no entry."""

    status: Annotated[str, Meta(description="Always SUCCEEDED.")]
    properties: Properties


@routes.post(
    "/v1/transaction/{id}/describe",
    operation="DescribeTransaction",
    summary="Describe a transaction.",
    body=DescribeTransactionRequest,
    body_required=False,
    answer=DescribeTransactionResponse,
    mutation=False,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(
        path=EXAMPLE_TRANSACTION,
        body={},
        answer={"status": "SUCCEEDED", "properties": {"at_ms": "1763000000000", "caller": "local"}},
    ),
)
async def describe_transaction(call: Call[DescribeTransactionRequest, Delimited], ports: Ports) -> Answer:
    """Describe a transaction. It is a ledger entry: all of its changes were committed together."""
    entry = await lance_transactions.describe_transaction(ports, call.caller, _id_of(call, call.body.id))
    properties = {"at_ms": str(entry.at_ms), "caller": entry.caller, "request": entry.request, "api": entry.api}
    return Answer.json(DescribeTransactionResponse(status="SUCCEEDED", properties=properties))


class AlterTransactionSetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status to set."""

    status: str | None = None


class AlterTransactionSetProperty(msgspec.Struct, frozen=True, kw_only=True):
    """A property to set."""

    key: str | None = None
    value: str | None = None
    mode: str | None = None


class AlterTransactionUnsetProperty(msgspec.Struct, frozen=True, kw_only=True):
    """A property to remove."""

    key: str | None = None
    mode: str | None = None


class AlterTransactionAction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change of a transaction."""

    set_status_action: AlterTransactionSetStatus | None = None
    set_property_action: AlterTransactionSetProperty | None = None
    unset_property_action: AlterTransactionUnsetProperty | None = None


class AlterTransactionRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of a transaction."""

    actions: Annotated[tuple[AlterTransactionAction, ...], Meta(min_length=1)]


@routes.post(
    "/v1/transaction/{id}/alter",
    operation="AlterTransaction",
    summary="Alter a transaction.",
    body=AlterTransactionRequest,
    answer=DescribeTransactionResponse,
    mutation=False,
    errors=(InvalidInput, SecurableNotFound, JobEnded),
    example=Example(
        path=EXAMPLE_TRANSACTION,
        body={"actions": [{"setStatusAction": {"status": "CANCELED"}}]},
        answer={"status": "SUCCEEDED", "properties": {}},
    ),
)
async def alter_transaction(call: Call[AlterTransactionRequest, Delimited], ports: Ports) -> Answer:
    """Always refused: a transaction has succeeded by the time it has an id, and a ledger entry never changes."""
    await lance_transactions.alter_transaction(ports, call.caller, _id_of(call, call.body.id))
    return Answer.empty()


def _id_of(call: Call[Any, Any], in_body: list[str] | None) -> str:
    return "/".join(identifier_of(call, in_body))
