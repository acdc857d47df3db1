"""Transactions: several operations in one entry, all of them or none.

Each operation is prepared like a request of its own; the parts are joined into one draft. The catalog and the formats
register their operations in `Formats.operations`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec

from moorage.core.callers import Caller
from moorage.core.entries import LocationFree, NameFree
from moorage.core.errors import InvalidInput, MoorageError
from moorage.core.ids import SecurableId
from moorage.core.locations import enclosing_locations
from moorage.usecases.local_state import TableQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle

MAX_OPERATIONS = 100


class SameTransaction(msgspec.Struct, frozen=True):
    """What the operations of one transaction release and drop. Each operation is prepared with knowledge of all."""

    released: frozenset[SecurableId] = frozenset()
    """Objects that give up their names, so that two objects can swap theirs."""
    dropped: frozenset[SecurableId] = frozenset()
    """Objects in which nothing can be created any more."""

    def __or__(self, other: SameTransaction) -> SameTransaction:
        return SameTransaction(self.released | other.released, self.dropped | other.dropped)


ALONE = SameTransaction()


class Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    """One step of a transaction."""

    @property
    def queue(self) -> TableQueue | None:
        """The queue to hold while the operation is prepared, if commits to its object are queued."""
        return None

    async def removals(self, ports: Ports) -> SameTransaction:
        """What this operation releases and drops."""
        return ALONE


Op = TypeVar("Op", bound=Operation)
PrepareOperation = Callable[[Ports, Caller, Op, SameTransaction], Awaitable[Part]]
Begin = Callable[[Ports, Caller, SameTransaction], Callable[[Any], Awaitable[Part]]]


class Preparer(msgspec.Struct, frozen=True):
    """How operations are prepared. `begin` is called once per transaction, and its result once per operation."""

    begin: Begin
    sees_earlier: bool = False
    """Whether each operation sees the effects of those before it, and so may change the same objects."""


def independent(prepare: PrepareOperation[Op]) -> Preparer:
    """A preparer of operations that do not depend on each other."""
    return Preparer(lambda ports, caller, together: lambda op: prepare(ports, caller, op, together))


async def transact(ports: Ports, errand: Errand, operations: Sequence[Operation]) -> Settled:
    """Append all operations as one entry. An error names the operation that it belongs to."""
    if not 0 < len(operations) <= MAX_OPERATIONS:
        raise InvalidInput(f"a transaction has 1 to {MAX_OPERATIONS} operations", field="operations")
    async with ports.local.queues(queue for operation in operations if (queue := operation.queue)):
        return await settle(ports, errand, lambda caller: _prepare(ports, caller, operations))


async def _prepare(ports: Ports, caller: Caller, operations: Sequence[Operation]) -> list[Part]:
    together = ALONE
    for operation in operations:
        together |= await operation.removals(ports)
    preparers = [ports.formats.operations[type(operation)] for operation in operations]
    begun = {preparer: preparer.begin(ports, caller, together) for preparer in preparers}
    parts, conflicts = [], _Conflicts(preparers)
    for index, (operation, preparer) in enumerate(zip(operations, preparers, strict=True)):
        try:
            part = await begun[preparer](operation)
        except MoorageError as error:
            error.details["operation"] = index
            error.field = f"operations[{index}].{error.field}" if error.field else f"operations[{index}]"
            raise
        conflicts.require_none(part, index)
        parts.append(part)
    return parts


class _Conflicts:
    """What the operations so far change and take.

    Most operations are prepared on the state before the transaction, so only this check finds two of them that need
    the same name, location or object.
    """

    def __init__(self, preparers: Sequence[Preparer]) -> None:
        self._preparers = preparers
        self._changed: dict[str, int] = {}
        self._names: dict[NameFree, int] = {}
        self._locations: dict[str, int] = {}

    def require_none(self, part: Part, index: int) -> None:
        for id in part.done.ids:
            first = self._changed.setdefault(id, index)
            if self._preparers[first] is not self._preparers[index] or not self._preparers[index].sees_earlier:
                self._require(first, index, "change the same object; join them into one")
        for expect in part.expects:
            if isinstance(expect, NameFree):
                self._require(self._names.setdefault(expect, index), index, "take the same name")
            elif isinstance(expect, LocationFree):
                self._require(self._holder(expect.path, index), index, "take overlapping locations")
                self._locations[expect.path] = index

    def _holder(self, path: str, index: int) -> int:
        containing = (self._locations[folder] for folder in enclosing_locations(path) if folder in self._locations)
        contained = (first for other, first in self._locations.items() if other.startswith(path))
        return next(chain(containing, contained), index)

    @staticmethod
    def _require(first: int, index: int, what: str) -> None:
        if first != index:
            raise InvalidInput(f"operations {first} and {index} {what}", field=f"operations[{index}]", operation=index)
