"""An Iceberg commit as one operation of a transaction, beside others of any format."""

from __future__ import annotations

from moorage.core.callers import Caller
from moorage.core.securables import Kind
from moorage.formats.iceberg.changes import TableRequirement, TableUpdate, to_documents
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.objects import Beside
from moorage.usecases.iceberg.commits import TableCommit, prepare_commit
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part
from moorage.usecases.settling.transact import Operation, address_of, offers
from moorage.usecases.settling.turns import TurnKey, turn_key


class IcebergCommit(Operation, frozen=True, kw_only=True, tag="iceberg_commit"):
    """Apply updates to an Iceberg table if all requirements hold, or create it with `assert-create`."""

    path: tuple[str, ...]
    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...]

    @property
    def turn(self) -> TurnKey:
        return turn_key(Address(Kind.TABLE, self.path))


@offers(IcebergCommit)
async def _commit(ports: Ports, caller: Caller, op: IcebergCommit, beside: Beside) -> Part:
    commit = TableCommit(
        address=address_of(Kind.TABLE, op.path),
        requirements=to_documents(op.requirements),
        updates=to_documents(op.updates),
    )
    return await prepare_commit(ports, caller, commit, beside=beside)
