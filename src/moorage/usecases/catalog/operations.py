"""The operations of a transaction that concern no format: create a namespace, set properties, rename, drop."""

from __future__ import annotations

from typing import Final

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, MoorageError
from moorage.core.names import require_path
from moorage.core.securables import Doc, Kind, Shelf
from moorage.usecases.catalog import objects, relations
from moorage.usecases.catalog.addresses import Address, find_chain
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.transact import ALONE, Operation, Preparer, SameTransaction, independent

# The fewest names in the path of an object of a kind. Other kinds cannot be named in a transaction.
_FEWEST_NAMES: Final = {
    Kind.CATALOG: 1,
    Kind.NAMESPACE: 2,
    Kind.TABLE: 3,
    Kind.VIEW: 3,
    Kind.VOLUME: 3,
    Kind.FUNCTION: 3,
    Kind.MODEL: 3,
}


class AddNamespace(Operation, frozen=True, kw_only=True, tag="create_namespace"):
    """Create a namespace. All levels above it must exist."""

    path: tuple[str, ...]
    comment: str | None = None
    properties: dict[str, str] = {}


class SetProperties(Operation, frozen=True, kw_only=True, tag="set_properties"):
    """Set and remove properties of an object."""

    kind: Kind
    path: tuple[str, ...]
    properties: dict[str, str] = {}
    remove: tuple[str, ...] = ()


class RenameObject(Operation, frozen=True, kw_only=True, tag="rename"):
    """Give an object another name or another parent."""

    kind: Kind
    path: tuple[str, ...]
    to: tuple[str, ...]

    async def removals(self, ports: Ports) -> SameTransaction:
        return await _removals(ports, self.kind, self.path, is_dropped=False)


class DropObject(Operation, frozen=True, kw_only=True, tag="drop"):
    """Drop an object; with `cascade` also everything in it."""

    kind: Kind
    path: tuple[str, ...]
    cascade: bool = False

    async def removals(self, ports: Ports) -> SameTransaction:
        return await _removals(ports, self.kind, self.path, is_dropped=True)


async def _removals(ports: Ports, kind: Kind, path: tuple[str, ...], *, is_dropped: bool) -> SameTransaction:
    try:
        address = address_of(kind, path)
    except MoorageError:
        return ALONE  # preparing the operation will report the mistake
    found = (await find_chain(ports.ledger, address)).chain
    if len(found) < len(address.path):
        return ALONE
    released = frozenset({found[-1].id})
    return SameTransaction(released, released if is_dropped else frozenset())


async def _create_namespace(ports: Ports, caller: Caller, op: AddNamespace, together: SameTransaction) -> Part:
    doc = Doc(comment=op.comment, properties=op.properties)
    address = address_of(Kind.NAMESPACE, op.path)
    return await objects.prepare_create(ports, caller, address, doc, together=together, field="path")


async def _set_properties(ports: Ports, caller: Caller, op: SetProperties, together: SameTransaction) -> Part:
    address = address_of(op.kind, op.path)
    if address.shelf is Shelf.RELATION:
        return await relations.prepare_set_properties(ports, caller, address, op.properties, op.remove)
    description = objects.Description(set_properties=op.properties, remove_properties=op.remove)
    return await objects.prepare_update(ports, caller, address, description)


async def _rename(ports: Ports, caller: Caller, op: RenameObject, together: SameTransaction) -> Part:
    address, to = address_of(op.kind, op.path), address_of(op.kind, op.to, "to")
    return await objects.prepare_rename(ports, caller, address, to, together=together, field="to")


async def _drop(ports: Ports, caller: Caller, op: DropObject, together: SameTransaction) -> Part:
    return await objects.prepare_drop(ports, caller, address_of(op.kind, op.path), cascade=op.cascade)


OPERATIONS: Final[dict[type[Operation], Preparer]] = {
    AddNamespace: independent(_create_namespace),
    SetProperties: independent(_set_properties),
    RenameObject: independent(_rename),
    DropObject: independent(_drop),
}


def address_of(kind: Kind, path: tuple[str, ...], field: str = "path") -> Address:
    """The address of an object that an operation names; InvalidInput if nothing of its kind can have such a path."""
    require_path(path, field)
    fewest = _FEWEST_NAMES.get(kind)
    if fewest is None:
        raise InvalidInput(f"a {kind} cannot be named in a transaction", field="kind")
    if len(path) < fewest or (kind is Kind.CATALOG and len(path) > 1):
        raise InvalidInput(f"{list(path)} is not the path of a {kind}", field=field)
    return Address(kind, path)
