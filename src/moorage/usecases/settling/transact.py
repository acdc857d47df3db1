"""Several operations, one entry: all of them become history, or none.

Each operation is prepared like a request of its own; the parts are joined into one draft. Formats
plug in theirs with `offers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec

from moorage.core.callers import Caller
from moorage.core.entries import NameFree, PlaceFree
from moorage.core.errors import InvalidInput, MoorageError
from moorage.core.ids import SecurableId
from moorage.core.names import require_path
from moorage.core.places import above
from moorage.core.securables import Doc, Kind, Shelf
from moorage.usecases.catalog import objects, relations
from moorage.usecases.catalog.addresses import Address, look
from moorage.usecases.catalog.objects import Beside
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Part, Settled, settle
from moorage.usecases.settling.turns import TurnKey, take_turns

MOST_OPERATIONS = 100

# How many names lead to an object of a kind; other kinds cannot be named in a transaction.
_FEWEST_NAMES = {
    Kind.CATALOG: 1,
    Kind.NAMESPACE: 2,
    Kind.TABLE: 3,
    Kind.VIEW: 3,
    Kind.VOLUME: 3,
    Kind.FUNCTION: 3,
    Kind.MODEL: 3,
}


class Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    """One step of a transaction."""

    @property
    def turn(self) -> TurnKey | None:
        """What to wait for, if others queue for the same object."""
        return None


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
Preparer = Callable[[Ports, Caller, Op, Beside], Awaitable[Part]]
Begin = Callable[[Ports, Caller, Beside], Callable[[Any], Awaitable[Part]]]


class Offer(msgspec.Struct, frozen=True):
    """How operations are prepared: `begin` is called once in each transaction, and then what it gave for each."""

    begin: Begin
    sees_earlier: bool = False
    """Whether each of them sees those before it, and so may change the same objects."""


OPERATIONS: dict[type[Operation], Offer] = {}


def offers(kind: type[Op]) -> Callable[[Preparer[Op]], Preparer[Op]]:
    """Register how an operation is prepared."""

    def register(preparer: Preparer[Op]) -> Preparer[Op]:
        OPERATIONS[kind] = Offer(lambda ports, caller, beside: lambda op: preparer(ports, caller, op, beside))
        return preparer

    return register


def offers_in_order(*kinds: type[Operation]) -> Callable[[Begin], Begin]:
    """Register how operations are prepared that see those before them."""

    def register(begin: Begin) -> Begin:
        OPERATIONS.update(dict.fromkeys(kinds, Offer(begin, sees_earlier=True)))
        return begin

    return register


@offers(AddNamespace)
async def _create_namespace(ports: Ports, caller: Caller, op: AddNamespace, beside: Beside) -> Part:
    doc = Doc(comment=op.comment, properties=op.properties)
    address = address_of(Kind.NAMESPACE, op.path)
    return await objects.prepare_create(ports, caller, address, doc, beside=beside, field="path")


@offers(SetProperties)
async def _set_properties(ports: Ports, caller: Caller, op: SetProperties, beside: Beside) -> Part:
    address = address_of(op.kind, op.path)
    if address.shelf is Shelf.RELATION:
        return await relations.prepare_set_properties(ports, caller, address, op.properties, op.remove)
    description = objects.Description(set_properties=op.properties, remove_properties=op.remove)
    return await objects.prepare_update(ports, caller, address, description)


@offers(RenameObject)
async def _rename(ports: Ports, caller: Caller, op: RenameObject, beside: Beside) -> Part:
    address, to = address_of(op.kind, op.path), address_of(op.kind, op.to, "to")
    return await objects.prepare_rename(ports, caller, address, to, beside=beside, field="to")


@offers(DropObject)
async def _drop(ports: Ports, caller: Caller, op: DropObject, beside: Beside) -> Part:
    return await objects.prepare_drop(ports, caller, address_of(op.kind, op.path), cascade=op.cascade)


async def transact(ports: Ports, errand: Errand, operations: Sequence[Operation]) -> Settled:
    """Make all operations history in one entry. An error names the operation that it belongs to."""
    if not 0 < len(operations) <= MOST_OPERATIONS:
        raise InvalidInput(f"a transaction has 1 to {MOST_OPERATIONS} operations", field="operations")
    async with take_turns(turn for operation in operations if (turn := operation.turn)):
        return await settle(ports, errand, lambda: _prepare(ports, errand.caller, operations))


async def _prepare(ports: Ports, caller: Caller, operations: Sequence[Operation]) -> list[Part]:
    beside = await _taken_away(ports, operations)
    offered = [OPERATIONS[type(operation)] for operation in operations]
    begun = {offer: offer.begin(ports, caller, beside) for offer in offered}
    parts, together = [], _Together(offered)
    for index, (operation, offer) in enumerate(zip(operations, offered, strict=True)):
        try:
            part = await begun[offer](operation)
        except MoorageError as error:
            error.details["operation"] = index
            error.field = f"operations[{index}].{error.field}" if error.field else f"operations[{index}]"
            raise
        together.require_room_for(part, index)
        parts.append(part)
    return parts


class _Together:
    """What the operations so far touch and take.

    Most were prepared against the state before the transaction, so only here is it seen that two of
    them want the same thing.
    """

    def __init__(self, offered: Sequence[Offer]) -> None:
        self._offered = offered
        self._touched: dict[str, int] = {}
        self._names: dict[NameFree, int] = {}
        self._places: dict[str, int] = {}

    def require_room_for(self, part: Part, index: int) -> None:
        for id in part.done.ids:
            first = self._touched.setdefault(id, index)
            if self._offered[first] is not self._offered[index] or not self._offered[index].sees_earlier:
                self._require(first, index, "change the same object; join them into one")
        for expect in part.expects:
            if isinstance(expect, NameFree):
                self._require(self._names.setdefault(expect, index), index, "take the same name")
            elif isinstance(expect, PlaceFree):
                self._require(self._holder(expect.path, index), index, "take overlapping locations")
                self._places[expect.path] = index

    def _holder(self, path: str, index: int) -> int:
        containing = (self._places[folder] for folder in above(path) if folder in self._places)
        contained = (first for other, first in self._places.items() if other.startswith(path))
        return next(chain(containing, contained), index)

    @staticmethod
    def _require(first: int, index: int, what: str) -> None:
        if first != index:
            raise InvalidInput(f"operations {first} and {index} {what}", field=f"operations[{index}]", operation=index)


async def _taken_away(ports: Ports, operations: Sequence[Operation]) -> Beside:
    released, dropped = set[SecurableId](), set[SecurableId]()
    for operation in operations:
        if isinstance(operation, RenameObject | DropObject):
            try:
                address = address_of(operation.kind, operation.path)
            except MoorageError:
                continue  # its own turn will name the mistake
            found = (await look(ports.ledger, address)).chain
            if len(found) == len(address.path):
                released.add(found[-1].id)
                if isinstance(operation, DropObject):
                    dropped.add(found[-1].id)
    return Beside(frozenset(released), frozenset(dropped))


def address_of(kind: Kind, path: tuple[str, ...], field: str = "path") -> Address:
    """The object that an operation names, or InvalidInput if nothing of its kind can have such a path."""
    require_path(path, field)
    fewest = _FEWEST_NAMES.get(kind)
    if fewest is None:
        raise InvalidInput(f"a {kind} cannot be named in a transaction", field="kind")
    if len(path) < fewest or (kind is Kind.CATALOG and len(path) > 1):
        raise InvalidInput(f"{list(path)} is not the path of a {kind}", field=field)
    return Address(kind, path)
