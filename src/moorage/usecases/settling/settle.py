"""From a decision to history: prepare, append, and again if somebody was faster.

Each use case gives a `prepare` that reads, asks access, decides, and returns a `Part`: what the
change relies on and what it changes. Several parts joined are one draft. That is all there is.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.entries import (
    AccessIs,
    Attachment,
    Change,
    Claim,
    Create,
    Done,
    Draft,
    Expect,
    KeysFree,
    NewJob,
    PlaceFree,
    Receipt,
    Refused,
)
from moorage.core.errors import AlreadyPurged, Busy, InvalidInput, MoorageError, OutcomeUnknown, revive
from moorage.core.history import changed, created
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.ledger.port import Stale, claimed_receipt, keys_taken
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.files import File, NewFile
from moorage.usecases.upkeep.room import make_room

log = logging.getLogger(__name__)

_TRIES = 16
_LONGEST_PAUSE_SECONDS = 0.1
_LONGEST_KEY = 255


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One prepared operation. `before` is the object it changes, for the answer.

    Its files are written once all parts are decided, and are gone again if the entry does not come about. What
    is obsolete goes when it did.
    """

    expects: tuple[Expect, ...] = ()
    changes: tuple[Change, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    files: tuple[NewFile, ...] = ()
    obsolete: tuple[File, ...] = ()
    claims: tuple[Claim, ...] = ()
    """Keys of other requests that it carries out too. If one was used before, `carry_out` raises Stale(KeysFree)."""
    done: Done = Done()
    before: Securable | None = None


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A success: its receipt, and the parts it was made of (none if it is a replay)."""

    receipt: Receipt
    done: Done
    parts: tuple[Part, ...] = ()


Prepare = Callable[[], Awaitable[Part | Sequence[Part]]]


def settle(ports: Ports, errand: Errand, prepare: Prepare) -> Coroutine[Any, Any, Settled]:
    """Make what `prepare` decides history, exactly once per idempotency key.

    Whoever also takes a turn takes it before: with both in either order, two could wait for each other.
    """
    if errand.claim is None:
        return carry_out(ports, errand, prepare)
    return _settle_once(ports, errand, errand.claim, prepare)


async def _settle_once(ports: Ports, errand: Errand, claim: Claim, prepare: Prepare) -> Settled:
    if not 0 < len(claim.key) <= _LONGEST_KEY or not claim.key.isprintable():
        raise InvalidInput(f"an idempotency key has 1 to {_LONGEST_KEY} printable characters", field="Idempotency-Key")
    # The same key twice at once: the second waits and then finds the first's receipt.
    async with _in_line("key", errand.caller.id, claim.key):
        first = claimed_receipt(await ports.ledger.receipt(errand.caller.id, claim.key), claim)
        if first is not None:
            return await _again(ports, errand, first)
        try:
            return await carry_out(ports, errand, prepare)
        except MoorageError as error:
            if not error.is_final:
                raise
            # Through the ledger before it is answered: had the first sending of this very request
            # succeeded, on this server or another, its success is what the caller must hear.
            return await _again(ports, errand, await ports.ledger.append(_refusal(errand, error)))


async def settle_one(ports: Ports, errand: Errand, prepare: Callable[[], Awaitable[Part]]) -> Securable:
    """Settle a change of one object and show what became of it.

    A replayed creation shows what was created, every other replay shows the object as it is now.
    """
    settled = await settle(ports, errand, prepare)
    receipt, by = settled.receipt, errand.caller.id
    if settled.parts:
        part = settled.parts[0]
    else:
        first = await ports.ledger.entries(receipt.seq - 1, limit=1) if receipt.seq is not None else ()
        part = Part(changes=first[0].story.changes if first else ())
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


async def _again(ports: Ports, errand: Errand, receipt: Receipt) -> Settled:
    """The first answer once more, for a caller who may still see what it is about."""
    settled = _settled(receipt)
    for id in settled.done.ids:
        found = (await ports.ledger.lineage(SecurableId(id))).chain
        if found:
            require(ports.access, errand.caller, Privilege.BROWSE, found)
    return settled


async def carry_out(ports: Ports, errand: Errand, prepare: Prepare) -> Settled:
    """Decide and append, and again on the new state whenever somebody was faster. The append claims the key."""
    try:
        return await _attempt(ports, errand, prepare)
    except Stale as stale:
        await _make_way(ports, stale)
        crowd = str(astuple(stale.expect)[0])
    # Of a crowd at one object only one can win each time. Whoever lost once stands in line with the
    # others of this server, or most of them would lose every time.
    async with _in_line("turn", crowd):
        for attempt in range(1, _TRIES):
            try:
                return await _attempt(ports, errand, prepare)
            except Stale as stale:
                await _make_way(ports, stale)
            await asyncio.sleep(random.uniform(0, min(0.002 * 2**attempt, _LONGEST_PAUSE_SECONDS)))
    raise Busy(f"others changed this {_TRIES} times while we decided; nothing was done: read it again and retry")


async def _attempt(ports: Ports, errand: Errand, prepare: Prepare) -> Settled:
    """Decide on the state of this moment and append; Stale if it moved in between."""
    prepared = await prepare()
    parts = (prepared,) if isinstance(prepared, Part) else tuple(prepared)
    whole = parts[0] if len(parts) == 1 else join(parts)
    files = whole.files
    is_durable = await _write(ports, files) if files else True
    draft = _draft(errand, whole, is_durable=is_durable)
    try:
        receipt = await ports.ledger.append(draft)
    except OutcomeUnknown:
        raise  # it may be history, and then these are its files; likewise if the request is ended from outside
    except (Stale, MoorageError):
        await _remove(ports, files)
        raise
    if not receipt.replayed:
        if not is_durable:
            ports.unsynced.update({(each.table, each.ref): each.version for each in draft.attachments if each.unsynced})
        if whole.obsolete:
            await _tidy(ports, whole.obsolete)
        return _settled(receipt, parts)
    await _remove(ports, files)
    if errand.claim is None and draft.claims:
        raise keys_taken(draft)
    return await _again(ports, errand, receipt)


async def _write(ports: Ports, files: tuple[NewFile, ...]) -> bool:
    """All of them, or none if one cannot be written; whether they are durable."""
    if len(files) == 1:
        return await _put(ports, files[0])
    results = await asyncio.gather(*(_put(ports, file) for file in files), return_exceptions=True)
    failed = next((result for result in results if isinstance(result, BaseException)), None)
    if failed is not None:
        await _remove(ports, [file for file, result in zip(files, results, strict=True) if isinstance(result, bool)])
        raise failed
    return all(results)


async def _put(ports: Ports, file: NewFile) -> bool:
    if file.is_kept:
        return await ports.storage.put_unique(file.root, file.path, file.data)
    await ports.storage.put_again(file.root, file.path, file.data)
    return True


async def _remove(ports: Ports, files: Iterable[File]) -> None:
    for file in files:
        await ports.storage.delete(file.root, file.path)


async def _tidy(ports: Ports, files: Iterable[File]) -> None:
    try:
        await _remove(ports, files)
    except MoorageError as error:  # the change is history: a file that stays does no harm
        log.warning("an obsolete file stays: %s", error.message)


async def _make_way(ports: Ports, stale: Stale) -> None:
    if isinstance(stale.expect, PlaceFree):
        await make_room(ports, stale.expect, stale.actual)
    elif isinstance(stale.expect, KeysFree):
        raise stale  # it would be no better the next time


def _draft(errand: Errand, whole: Part, *, is_durable: bool) -> Draft:
    expects = whole.expects
    attachments = whole.attachments if is_durable else tuple(map(_unsynced, whole.attachments))
    if errand.caller.access_seq is not None:
        expects = (*expects, AccessIs(errand.caller.access_seq))
    return Draft(
        id=fresh.draft_id(),
        caller=errand.caller.id,
        api=errand.api,
        request=errand.request,
        expects=expects,
        changes=whole.changes,
        jobs=whole.jobs,
        attachments=attachments,
        claims=whole.claims if errand.claim is None else (errand.claim, *whole.claims),
        outcome=whole.done,
    )


def _unsynced(attachment: Attachment) -> Attachment:
    return attachment if attachment.document is None else replace(attachment, unsynced=True)


def join(parts: Sequence[Part]) -> Part:
    """All of them as one, in their order."""
    return Part(
        expects=tuple(chain.from_iterable(part.expects for part in parts)),
        changes=tuple(chain.from_iterable(part.changes for part in parts)),
        jobs=tuple(chain.from_iterable(part.jobs for part in parts)),
        attachments=tuple(chain.from_iterable(part.attachments for part in parts)),
        files=tuple(chain.from_iterable(part.files for part in parts)),
        obsolete=tuple(chain.from_iterable(part.obsolete for part in parts)),
        claims=tuple(chain.from_iterable(part.claims for part in parts)),
        done=Done(
            ids=tuple(chain.from_iterable(part.done.ids for part in parts)),
            versions=tuple(chain.from_iterable(part.done.versions for part in parts)),
            missing=tuple(chain.from_iterable(part.done.missing for part in parts)),
        ),
    )


def _refusal(errand: Errand, error: MoorageError) -> Draft:
    return Draft(
        id=fresh.draft_id(),
        caller=errand.caller.id,
        api=errand.api,
        request=errand.request,
        claims=() if errand.claim is None else (errand.claim,),
        outcome=Refused(error=type(error).__name__, message=error.message, field=error.field, details=error.details),
    )


def _settled(receipt: Receipt, parts: tuple[Part, ...] = ()) -> Settled:
    outcome = receipt.outcome
    if isinstance(outcome, Refused):
        raise revive(outcome.error, outcome.message, outcome.field, outcome.details)
    return Settled(receipt=receipt, done=outcome, parts=parts)


class _Line:
    """A lock, and how many hold or await it."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


_lines: dict[tuple[str, ...], _Line] = {}


@asynccontextmanager
async def _in_line(*what: str) -> AsyncIterator[None]:
    """One after another on this server, for the same thing; others are not held up."""
    line = _lines.setdefault(what, _Line())
    line.count += 1
    try:
        async with line.lock:
            yield
    finally:
        line.count -= 1
        if line.count == 0:
            del _lines[what]
