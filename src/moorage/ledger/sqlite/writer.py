"""The only writer: queued drafts share one transaction and one fsync.

The drafts of a batch run one after another, so each sees the writes of its predecessors. All responses,
including refusals, are sent only when the batch is durable. Otherwise a crash could leave a client with a
conflict against a commit that never existed.

The statements run on the event loop, where they only touch memory. COMMIT waits for the disk: on the loop if
the disk is fast, on a thread if it is slow, so that reads continue. With all statements on a thread, loop and
thread would contend for the interpreter lock at every statement: an update then cost three times the CPU
(measured).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import msgspec

from moorage.core.entries import Draft, Receipt, encode_body, may_change_access
from moorage.core.errors import MoorageError, OutcomeUnknown, Unavailable
from moorage.core.ids import Seq
from moorage.ledger.faults import reach
from moorage.ledger.port import Position, Stale, keys_used_error, replayed_receipt
from moorage.ledger.rows import ENTRY_COLUMNS, receipt
from moorage.ledger.sqlite.changes import Changes, blob
from moorage.ledger.sqlite.checks import Checks
from moorage.ledger.sqlite.disk import Disk

log = logging.getLogger(__name__)

LARGEST_BATCH = 256
_FAST_DISK_SECONDS = 0.002
"""The average commit time above which COMMIT runs on a thread, so that reads do not wait for it."""

# A write that the disk refused leaves no complete commit frame in the WAL, so nothing was committed.
# After a failed fsync, by contrast, it is unknown what reached the disk.
_REFUSED_BY_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}

Note = Callable[[sqlite3.Connection, int], Any]
"""A direct write that is not a fact. It gets the connection and the time, and shares the batch's transaction."""


class _Waiting(msgspec.Struct, frozen=True):
    work: Draft | Note
    body: bytes
    answer: asyncio.Future[Any]


