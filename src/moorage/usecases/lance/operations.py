"""Lance tables in a transaction, beside operations of any format: declared, written, deregistered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Meta

from moorage.core.callers import Caller
from moorage.core.errors import MoorageError, VersionTaken
from moorage.core.securables import Kind
from moorage.formats.lance.manifests import NamingScheme, require_branch
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.objects import Beside
from moorage.usecases.lance.lookup import table_at
from moorage.usecases.lance.steps import Add, Declare, Deregister, Item, Steps
from moorage.usecases.lance.versions import NewVersion, Repeated
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part
from moorage.usecases.settling.transact import Operation, offers_in_order
from moorage.usecases.settling.turns import TurnKey, turn_key

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LanceOperation(Operation, frozen=True, kw_only=True):
    """What a transaction does to a Lance table."""

    path: tuple[str, ...]

    @property
    def turn(self) -> TurnKey:
        return turn_key(Address(Kind.TABLE, self.path))


class LanceDeclare(LanceOperation, frozen=True, kw_only=True, tag="lance_declare"):
    """Declare a Lance table; operations after this one may create its versions."""

    location: Annotated[str | None, Meta(description="Where its files lie, such as a place that was staged.")] = None
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
    """Let a Lance table go, and keep its files."""


@offers_in_order(LanceDeclare, LanceVersion, LanceDeregister)
def _begin(ports: Ports, caller: Caller, beside: Beside) -> Callable[[LanceOperation], Awaitable[Part]]:
    steps = Steps(ports, caller, beside)

    async def prepare(op: LanceOperation) -> Part:
        """As with a Delta commit: that this very version exists cannot be all of the answer to a transaction."""
        try:
            return await steps.take(_item(op))
        except Repeated as there:
            raise VersionTaken(
                f"version {there.version.version} was created from this very manifest before; to repeat a transaction "
                "safely, send it with the Idempotency-Key of its first sending",
                field="version",
            ) from None
        except MoorageError as error:
            error.field = "path" if error.field == "id" else error.field
            raise

    return prepare


def _item(op: LanceOperation) -> Item:
    address = table_at(op.path, "path")
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
    raise TypeError(f"no operation on Lance tables: {op}")
