"""Batches of the Lance API: several table changes in one ledger entry, all or nothing."""

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
    readable_key,
    to_table_version,
)
from moorage.usecases.parts import Part, join
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Prepare, Settled, carry_out, settle

Result = Doc | TableVersion | int
"""The result of an item: the declared or deregistered table, the version, or the number of deleted versions."""

VersionsByKey = dict[tuple[SecurableId, str, int], Version]
"""Versions by table, line and number."""


class Batch(msgspec.Struct, frozen=True):
    """The results of all items, in request order, and the number of their entry."""

    seq: int | None
    results: list[Result]


async def commit_batch(
    ports: Ports, errand: Errand, items: Sequence[Item], *, fingerprint: Callable[[], str], field: str
) -> Batch:
    """Commit all items in one entry. `field` is the request field that lists them; error messages name it.

    `fingerprint` is the same for every retry of the request. A batch that creates a version is idempotent without a
    key, because the name of its manifest is unique: a retry returns the original response.
    """
    if not 0 < len(items) <= MAX_CHANGES:
        raise InvalidInput(
            f"{field}: a batch must have 1 to {MAX_CHANGES} items; this one has {len(items)}", field=field
        )

    async def prepare(caller: Caller) -> Part:
        return await _prepare(ports, caller, items, field)

    async with ports.local.queues(queue_of(item.address) for item in items):
        if errand.key is None and any(isinstance(item, Add) for item in items):
            digest = fingerprint()
            key = IdempotencyKey(value=f"batch {digest}", fingerprint=digest, lifetime_ms=ports.key_lifetime_ms)
            settled = await _settle_repeatable(ports, errand, key, prepare)
        else:
            settled = await settle(ports, errand, prepare)
    return await _read_results(ports, errand.caller, items, settled)


async def _settle_repeatable(ports: Ports, errand: Errand, key: IdempotencyKey, prepare: Prepare) -> Settled:
    """Like `settle`, but records only a success: without an idempotency key, a refused batch may be retried."""
    keyed = replace(errand, key=key)
    try:
        return await carry_out(ports, keyed, prepare)
    except MoorageError:
        # A retry of a batch that succeeded is refused, because its versions exist.
        if await ports.ledger.receipt(errand.caller.id, key.value) is None:
            raise
        return await settle(ports, keyed, prepare)


async def _prepare(ports: Ports, caller: Caller, items: Sequence[Item], field: str) -> Part:
    """All items as one part. Its result holds the versions that already existed, because the batch may delete them."""
    steps = Steps(ports, caller)
    parts: list[Part] = []
    existing: VersionsByKey = {}
    for index, item in enumerate(items):
        with ItemErrors(field, index):
            part = await steps.prepare(item)
        if isinstance(item, Add) and part.is_replay:
            row: Version = part.result
            existing[row.table, row.ref, row.version] = row
        parts.append(part)
    return replace(_joined(parts), result=existing)


def _joined(parts: list[Part]) -> Part:
    """All parts as one. Its `done` has an id and a number for each item, in request order."""
    done = Done(
        ids=tuple(part.done.ids[0] for part in parts),
        versions=tuple((*part.done.versions, 0)[0] for part in parts),
    )
    return replace(join(parts), done=done)


class ItemErrors:
    """Adds the position of the item to errors that are raised inside the block."""

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


async def _read_results(ports: Ports, caller: Caller, items: Sequence[Item], settled: Settled) -> Batch:
    """The results of the items, read from the entry's changes, so that a retry returns the same results."""
    seq: int | None = settled.receipt.seq
    existing: VersionsByKey = settled.parts[0].result if settled.parts else {}
    if settled.parts:
        changes = settled.parts[0].changes
    else:
        changes = (await ports.ledger.entries(seq - 1, limit=1))[0].body.changes if seq is not None else ()
    made = {
        change.id: created(change, settled.receipt.at_ms, caller.id) for change in changes if isinstance(change, Create)
    }
    deregistered = {change.id: change.doc for change in changes if isinstance(change, Update)}
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
                version_seq = seq if isinstance(version, Commit) else version.seq
                path = await readable_key(ports, table, version, staged.get(key))
                results.append(to_table_version(table, version, path, version_seq))
            case Delete():
                results.append(number)
            case Deregister():
                results.append(deregistered[id])
    if seq is None:  # every version already existed: the entry that completed them
        seq = max((each.seq or 0 for each in results if isinstance(each, TableVersion)), default=None)
    return Batch(seq, results)


async def _table(ports: Ports, id: SecurableId) -> Securable:
    found = (await ports.ledger.lineage(id)).chain
    if not found:
        raise AlreadyPurged("this batch was already carried out, and one of its tables has been purged since")
    return found[-1]


async def _version(ports: Ports, id: SecurableId, ref: str, number: int) -> Version:
    """A version that existed before the batch."""
    found = await ports.ledger.versions(id, ref, first=number, last=number)
    if not found:
        raise VersionNotFound(f"version {number} was already created, and has been deleted since", field="version")
    return found[0]
