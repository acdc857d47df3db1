"""Batches of the Lance API: several changes of tables in one entry, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import (
    MAX_CHANGES,
    Commit,
    Create,
    Done,
    IdempotencyKey,
    Update,
)
from moorage.core.errors import (
    AlreadyPurged,
    InvalidInput,
    MoorageError,
    VersionNotFound,
)
from moorage.core.history import created
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Securable
from moorage.ledger.port import Version
from moorage.usecases.catalog.addresses import queue_of
from moorage.usecases.lance.steps import Add, Declare, Delete, Deregister, Item, Steps
from moorage.usecases.lance.versions import (
    NewVersion,
    TableVersion,
    is_replay,
    settled_key,
    shown,
)
from moorage.usecases.parts import Part, join
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Prepare, Settled, carry_out, settle

Result = Doc | TableVersion | int
"""What became of an item: the table that was declared or went, the version, or how many versions went."""

Rows = dict[tuple[SecurableId, str, int], Version]
"""Versions by table, line and number."""


class Batch(msgspec.Struct, frozen=True):
    """What became of all items, in their order, and the entry that tells of it."""

    seq: int | None
    results: list[Result]


async def commit_batch(
    ports: Ports, errand: Errand, items: Sequence[Item], *, fingerprint: Callable[[], str], field: str
) -> Batch:
    """Make all items history in one entry. `field` is where the request listed them, for refusals.

    `fingerprint` is the same for every repetition of the request. One that creates a version can mean the same
    only once, because its manifest bears a name of its own; so sent again it gets the first answer.
    """
    if not 0 < len(items) <= MAX_CHANGES:
        raise InvalidInput(f"{field}: a batch has 1 to {MAX_CHANGES} items, this one has {len(items)}", field=field)

    async def prepare(caller: Caller) -> Part:
        return await _prepare(ports, caller, items, field)

    async with ports.local.queues(queue_of(item.address) for item in items):
        if errand.key is None and any(isinstance(item, Add) for item in items):
            print_ = fingerprint()
            key = IdempotencyKey(value=f"batch {print_}", fingerprint=print_, lifetime_ms=ports.key_lifetime_ms)
            settled = await _settle_repeatable(ports, errand, key, prepare)
        else:
            settled = await settle(ports, errand, prepare)
    return await _told(ports, errand.caller, items, settled)


async def _settle_repeatable(ports: Ports, errand: Errand, key: IdempotencyKey, prepare: Prepare) -> Settled:
    """Like `settle`, but only a success is remembered: the client did not ask to hear a refusal for ever."""
    keyed = replace(errand, key=key)
    try:
        return await carry_out(ports, keyed, prepare)
    except MoorageError:
        # If the first sending succeeded, this one is refused for it.
        if await ports.ledger.receipt(errand.caller.id, key.value) is None:
            raise
        return await settle(ports, keyed, prepare)


async def _prepare(ports: Ports, caller: Caller, items: Sequence[Item], field: str) -> Part:
    """All items as one part. Its result are the versions that existed already: the batch may delete them."""
    steps = Steps(ports, caller)
    parts: list[Part] = []
    existing: Rows = {}
    for index, item in enumerate(items):
        with Naming(field, index):
            part = await steps.take(item)
        if isinstance(item, Add) and is_replay(part):
            row: Version = part.result
            existing[row.table, row.ref, row.version] = row
        parts.append(part)
    return replace(_joined(parts), result=existing)


def _joined(parts: list[Part]) -> Part:
    """All of them as one. Its `done` has an id and a number for each item, in their order."""
    done = Done(
        ids=tuple(part.done.ids[0] for part in parts),
        versions=tuple((*part.done.versions, 0)[0] for part in parts),
    )
    return replace(join(parts), done=done)


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


async def _told(ports: Ports, caller: Caller, items: Sequence[Item], settled: Settled) -> Batch:
    """What became of the items, read from the changes that they made: the same now and whenever they are repeated."""
    seq: int | None = settled.receipt.seq
    existing: Rows = settled.parts[0].result if settled.parts else {}
    if settled.parts:
        changes = settled.parts[0].changes
    else:
        changes = (await ports.ledger.entries(seq - 1, limit=1))[0].body.changes if seq is not None else ()
    made = {
        change.id: created(change, settled.receipt.at_ms, caller.id) for change in changes if isinstance(change, Create)
    }
    gone = {change.id: change.doc for change in changes if isinstance(change, Update)}
    commits = {(c.table, c.ref, c.version): c for c in changes if isinstance(c, Commit)}
    staged = {(a.table, a.ref, a.version): a.staged for part in settled.parts for a in part.attachments}
    results: list[Result] = []
    for item, id, number in zip(items, map(SecurableId, settled.done.ids), settled.done.versions, strict=True):
        match item:
            case Declare():
                results.append(made[id].doc)
            case Add(new=NewVersion(ref=ref)):
                table = made.get(id) or await _table(ports, id)
                key = (id, ref, number)
                version = commits.get(key) or existing.get(key) or await _version(ports, *key)
                made_by = seq if isinstance(version, Commit) else version.seq
                lies_at = await settled_key(ports, table, version, staged.get(key))
                results.append(shown(table, version, lies_at, made_by))
            case Delete():
                results.append(number)
            case Deregister():
                results.append(gone[id])
    if seq is None:  # all of it was there already: the entry that completed it
        seq = max((each.seq or 0 for each in results if isinstance(each, TableVersion)), default=None)
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
