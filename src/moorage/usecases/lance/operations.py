"""Operations on Lance tables in a transaction, which may also have operations of other formats."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta

from moorage.core.callers import Caller
from moorage.core.errors import MoorageError, VersionTaken
from moorage.core.securables import Kind
from moorage.formats.lance.manifests import NamingScheme, require_branch
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.lance.lookup import table_address
from moorage.usecases.lance.steps import Add, Declare, Deregister, Item, Steps
from moorage.usecases.lance.versions import NewVersion
from moorage.usecases.local_state import TableQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.transact import Operation, Preparer, SameTransaction

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LanceOperation(Operation, frozen=True, kw_only=True):
    """An operation of a transaction on a Lance table."""

    path: tuple[str, ...]

    @property
    def queue(self) -> TableQueue:
        return queue_of(Address(Kind.TABLE, self.path))


class LanceDeclare(LanceOperation, frozen=True, kw_only=True, tag="lance_declare"):
    """Declare a Lance table. Later operations of the transaction may create its versions."""

    location: Annotated[str | None, Meta(description="The table's location, for example that of a staging table.")] = (
        None
    )
    properties: dict[str, str] | None = None


class LanceVersion(LanceOperation, frozen=True, kw_only=True, tag="lance_version"):
    """Make a staged manifest the next version of a Lance table."""

    version: _Count
    manifest_path: str
    manifest_size: _Count | None = None
    e_tag: str | None = None
    metadata: dict[str, str] | None = None
    naming_scheme: NamingScheme | None = None
    branch: str | None = None


class LanceDeregister(LanceOperation, frozen=True, kw_only=True, tag="lance_deregister"):
    """Remove a Lance table from the catalog and keep its files."""


def _begin(ports: Ports, caller: Caller, together: SameTransaction) -> Callable[[LanceOperation], Awaitable[Part]]:
    steps = Steps(ports, caller, together)

    async def prepare(op: LanceOperation) -> Part:
        """A replay is a conflict here, as with a Delta commit: the other operations may not have been carried out."""
        try:
            part = await steps.prepare(_to_item(op))
        except MoorageError as error:
            error.field = "path" if error.field == "id" else error.field
            raise
        if isinstance(op, LanceVersion) and part.is_replay:
            raise VersionTaken(
                f"version {op.version} was already created from this manifest; to retry a transaction safely, "
                "send it with the Idempotency-Key of the first attempt",
                field="version",
            )
        return part

    return prepare


_PREPARER: Final = Preparer(_begin, sees_earlier=True)
OPERATIONS: Final[dict[type[Operation], Preparer]] = {
    LanceDeclare: _PREPARER,
    LanceVersion: _PREPARER,
    LanceDeregister: _PREPARER,
}


def _to_item(op: LanceOperation) -> Item:
    address = table_address(op.path, "path")
    match op:
        case LanceDeclare(location=location, properties=properties):
            return Declare(address=address, location=location, properties=properties or {})
        case LanceVersion():
            new = NewVersion(
                version=op.version,
                manifest_path=op.manifest_path,
                manifest_size=op.manifest_size,
                e_tag=op.e_tag,
                metadata=op.metadata,
                scheme=op.naming_scheme,
                ref=require_branch(op.branch),
            )
            return Add(address=address, new=new)
        case LanceDeregister():
            return Deregister(address=address)
    raise TypeError(f"not an operation on Lance tables: {op}")
