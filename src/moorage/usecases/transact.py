"""Several operations, one entry: all of them become history, or none.

Each operation is prepared like a request of its own; the parts are joined into one draft. Formats
plug in theirs with `offers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, MoorageError
from moorage.core.ids import SecurableId
from moorage.core.names import require_path
from moorage.core.securables import Doc, Kind
from moorage.usecases import trunk
from moorage.usecases.addresses import Address, look
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settle import Part, Settled, settle

MOST_OPERATIONS = 100


class Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    """One step of a transaction."""


class AddNamespace(Operation, frozen=True, kw_only=True, tag="create_namespace"):
    """Create a namespace; all levels above it must exist."""

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


class DropObject(Operation, frozen=True, kw_only=True, tag="drop"):
    """Drop an object; with cascade also what is inside it."""

    kind: Kind
    path: tuple[str, ...]
    cascade: bool = False


Op = TypeVar("Op", bound=Operation)
Preparer = Callable[[Ports, Caller, Op, frozenset[SecurableId]], Awaitable[Part]]

OPERATIONS: dict[type[Operation], Preparer[Any]] = {}


def offers(kind: type[Op]) -> Callable[[Preparer[Op]], Preparer[Op]]:
    """Register how an operation is prepared."""

    def register(preparer: Preparer[Op]) -> Preparer[Op]:
        OPERATIONS[kind] = preparer
        return preparer

    return register


@offers(AddNamespace)
async def _create_namespace(ports: Ports, caller: Caller, op: AddNamespace, released: frozenset[SecurableId]) -> Part:
    if len(op.path) < 2:
        raise InvalidInput("the path of a namespace begins with its catalog", field="path")
    doc = Doc(comment=op.comment, properties=op.properties)
    return await trunk.prepare_create(ports, caller, _address(Kind.NAMESPACE, op.path), doc, released=released)


@offers(SetProperties)
async def _set_properties(ports: Ports, caller: Caller, op: SetProperties, released: frozenset[SecurableId]) -> Part:
    description = trunk.Description(set_properties=op.properties, remove_properties=op.remove)
    return await trunk.prepare_update(ports, caller, _address(op.kind, op.path), description)


@offers(RenameObject)
async def _rename(ports: Ports, caller: Caller, op: RenameObject, released: frozenset[SecurableId]) -> Part:
    to = _address(op.kind, op.to, "to")
    return await trunk.prepare_rename(ports, caller, _address(op.kind, op.path), to, released=released)


@offers(DropObject)
async def _drop(ports: Ports, caller: Caller, op: DropObject, released: frozenset[SecurableId]) -> Part:
    return await trunk.prepare_drop(ports, caller, _address(op.kind, op.path), cascade=op.cascade)


async def transact(ports: Ports, errand: Errand, operations: Sequence[Operation]) -> Settled:
    """Make all operations history in one entry. An error names the operation that it belongs to."""
    if not 0 < len(operations) <= MOST_OPERATIONS:
        raise InvalidInput(f"a transaction has 1 to {MOST_OPERATIONS} operations", field="operations")
    return await settle(ports, errand, lambda: _prepare(ports, errand.caller, operations))


async def _prepare(ports: Ports, caller: Caller, operations: Sequence[Operation]) -> list[Part]:
    released = await _released(ports, operations)
    parts, touched = [], dict[SecurableId, int]()
    for index, operation in enumerate(operations):
        try:
            part = await OPERATIONS[type(operation)](ports, caller, operation, released)
        except MoorageError as error:
            error.details["operation"] = index
            error.field = f"operations[{index}].{error.field}" if error.field else f"operations[{index}]"
            raise
        for id in part.done.ids:
            first = touched.setdefault(SecurableId(id), index)
            if first != index:
                raise InvalidInput(
                    f"operations {first} and {index} change the same object; join them into one",
                    field=f"operations[{index}]",
                )
        parts.append(part)
    return parts


async def _released(ports: Ports, operations: Sequence[Operation]) -> frozenset[SecurableId]:
    """Objects whose names this transaction gives up, so that two may swap theirs."""
    released = set()
    for operation in operations:
        if isinstance(operation, RenameObject | DropObject):
            try:
                address = _address(operation.kind, operation.path)
            except MoorageError:
                continue  # its own turn will name the mistake
            chain = (await look(ports.ledger, address)).chain
            if len(chain) == len(address.path):
                released.add(chain[-1].id)
    return frozenset(released)


def _address(kind: Kind, path: tuple[str, ...], field: str = "path") -> Address:
    require_path(path, field)
    if kind is Kind.METASTORE or (kind is Kind.CATALOG) != (len(path) == 1):
        raise InvalidInput(f"{list(path)} is not the path of a {kind}", field=field)
    return Address(kind, path)