class Writer:
    """Owns the writing connection. Every statement but COMMIT runs on the event loop."""

    def __init__(
        self,
        db: sqlite3.Connection,
        position: Position,
        *,
        clock_ms: Callable[[], int],
        on_batch: Callable[[Position], None],
        on_entry: Callable[[Draft, int], None],
        is_blocked: Callable[[], bool],
        fatal: Callable[[str], None],
    ) -> None:
        self.is_idle = True
        """Whether reads may use its connection: no transaction is open there."""
        self._db = db
        self._position = position
        self._now_ms = 0
        self._clock_ms = clock_ms
        self._on_batch = on_batch
        self._on_entry = on_entry
        self._is_held_back = is_blocked
        self._fatal = fatal
        self._checks = Checks(db)
        self._changes = Changes(db)
        self._entries: list[tuple[Any, ...]] = []
        self._queue: list[_Waiting] = []
        self._closed = False
        self._disk_failed = False
        self._loop = asyncio.get_running_loop()
        self._woken = self._loop.create_future()
        self._disk = Disk(db)
        self._disk_seconds = 0.0
        self._was_alone = True
        self._task = asyncio.create_task(self._run())

    def submit(self, work: Draft | Note) -> asyncio.Future[Any]:
        """Queue a draft or note. Cancelling the returned future does not withdraw it."""
        if self._closed:
            raise Unavailable("the server is stopping; retry after its restart")
        if self._disk_failed:
            raise _disk_failed_error()
        body = encode_body(work) if isinstance(work, Draft) else b""
        answer = self._loop.create_future()
        if not self._queue:
            self._wake()
        self._queue.append(_Waiting(work, body, answer))
        return answer

    async def close(self) -> None:
        """Finish the queued drafts and notes, then stop."""
        self._closed = True
        self._wake()
        await self._task
        self._disk.close()
        self._db.close()

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    async def _run(self) -> None:
        while self._queue or not self._closed:
            if not self._queue:
                self._woken = self._loop.create_future()
                await self._woken
                continue
            await self._gather()
            batch, self._queue = self._queue[:LARGEST_BATCH], self._queue[LARGEST_BATCH:]
            self._was_alone = len(batch) == 1
            self.is_idle = False
            results = await self._write(batch)
            self.is_idle = not self._disk_failed
            self._answer(batch, results)
            self._on_batch(self._position)

    async def _gather(self) -> None:
        """Wait as long as each iteration of the event loop brings a new submission.

        A commit of three drafts costs as much as one of thirty. A draft that is alone, after a batch of one,
        does not wait.
        """
        seen = 1 if self._was_alone else 0
        while seen < len(self._queue) < LARGEST_BATCH:
            seen = len(self._queue)
            await asyncio.sleep(0)

    def _answer(self, batch: list[_Waiting], results: list[Any]) -> None:
        """Resolve the futures. Callers run only after this iteration of the loop, when the cache is up to date."""
        for waiting, result in zip(batch, results, strict=True):
            work, answer = waiting.work, waiting.answer
            if isinstance(work, Draft) and isinstance(result, Receipt) and not result.replayed:
                self._on_entry(work, result.at_ms)
            if answer.done():  # the caller was cancelled; the draft is written all the same
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    async def _write(self, batch: list[_Waiting]) -> list[Any]:
        """Return one result for each: a receipt, a note's value, or the exception for its caller."""
        if self._disk_failed:
            return [_disk_failed_error()] * len(batch)
        try:
            return await self._transact(batch)
        except OutcomeUnknown as error:
            self._disk_failed = True
            self._fatal(error.message)
            return [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - the writer must survive any error
            if len(batch) > 1:  # rolled back: retry one by one, with the same ids, to isolate the failure
                return [result for waiting in batch for result in await self._write([waiting])]
            return [self._refused(batch[0].work, error)]

    async def _transact(self, batch: list[_Waiting]) -> list[Any]:
        before = self._position
        try:
            await self._begin()
            self._now_ms = max(before.at_ms, self._clock_ms())
            reach("append.begun")
            results = [self._one(waiting) for waiting in batch]
            self._record()
            reach("append.recorded")
        except BaseException:
            self._undo(before)
            raise
        try:
            await self._commit()
        except sqlite3.Error as error:
            if error.sqlite_errorcode not in _REFUSED_BY_DISK:
                self._position = before
                raise OutcomeUnknown(f"the disk failed while the ledger committed: {error}") from error
            self._undo(before)
            raise
        reach("append.committed")
        return results

    async def _begin(self) -> None:
        """Begin the transaction. While a checkpoint holds writers back, wait on the thread, so that reads continue."""
        if self._is_held_back():
            await self._disk.execute("begin immediate")
        else:
            self._db.execute("begin immediate")

    def _record(self) -> None:
        """Write the entries of the batch so far with one statement."""
        self._db.executemany(f"insert into entry ({ENTRY_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)", self._entries)
        self._entries.clear()

    async def _commit(self) -> None:
        """Commit, on the event loop if the disk is fast: a switch to a thread would cost more than the disk."""
        started = time.perf_counter()
        if self._disk_seconds < _FAST_DISK_SECONDS:
            self._db.execute("commit")
        else:
            await self._disk.execute("commit")
        self._disk_seconds += (time.perf_counter() - started - self._disk_seconds) / 8

    def _receipt_of_entry(self, work: Draft | Note) -> Receipt | None:
        """The original receipt of a draft that is already history."""
        if not isinstance(work, Draft):
            return None
        self._record()
        row = self._db.execute("select seq, at_ms from entry where draft = ?", (work.id,)).fetchone()
        return row and Receipt(seq=Seq(row[0]), at_ms=row[1], outcome=work.outcome, replayed=True)

    def _refused(self, work: Draft | Note, error: Exception) -> Receipt | MoorageError:
        try:
            return self._receipt_of_entry(work) or _refusal(error)
        except sqlite3.Error as second:  # the failure may affect the index that this lookup uses
            return _refusal(second)

    def _undo(self, before: Position) -> None:
        # A full disk may have caused a rollback already. ROLLBACK without a transaction is an error.
        if self._db.in_transaction:
            self._db.execute("rollback")
        self._position = before
        self._entries.clear()
        self._checks.forget()

    def _one(self, waiting: _Waiting) -> Any:
        work = waiting.work
        if not isinstance(work, Draft):
            return work(self._db, self._now_ms)
        try:
            return self._append(work, waiting.body)
        except (Stale, MoorageError) as refusal:  # a draft that is already history is never refused
            # Without the traceback: it refers to `waiting`, and the reference cycle would keep the whole draft in
            # memory until the next garbage collection.
            return self._receipt_of_entry(work) or refusal.with_traceback(None)

    def _append(self, draft: Draft, body: bytes) -> Receipt:
        position, at_ms = self._position, self._now_ms
        if draft.keys and (first := self._first_receipt(draft, at_ms)) is not None:
            return self._receipt_of_entry(draft) or first
        self._checks.require(draft, position.access_seq)
        reach("append.checked")
        seq = None
        if draft.makes_history:
            seq = Seq(position.seq + 1)
            access_seq = seq if any(map(may_change_access, draft.changes)) else position.access_seq
            self._changes.apply(draft, seq, at_ms)
            self._checks.follow(draft)
            reach("append.applied")
            self._entries.append(
                (seq, at_ms, access_seq, draft.id, draft.caller, draft.api, draft.request, bytearray(body))
            )
            self._position = Position(seq, at_ms, access_seq)
        if draft.keys:
            self._keep_receipts(draft, seq, at_ms)
        return Receipt(seq=seq, at_ms=at_ms, outcome=draft.outcome)

    def _first_receipt(self, draft: Draft, at_ms: int) -> Receipt | None:
        """The receipt of an idempotency key that was used before. Raises Stale if the draft has several keys."""
        for key in draft.keys:
            row = self._db.execute(
                "select print, seq, at_ms, outcome from receipt where caller = ? and key = ? and until_ms >= ?",
                (draft.caller, key.value, at_ms),
            ).fetchone()
            if row is not None:
                if len(draft.keys) > 1:
                    raise keys_used_error(draft)
                return replayed_receipt((row[0], receipt(*row[1:])), key)
        return None

    def _keep_receipts(self, draft: Draft, seq: Seq | None, at_ms: int) -> None:
        outcome = blob(draft.outcome)
        self._db.executemany(
            "insert or replace into receipt (caller, key, print, seq, at_ms, outcome, until_ms) "
            "values (?, ?, ?, ?, ?, ?, ?)",
            [
                (draft.caller, key.value, key.fingerprint, seq, at_ms, outcome, at_ms + key.lifetime_ms)
                for key in draft.keys
            ],
        )


def _disk_failed_error() -> Unavailable:
    return Unavailable("the disk of the ledger has failed; nothing was done: restart the server to recover")


def _refusal(error: Exception) -> MoorageError:
    code = getattr(error, "sqlite_errorcode", None)
    if code in _REFUSED_BY_DISK:
        return Unavailable("the disk of the ledger is full; nothing was written: free some space and retry")
    if code == sqlite3.SQLITE_READONLY:
        return Unavailable("the ledger's folder is read-only; nothing was written: make it writable")
    log.error("the ledger could not write a draft", exc_info=error)
    return Unavailable("the ledger could not write this; nothing was done: see the log")
