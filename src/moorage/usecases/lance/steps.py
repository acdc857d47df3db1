"""Several changes of Lance tables, one after another, that become history together.

Each item sees what the items before it do, as if they had been sent one after another: a table that is
declared and gets its first version, two versions of one table, a name that is freed and taken again.
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
from moorage.usecases.catalog.objects import require_staying
from moorage.usecases.catalog.staging import creation_in
from moorage.usecases.lance.deletions import dropping, require_begun, require_unneeded
from moorage.usecases.lance.lookup import find_table, taken
from moorage.usecases.lance.tables import dropping_table, find_room, prepare_creation
from moorage.usecases.lance.versions import (
    Line,
    LineKey,
    NewVersion,
    is_replay,
    line_of,
    prepare_version,
    version_taken_error,
)
from moorage.usecases.local_state import TableQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.transact import ALONE, SameTransaction


class Declare(msgspec.Struct, frozen=True, kw_only=True):
    """A new table without a version."""

    address: Address
    location: str | None = None
    properties: dict[str, str] = {}


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """The next version of a table."""

    address: Address
    new: NewVersion


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of a table that go."""

    address: Address
    ref: str
    ranges: tuple[Span, ...]


class Deregister(msgspec.Struct, frozen=True, kw_only=True):
    """A table that goes, and its files stay."""

    address: Address


Item = Declare | Add | Delete | Deregister


class Steps:
    """How the items so far leave the tables that they change. `together` is what the rest of the entry does."""

    def __init__(self, ports: Ports, caller: Caller, together: SameTransaction = ALONE) -> None:
        self._ports = ports
        self._caller = caller
        self._together = together
        self._named: dict[TableQueue, Securable | None] = {}
        self._made: set[SecurableId] = set()
        self._places: set[str] = set()
        self._around: set[str] = set()
        """They, and whatever contains one of them."""
        self._lines: dict[LineKey, Line] = {}
        self._relied_on: set[LineKey] = set()
        self._added: dict[LineKey, list[int]] = {}
        self._gone: dict[LineKey, list[Span]] = {}

    async def take(self, item: Item) -> Part:
        """What an item changes, and what that relies on; a part without changes if it creates a version that exists."""
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
        above, before = await find_room(self._ports, self._caller, item.address)
        key = queue_of(item.address)
        require_staying(above, self._together, "id")
        holder = self._named.get(key, before)
        if holder is not None and holder.id not in self._together.released:
            raise taken(item.address, holder)
        part = await prepare_creation(
            self._ports, self._caller, item.address, above, location=item.location, properties=item.properties
        )
        create = creation_in(part.changes)
        self._take_place(create.place or "")
        self._named[key] = created(create, self._ports.now_ms(), self._caller.id)
        self._made.add(create.id)
        return part

    def _take_place(self, place: str) -> None:
        """Two tables of one batch must not overlap either; the ledger sees only those from before it."""
        around = enclosing_locations(place)
        if place in self._around or not self._places.isdisjoint(around):
            raise InvalidInput(f"the location '{place}' overlaps that of another table of the batch", field="location")
        self._places.add(place)
        self._around.update(around)

    async def _add(self, item: Add) -> Part:
        line = await self._line(item.address, item.new.ref)
        part = await prepare_version(self._ports, line, item.new)
        if is_replay(part):
            if is_in(item.new.version, self._gone.get(line.key, ())):
                raise version_taken_error(line, item.new.version)
            return part
        self._lines[line.key] = Line(line.table, line.ref, item.new.version)
        self._added.setdefault(line.key, []).append(item.new.version)
        return self._relying(part, line)

    async def _delete(self, item: Delete) -> Part:
        line = await self._line(item.address, item.ref)
        require_begun(line)
        gone = self._gone.setdefault(line.key, [])
        spans = without(await require_unneeded(self._ports, line, spans_of(item.ranges, line.head)), gone)
        count = sum(is_in(version, spans) for version in self._added.get(line.key, ()))
        for span in spans:
            count += await self._ports.ledger.count_versions(line.table.id, line.ref, *span)
        gone += spans
        return self._relying(dropping(line, spans if count else [], count), line)

    async def _deregister(self, item: Deregister) -> Part:
        table = await self._table(item.address, Privilege.MANAGE)
        self._named[queue_of(item.address)] = None
        part = dropping_table(self._ports, table, keep_files=True)
        return replace(part, expects=()) if table.id in self._made else part

    async def _table(self, address: Address, privilege: Privilege) -> Securable:
        key = queue_of(address)
        if key not in self._named:
            return (await find_table(self._ports, self._caller, address, privilege))[-1]
        found = self._named[key]
        if found is None:
            raise TableNotFound(f"an item before this one deregisters '{address}'", field="id", name=str(address))
        return found

    async def _line(self, address: Address, ref: str) -> Line:
        table = await self._table(address, Privilege.MODIFY)
        key = (table.id, ref)
        if key not in self._lines:
            is_new = table.id in self._made
            self._lines[key] = Line(table, ref, None) if is_new else await line_of(self._ports, table, ref)
        return self._lines[key]

    def _relying(self, part: Part, line: Line) -> Part:
        """The ledger knows the head from before the batch only, and none of a table that the batch makes."""
        if line.key in self._relied_on or line.table.id in self._made:
            return replace(part, expects=())
        self._relied_on.add(line.key)
        return part
