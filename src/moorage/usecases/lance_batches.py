"""Several changes of Lance tables in one entry: all of them become history, or none.

Each item sees what the items before it do, as if they had been sent one after another: a table that is
declared and gets its first version, two versions of one table, a name that is freed and taken again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import (
    MOST_CHANGES,
    Claim,
    Commit,
    Create,
    Done,
    Update,
)
from moorage.core.errors import (
    AlreadyPurged,
    InvalidInput,
    MoorageError,
    TableNotFound,
    VersionNotFound,
)
from moorage.core.history import created
from moorage.core.ids import SecurableId
from moorage.core.places import above as places_above
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Securable
from moorage.formats.lance.ranges import Span, is_in, spans_of, without
from moorage.ledger.port import Version
from moorage.usecases.addresses import Address
from moorage.usecases.lance_deletions import dropping, require_begun, require_untagged
from moorage.usecases.lance_found import find_table, newest, taken
from moorage.usecases.lance_tables import find_room, letting_go, prepare_creation
from moorage.usecases.lance_versions import (
    Line,
    LineKey,
    NewVersion,
    Repeated,
    TableVersion,
    prepare_version,
    settled_key,
    shown,
)
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settle import Part, Prepare, Settled, carry_out, settle
from moorage.usecases.turns import TurnKey, take_turns, turn_key


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

Result = Doc | TableVersion | int
"""What became of an item: the table that was declared or went, the version, or how many versions went."""


class Batch(msgspec.Struct, frozen=True):
    """What became of all items, in their order, and the entry that tells of it."""

    seq: int | None
    results: list[Result]


async def commit_batch(ports: Ports, errand: Errand, items: Sequence[Item], *, print_: str, field: str) -> Batch:
    """Make all items history in one entry. `field` is where the request listed them, for refusals.

    `print_` is the same for every repetition of the request. One that creates a version can mean the same
    only once, because its manifest bears a name of its own; so sent again it gets the first answer.
    """
    if not 0 < len(items) <= MOST_CHANGES:
        raise InvalidInput(f"{field}: a batch has 1 to {MOST_CHANGES} items, this one has {len(items)}", field=field)

    async def prepare() -> tuple[Part]:
        return (await _prepare(ports, errand.caller, items, field),)

    async with take_turns(turn_key(item.address) for item in items):
        if errand.claim is not None or not any(isinstance(item, Add) for item in items):
            settled = await settle(ports, errand, prepare)
        else:
            claim = Claim(key=f"batch {print_}", print=print_, lifetime_ms=ports.key_lifetime_ms)
            settled = await _settle_repeatable(ports, errand, claim, prepare)
    return await _told(ports, errand.caller, items, settled)


async def _settle_repeatable(ports: Ports, errand: Errand, claim: Claim, prepare: Prepare) -> Settled:
    """Like `settle`, but only a success is remembered: the client did not ask to hear a refusal for ever."""
    keyed = replace(errand, claim=claim)
    if await ports.ledger.receipt(errand.caller.id, claim.key) is not None:
        return await settle(ports, keyed, prepare)
    try:
        return await carry_out(ports, keyed, prepare)
    except MoorageError:
        # Had the first sending succeeded meanwhile, on another server, this one would be refused for it.
        if await ports.ledger.receipt(errand.caller.id, claim.key) is None:
            raise
        return await settle(ports, keyed, prepare)


async def _prepare(ports: Ports, caller: Caller, items: Sequence[Item], field: str) -> Part:
    batch = _Batch(ports, caller)
    for index, item in enumerate(items):
        with Naming(field, index):
            await batch.take(item)
    return batch.part()


class Naming:
    """A refusal in here names the item that it belongs to."""

    __slots__ = ("_field", "_index")

    def __init__(self, field: str, index: int) -> None:
        self._field, self._index = field, index

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, MoorageError):
            item = f"{self._field}[{self._index}]"
            error.details["operation"] = self._index
            error.field = f"{item}.{error.field}" if error.field else item


class _Batch:
    """What the items so far rely on and change, and how they leave the tables that they touch."""

    def __init__(self, ports: Ports, caller: Caller) -> None:
        self._ports = ports
        self._caller = caller
        self._parts: list[Part] = []
        self._named: dict[TurnKey, Securable | None] = {}
        self._made: set[SecurableId] = set()
        self._places: set[str] = set()
        self._heads: dict[LineKey, int | None] = {}
        self._relied_on: set[LineKey] = set()
        self._added: dict[LineKey, list[int]] = {}
        self._gone: dict[LineKey, list[Span]] = {}

    def part(self) -> Part:
        """All of it as one part. Its `done` has an id and a number for each item, in their order."""
        return Part(
            expects=tuple(chain.from_iterable(part.expects for part in self._parts)),
            changes=tuple(chain.from_iterable(part.changes for part in self._parts)),
            attachments=tuple(chain.from_iterable(part.attachments for part in self._parts)),
            done=Done(
                ids=tuple(part.done.ids[0] for part in self._parts),
                versions=tuple((*part.done.versions, 0)[0] for part in self._parts),
            ),
        )

    async def take(self, item: Item) -> None:
        self._parts.append(await self._prepare(item))

    async def _prepare(self, item: Item) -> Part:
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
        key = turn_key(item.address)
        if (holder := self._named.get(key, before)) is not None:
            raise taken(item.address, holder)
        part = await prepare_creation(
            self._ports, self._caller, item.address, above, location=item.location, properties=item.properties
        )
        create = part.changes[0]
        if not isinstance(create, Create):
            raise TypeError(f"not a creation: {create}")
        self._take_place(create.place or "")
        self._named[key] = created(create, self._ports.now_ms(), self._caller.id)
        self._made.add(create.id)
        return part

    def _take_place(self, place: str) -> None:
        """Two tables of one batch must not overlap either; the ledger sees only those from before it."""
        if not self._places.isdisjoint(places_above(place)) or any(other.startswith(place) for other in self._places):
            raise InvalidInput(f"the location '{place}' overlaps that of another table of the batch", field="location")
        self._places.add(place)

    async def _add(self, item: Add) -> Part:
        line = await self._line(item.address, item.new.ref)
        try:
            part = await prepare_version(self._ports, line, item.new)
        except Repeated:  # it is what it was to become
            return Part(done=Done(ids=(line.table.id,), versions=(item.new.version,)))
        self._heads[line.key] = item.new.version
        self._added.setdefault(line.key, []).append(item.new.version)
        return self._relying(part, line)

    async def _delete(self, item: Delete) -> Part:
        line = await self._line(item.address, item.ref)
        require_begun(line)
        gone = self._gone.setdefault(line.key, [])
        spans = without(await require_untagged(self._ports, line, spans_of(item.ranges, line.head)), gone)
        count = sum(is_in(version, spans) for version in self._added.get(line.key, ()))
        for span in spans:
            count += await self._ports.ledger.count_versions(line.table.id, line.ref, *span)
        gone += spans
        return self._relying(dropping(line, spans if count else [], count), line)

    async def _deregister(self, item: Deregister) -> Part:
        table = await self._table(item.address, Privilege.MANAGE)
        self._named[turn_key(item.address)] = None
        part = letting_go(self._ports, table, keep_files=True)
        return replace(part, expects=()) if table.id in self._made else part

    async def _table(self, address: Address, privilege: Privilege) -> Securable:
        key = turn_key(address)
        if key not in self._named:
            return (await find_table(self._ports, self._caller, address, privilege))[-1]
        found = self._named[key]
        if found is None:
            raise TableNotFound(f"an item before this one deregisters '{address}'", field="id", name=str(address))
        return found

    async def _line(self, address: Address, ref: str) -> Line:
        table = await self._table(address, Privilege.MODIFY)
        key = (table.id, ref)
        if key not in self._heads:
            head = None if table.id in self._made else await newest(self._ports, table, ref)
            self._heads[key] = None if head is None else head.version
        return Line(table, ref, self._heads[key])

    def _relying(self, part: Part, line: Line) -> Part:
        """The ledger knows the head from before the batch only, and none of a table that the batch makes."""
        if line.key in self._relied_on or line.table.id in self._made:
            return replace(part, expects=())
        self._relied_on.add(line.key)
        return part


async def _told(ports: Ports, caller: Caller, items: Sequence[Item], settled: Settled) -> Batch:
    """What became of the items, read from the changes that they made: the same now and whenever they are repeated."""
    seq, at_ms = settled.receipt.seq, settled.receipt.at_ms
    if settled.parts:
        changes = settled.parts[0].changes
    else:
        changes = (await ports.ledger.entries(seq - 1, limit=1))[0].story.changes if seq is not None else ()
    made = {change.id: created(change, at_ms, caller.id) for change in changes if isinstance(change, Create)}
    gone = {change.id: change.doc for change in changes if isinstance(change, Update)}
    commits = {(c.table, c.ref, c.version): c for c in changes if isinstance(c, Commit)}
    results: list[Result] = []
    for item, id, number in zip(items, map(SecurableId, settled.done.ids), settled.done.versions, strict=True):
        match item:
            case Declare():
                results.append(made[id].doc)
            case Add(new=NewVersion(ref=ref)):
                table = made.get(id) or await _table(ports, id)
                version = commits.get((id, ref, number)) or await _version(ports, id, ref, number)
                results.append(shown(table, version, await settled_key(ports, table, version), seq))
            case Delete():
                results.append(number)
            case Deregister():
                results.append(gone[id])
    return Batch(seq, results)


async def _table(ports: Ports, id: SecurableId) -> Securable:
    found = (await ports.ledger.lineage(id)).chain
    if not found:
        raise AlreadyPurged("this batch was carried out before, and one of its tables has been purged since")
    return found[-1]


async def _version(ports: Ports, id: SecurableId, ref: str, number: int) -> Version:
    """A version that was there before the batch."""
    found = await ports.ledger.versions(id, ref, first=number, last=number)
    if not found:
        raise VersionNotFound(f"version {number} was created before, and deleted since", field="version")
    return found[0]
