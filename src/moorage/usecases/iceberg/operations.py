"""An Iceberg commit as one operation of a transaction, together with operations of any format."""

from __future__ import annotations

from typing import Final

from moorage.core.callers import Caller
from moorage.core.securables import Kind
from moorage.formats.iceberg.changes import TableRequirement, TableUpdate, to_documents
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.catalog.operations import address_of
from moorage.usecases.iceberg.commits import TableCommit, prepare_commit
from moorage.usecases.local_state import TableQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.transact import Operation, Preparer, SameTransaction, independent


class IcebergCommit(Operation, frozen=True, kw_only=True, tag="iceberg_commit"):
    """Apply updates to an Iceberg table if all requirements hold, or create it with `assert-create`."""

    path: tuple[str, ...]
    requirements: tuple[TableRequirement, ...] | None = ()
    updates: tuple[TableUpdate, ...]

    @property
    def queue(self) -> TableQueue:
        return queue_of(Address(Kind.TABLE, self.path))


async def _commit(ports: Ports, caller: Caller, op: IcebergCommit, together: SameTransaction) -> Part:
    commit = TableCommit(
        address=address_of(Kind.TABLE, op.path),
        requirements=to_documents(op.requirements or ()),
        updates=to_documents(op.updates),
    )
    return await prepare_commit(ports, caller, commit, together=together)


OPERATIONS: Final[dict[type[Operation], Preparer]] = {IcebergCommit: independent(_commit)}
