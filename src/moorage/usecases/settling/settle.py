"""From a decision to an entry of the ledger: prepare, append, and retry after a conflict.

Each use case passes a `prepare` that reads, checks access, decides, and returns a `Part`: what the change relies on
and what it changes. Several parts joined are one draft.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from moorage import fresh
from moorage.access.port import require, require_in_area
from moorage.core.callers import Caller
from moorage.core.entries import (
    AccessIs,
    Attachment,
    Change,
    Create,
    Done,
    Draft,
    IdempotencyKey,
    KeysFree,
    LocationFree,
    Receipt,
    Refused,
    Update,
)
from moorage.core.errors import AlreadyPurged, Busy, LeaseLost, MoorageError, OutcomeUnknown, revive
from moorage.core.history import changed, created
from moorage.core.ids import SecurableId
from moorage.core.keys import require_key
from moorage.core.locations import is_assigned
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind, Securable
from moorage.faults import FILE_WRITTEN, reach
from moorage.ledger.port import Stale, keys_used_error, replayed_receipt
from moorage.usecases.local_state import RequestQueue, RetryQueue
from moorage.usecases.parts import File, NewFile, Part, join
from moorage.usecases.ports import Errand, Ports

log = logging.getLogger(__name__)

_MAX_ATTEMPTS = 16
_MAX_PAUSE_SECONDS = 0.1
_WRITTEN_AT_ONCE = 8
"""Files of one change. A first conversion of a large Delta table has a hundred. Starting to write all of them in one
turn of the event loop held up other requests for 85 ms."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A successful request: its receipt and its parts (none for a replay)."""

    receipt: Receipt
    done: Done
    parts: tuple[Part, ...] = ()


Prepare = Callable[[Caller], Awaitable[Part | Sequence[Part]]]
"""Decides on the current state. The caller is the one authenticated for this attempt."""


Refusals = tuple[type[MoorageError], ...]


def settle(ports: Ports, errand: Errand, prepare: Prepare, *, retriable: Refusals = ()) -> Coroutine[Any, Any, Settled]:
    """Append what `prepare` decides, exactly once per idempotency key.

    A final refusal is recorded under the key, unless it is `retriable`: then the request can be retried under its key.

    Code that also needs a table's queue must take that queue first: taken in either order, two requests could wait
    for each other.
    """
    if errand.key is None:
        return carry_out(ports, errand, prepare)
    return _settle_once(ports, errand, errand.key, prepare, retriable)


async def _settle_once(
    ports: Ports, errand: Errand, key: IdempotencyKey, prepare: Prepare, retriable: Refusals
) -> Settled:
    async with ports.local.queue(RequestQueue(errand.caller.id, key.value)):
        first = await _find_replay(ports, errand, key)
        if first is not None:
            return first
        try:
            return await carry_out(ports, errand, prepare)
        except MoorageError as error:
            if not error.is_final or isinstance(error, retriable):
                raise
            return await refuse(ports, errand, error)


async def find_replay(ports: Ports, errand: Errand) -> Settled | None:
    """The result of an earlier request under this idempotency key; None if there was none, or there is no key."""
    return None if errand.key is None else await _find_replay(ports, errand, errand.key)


async def _find_replay(ports: Ports, errand: Errand, key: IdempotencyKey) -> Settled | None:
    require_key(key.value)
    first = replayed_receipt(await ports.ledger.receipt(errand.caller.id, key.value), key)
    return None if first is None else await _replay(ports, errand, first)


async def refuse(ports: Ports, errand: Errand, error: MoorageError) -> Settled:
    """Record a final refusal under the idempotency key and raise it.

    The refusal is appended before the client receives it. If an earlier attempt of this request succeeded, on this
    server or another, the append returns the receipt of that success, and the client receives the success.
    """
    return await _replay(ports, errand, await ports.ledger.append(_refusal(errand, error)))


