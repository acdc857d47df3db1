"""Several changes of Lance tables that are committed in one entry.

Each item sees the effects of the items before it, as if they were separate requests: a table can be declared and get
its first version, one table can get two versions, and a name can be freed and used again.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, TableNotFound
from moorage.core.history import created
from moorage.core.ids import SecurableId
from moorage.core.locations import enclosing_locations
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.formats.lance.ranges import Span, is_in, spans_of, without
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.catalog.objects import require_not_dropped
from moorage.usecases.catalog.staging import creation_in
from moorage.usecases.lance.deletions import drop_versions_part, require_branch_exists, require_unreferenced
from moorage.usecases.lance.lookup import find_table, name_taken_error
from moorage.usecases.lance.tables import drop_table_part, find_holder, prepare_creation
from moorage.usecases.lance.versions import (
    Line,
    LineKey,
    NewVersion,
    prepare_version,
    read_line,
    version_taken_error,
)
from moorage.usecases.local_state import TableQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.transact import ALONE, SameTransaction


class Declare(msgspec.Struct, frozen=True, kw_only=True):
    """Declare a table without a version."""

    address: Address
    location: str | None = None
    properties: dict[str, str] = {}


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """Add the next version of a table."""

    address: Address
    new: NewVersion


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete versions of a table."""

    address: Address
    ref: str
    ranges: tuple[Span, ...]


class Deregister(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a table from the catalog and keep its files."""

    address: Address


Item = Declare | Add | Delete | Deregister


class Steps:
    """The state of tables after the items so far. `together` is what the rest of the entry does."""

    def __init__(self, ports: Ports, caller: Caller, together: SameTransaction = ALONE) -> None:
        self._ports = ports
        self._caller = caller
        self._together = together
        self._by_name: dict[TableQueue, Securable | None] = {}
        self._created: set[SecurableId] = set()
        self._locations: set[str] = set()
        self._enclosing: set[str] = set()
        """The locations of this batch's tables, and all locations that enclose one of them."""
        self._lines: dict[LineKey, Line] = {}
        self._expected: set[LineKey] = set()
        self._added: dict[LineKey, list[int]] = {}
        self._deleted: dict[LineKey, list[Span]] = {}

    async def prepare(self, item: Item) -> Part:
        """The part of an item: its expectations and changes. A version that already exists has no changes."""
        match item:
            case Declare():
                return await self._declare(item)
            case Add():
                return await self._add(item)
            case Delete():
                return await self._delete(item)
            case Deregister():
                return await self._deregister(item)

    async def _declare(self, item: Declare) -> Part:
        above, before = await find_holder(self._ports, self._caller, item.address)
        key = queue_of(item.address)
        require_not_dropped(above, self._together, "id")
        holder = self._by_name.get(key, before)
        if holder is not None and holder.id not in self._together.released:
            raise name_taken_error(item.address, holder)
        part = await prepare_creation(
            self._ports, self._caller, item.address, above, location=item.location, properties=item.properties
        )
        create = creation_in(part.changes)
        self._reserve_location(create.place or "")
        self._by_name[key] = created(create, self._ports.now_ms(), self._caller.id)
        self._created.add(create.id)
        return part

    def _reserve_location(self, location: str) -> None:
        """Refuse overlapping tables within one batch. The ledger checks only tables from before the batch."""
        enclosing = enclosing_locations(location)
        if location in self._enclosing or not self._locations.isdisjoint(enclosing):
            raise InvalidInput(
                f"the location '{location}' overlaps the location of another table in the batch", field="location"
            )
        self._locations.add(location)
        self._enclosing.update(enclosing)

    async def _add(self, item: Add) -> Part:
        line = await self._line(item.address, item.new.ref)
        part = await prepare_version(self._ports, line, item.new)
        if part.is_replay:
            if is_in(item.new.version, self._deleted.get(line.key, ())):
                raise version_taken_error(line, item.new.version)
            return part
        self._lines[line.key] = Line(line.table, line.ref, item.new.version)
        self._added.setdefault(line.key, []).append(item.new.version)
        return self._with_expectation(part, line)

    async def _delete(self, item: Delete) -> Part:
        line = await self._line(item.address, item.ref)
        require_branch_exists(line)
        deleted = self._deleted.setdefault(line.key, [])
        spans = without(await require_unreferenced(self._ports, line, spans_of(item.ranges, line.head)), deleted)
        count = sum(is_in(version, spans) for version in self._added.get(line.key, ()))
        for span in spans:
            count += await self._ports.ledger.count_versions(line.table.id, line.ref, *span)
        deleted += spans
        return self._with_expectation(drop_versions_part(line, spans if count else [], count), line)

    async def _deregister(self, item: Deregister) -> Part:
        table = await self._table(item.address, Privilege.MANAGE)
        self._by_name[queue_of(item.address)] = None
        part = drop_table_part(self._ports, table, keep_files=True)
        return replace(part, expects=()) if table.id in self._created else part

    async def _table(self, address: Address, privilege: Privilege) -> Securable:
        key = queue_of(address)
        if key not in self._by_name:
            return (await find_table(self._ports, self._caller, address, privilege))[-1]
        found = self._by_name[key]
        if found is None:
            raise TableNotFound(
                f"table '{address}' is deregistered by an earlier operation of this request",
                field="id",
                name=str(address),
            )
        return found

    async def _line(self, address: Address, ref: str) -> Line:
        table = await self._table(address, Privilege.MODIFY)
        key = (table.id, ref)
        if key not in self._lines:
            is_new = table.id in self._created
            self._lines[key] = Line(table, ref, None) if is_new else await read_line(self._ports, table, ref)
        return self._lines[key]

    def _with_expectation(self, part: Part, line: Line) -> Part:
        """Keep a line's expectation only once: the ledger compares it with the head from before the batch.

        A table that the batch creates has no head there, so it has no expectation either.
        """
        if line.key in self._expected or line.table.id in self._created:
            return replace(part, expects=())
        self._expected.add(line.key)
        return part