async def settle_one(ports: Ports, errand: Errand, prepare: Prepare) -> Securable:
    """Settle a change of one object, and return the object after it. If there are several parts, it is of the first.

    A replayed creation returns the object as it was created, every other replay the object as it is now.
    """
    settled = await settle(ports, errand, prepare)
    receipt, by = settled.receipt, errand.caller.id
    if settled.parts:
        part = settled.parts[0]
    else:
        first = await ports.ledger.entries(receipt.seq - 1, limit=1) if receipt.seq is not None else ()
        part = Part(changes=first[0].body.changes if first else ())
    if part.changes and isinstance(part.changes[0], Create):
        return created(part.changes[0], receipt.at_ms, by)
    if part.before is not None:
        after = part.before
        for change in part.changes:
            after = changed(after, change, receipt.at_ms, by)
        return after
    chain = (await ports.ledger.lineage(SecurableId(settled.done.ids[0]))).chain
    if not chain:
        raise AlreadyPurged("this request was carried out before, and its object has been purged since")
    return chain[-1]


async def _replay(ports: Ports, errand: Errand, receipt: Receipt) -> Settled:
    """The first answer again, if the caller may still see the objects in it."""
    settled = _settled(receipt)
    for id in settled.done.ids:
        found = (await ports.ledger.lineage(SecurableId(id))).chain
        if found:
            require(ports.access, errand.caller, Privilege.BROWSE, found)
    return settled


async def carry_out(ports: Ports, errand: Errand, prepare: Prepare) -> Settled:
    """Decide and append; after a conflict decide again on the new state. The append also takes the idempotency key."""
    try:
        return await _attempt(ports, errand, prepare)
    except Stale as stale:
        errand = await _resolve(ports, errand, stale)
        contended = str(astuple(stale.expect)[0])
    # After a first conflict, retries for one object are serialised within this server: only one of them can win each
    # time, and without the queue most would conflict again.
    async with ports.local.queue(RetryQueue(contended)):
        for attempt in range(1, _MAX_ATTEMPTS):
            try:
                return await _attempt(ports, errand, prepare)
            except Stale as stale:
                errand = await _resolve(ports, errand, stale)
            await asyncio.sleep(random.uniform(0, min(0.002 * 2**attempt, _MAX_PAUSE_SECONDS)))
    raise Busy(
        f"other writers changed this object {_MAX_ATTEMPTS} times in a row; nothing was done: read it again and retry"
    )


async def _attempt(ports: Ports, errand: Errand, prepare: Prepare) -> Settled:
    """Decide on the current state and append; Stale if the state changed in between."""
    prepared = await prepare(errand.caller)
    parts = (prepared,) if isinstance(prepared, Part) else tuple(prepared)
    whole = parts[0] if len(parts) == 1 else join(parts)
    for change in whole.changes:
        await _require_location(ports, errand.caller, change)
    files = whole.files
    is_durable = await _write(ports, files) if files else True
    draft = _draft(errand, whole, is_durable=is_durable)
    try:
        receipt = await ports.ledger.append(draft)
    except OutcomeUnknown:
        raise  # the entry may exist and refer to these files; the same holds if the request is cancelled
    except (Stale, MoorageError):
        await _remove(ports, files)
        raise
    if not receipt.replayed:
        if not is_durable:
            unsynced = ports.local.unsynced
            unsynced.update({(each.table, each.ref): each.version for each in draft.attachments if each.unsynced})
        if whole.obsolete:
            await _delete_obsolete(ports, whole.obsolete)
        return _settled(receipt, parts)
    await _remove(ports, files)
    if errand.key is None and draft.keys:
        raise keys_used_error(draft)
    return await _replay(ports, errand, receipt)


async def _require_location(ports: Ports, caller: Caller, change: Change) -> None:
    """Check the privilege for a location that the catalog did not assign: other callers may have files there."""
    if not isinstance(change, Create | Update) or change.place is None:
        return
    if is_assigned(ports.roots, change.place, change.id):
        return
    area = await ports.stores.area_of(change.place)
    is_volume = isinstance(change, Create) and change.kind is Kind.VOLUME
    if is_volume and ports.access.allow(caller, Privilege.CHOOSE_VOLUME_LOCATION, area):
        return
    require_in_area(ports.access, caller, Privilege.CHOOSE_LOCATION, area)


async def _write(ports: Ports, files: tuple[NewFile, ...]) -> bool:
    """Write all files, or none if one of them fails. Returns whether they are durable."""
    if len(files) == 1:
        return await _put(ports, files[0])
    is_durable, written = True, list[NewFile]()
    for start in range(0, len(files), _WRITTEN_AT_ONCE):
        some = files[start : start + _WRITTEN_AT_ONCE]
        results = await asyncio.gather(*(_put(ports, file) for file in some), return_exceptions=True)
        written += [file for file, result in zip(some, results, strict=True) if isinstance(result, bool)]
        failed = next((result for result in results if isinstance(result, BaseException)), None)
        if failed is not None:
            await _remove(ports, written)
            raise failed
        is_durable = is_durable and all(results)
    return is_durable


async def _put(ports: Ports, file: NewFile) -> bool:
    is_durable = True
    if file.is_in_ledger:
        is_durable = await ports.storage.put_unique(file.root, file.path, file.data)
    else:
        await ports.storage.overwrite(file.root, file.path, file.data)
    reach(FILE_WRITTEN)
    return is_durable


async def _remove(ports: Ports, files: Iterable[File]) -> None:
    for file in files:
        await ports.storage.delete(file.root, file.path)


async def _delete_obsolete(ports: Ports, files: Iterable[File]) -> None:
    try:
        await _remove(ports, files)
    except MoorageError as error:  # the change is appended, and an obsolete file does no harm
        log.warning("an obsolete file could not be deleted: %s", error.message)


async def _resolve(ports: Ports, errand: Errand, stale: Stale) -> Errand:
    """Remove the cause of a conflict, if that is possible. Returns the errand for the next attempt."""
    expect = stale.expect
    if errand.job is not None and expect == errand.job:
        raise LeaseLost(
            f"job '{errand.job.job}' was leased to another worker or has ended; stop working on it", id=errand.job.job
        )
    if isinstance(expect, LocationFree):
        await ports.release_location(ports, expect, stale.actual)
    elif isinstance(expect, KeysFree):
        raise stale  # a retry would fail too
    elif isinstance(expect, AccessIs) and errand.authenticate is not None:
        # Privileges were granted or revoked. With the old caller every further attempt would fail.
        return replace(errand, caller=await errand.authenticate())
    return errand


def _draft(errand: Errand, whole: Part, *, is_durable: bool) -> Draft:
    expects = whole.expects
    attachments = whole.attachments if is_durable else tuple(map(_unsynced, whole.attachments))
    if errand.caller.access_seq is not None:
        expects = (*expects, AccessIs(errand.caller.access_seq))
    if errand.job is not None and errand.job not in expects:
        expects = (*expects, errand.job)
    return Draft(
        id=fresh.draft_id(),
        caller=errand.caller.id,
        api=errand.api,
        request=errand.request,
        expects=expects,
        changes=whole.changes,
        jobs=whole.jobs,
        attachments=attachments,
        keys=whole.keys if errand.key is None else (errand.key, *whole.keys),
        outcome=whole.done,
    )


def _unsynced(attachment: Attachment) -> Attachment:
    return attachment if attachment.document is None else replace(attachment, unsynced=True)


def _refusal(errand: Errand, error: MoorageError) -> Draft:
    return Draft(
        id=fresh.draft_id(),
        caller=errand.caller.id,
        api=errand.api,
        request=errand.request,
        keys=() if errand.key is None else (errand.key,),
        outcome=Refused(error=type(error).__name__, message=error.message, field=error.field, details=error.details),
    )


def _settled(receipt: Receipt, parts: tuple[Part, ...] = ()) -> Settled:
    outcome = receipt.outcome
    if isinstance(outcome, Refused):
        raise revive(outcome.error, outcome.message, outcome.field, outcome.details)
    return Settled(receipt=receipt, done=outcome, parts=parts)
