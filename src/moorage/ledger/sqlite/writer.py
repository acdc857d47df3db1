"""The one writer thread: waiting drafts share one transaction and one fsync.

Drafts of a batch run one after another, so each sees what those before it wrote; all answers,
refusals too, are given only when the batch is durable. Otherwise a crash could leave a refusal
whose winner never existed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from moorage.core.entries import Draft, Receipt, touches_access, write_story
from moorage.core.errors import MoorageError, OutcomeUnknown, Unavailable
from moorage.core.ids import Seq
from moorage.ledger.faults import reach
from moorage.ledger.port import Mark, Stale, claimed_receipt
from moorage.ledger.rows import encode, receipt
from moorage.ledger.sqlite.changes import Changes
from moorage.ledger.sqlite.checks import Checks

LARGEST_BATCH = 256

# A write that the disk refused leaves no whole commit frame in the WAL, so nothing happened.
# A failed fsync is another matter: nobody knows what reached the disk.
_REFUSED_BY_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}

Note = Callable[[sqlite3.Connection, int], Any]
"""A direct write that is no fact; it gets the connection and the time, and shares the batch's transaction."""


class _Waiting(NamedTuple):
    work: Draft | Note
    body: bytes
    answer: asyncio.Future[Any]


class Writer:
    """Owns the writing connection. `submit` is called on the event loop, the rest runs on the thread."""

    def __init__(
        self,
        db: sqlite3.Connection,
        mark: Mark,
        *,
        clock_ms: Callable[[], int],
        on_batch: Callable[[Mark], None],
        fatal: Callable[[str], None],
    ) -> None:
        self._db = db
        self._mark = mark
        self._clock_ms = clock_ms
        self._on_batch = on_batch
        self._fatal = fatal
        self._loop = asyncio.get_running_loop()
        self._checks = Checks(db)
        self._changes = Changes(db)
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Draft | Note) -> asyncio.Future[Any]:
        """Queue a draft or note. Cancelling whoever waits does not withdraw it."""
        if self._closed:
            raise Unavailable("the server is stopping; send the request to the next one")
        body = write_story(work) if isinstance(work, Draft) else b""
        answer = self._loop.create_future()
        self._queue.put(_Waiting(work, body, answer))
        return answer

    async def close(self) -> None:
        """Finish what was accepted, then stop."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- on the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._next_batch()
            if batch:
                results = self._write(batch)
                self._loop.call_soon_threadsafe(self._answer, batch, results, self._mark)

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        batch: list[_Waiting] = []
        item = self._queue.get()
        try:
            while item is not None:
                batch.append(item)
                if len(batch) == LARGEST_BATCH:
                    return batch, False
                item = self._queue.get_nowait()
        except Empty:
            return batch, False
        return batch, True

    def _write(self, batch: list[_Waiting]) -> list[Any]:
        """One result for each: a receipt, a note's value, or the exception that its caller will see."""
        try:
            return self._transact(batch)
        except sqlite3.Error as error:
            if len(batch) > 1:  # nothing of it happened: find the one that fails, with the same ids
                return [result for waiting in batch for result in self._write([waiting])]
            return [self._sent_before(batch[0].work) or _refusal(error)]
        except OutcomeUnknown as error:
            self._fatal(error.message)
            return [error] * len(batch)

    def _transact(self, batch: list[_Waiting]) -> list[Any]:
        before = self._mark
        try:
            self._db.execute("begin immediate")
            reach("append.begun")
            results = [self._one(waiting) for waiting in batch]
            reach("append.recorded")
        except BaseException:
            self._undo(before)
            raise
        try:
            self._db.execute("commit")
        except sqlite3.Error as error:
            if error.sqlite_errorcode not in _REFUSED_BY_DISK:
                raise OutcomeUnknown(f"the disk failed while the ledger committed: {error}") from error
            self._undo(before)
            raise
        reach("append.committed")
        return results

    def _sent_before(self, work: Draft | Note) -> Receipt | None:
        """A draft that is history already, sent again: its first answer."""
        if not isinstance(work, Draft):
            return None
        row = self._db.execute("select seq, at_ms from entry where draft = ?", (work.id,)).fetchone()
        return row and Receipt(seq=Seq(row[0]), at_ms=row[1], outcome=work.outcome, replayed=True)

    def _undo(self, before: Mark) -> None:
        # A full disk may have rolled back already; a ROLLBACK without transaction would be an error.
        if self._db.in_transaction:
            self._db.execute("rollback")
        self._mark = before
        self._checks.forget()

    def _one(self, waiting: _Waiting) -> Any:
        work = waiting.work
        if not isinstance(work, Draft):
            return work(self._db, max(self._mark.at_ms, self._clock_ms()))
        try:
            return self._append(work, waiting.body)
        except (Stale, MoorageError) as refusal:
            return refusal

    def _append(self, draft: Draft, body: bytes) -> Receipt:
        mark = self._mark
        at_ms = max(mark.at_ms, self._clock_ms())
        claim = draft.claim
        if claim is not None:
            row = self._db.execute(
                "select print, seq, at_ms, outcome from receipt where caller = ? and key = ? and until_ms >= ?",
                (draft.caller, claim.key, at_ms),
            ).fetchone()
            first = claimed_receipt(None if row is None else (row[0], receipt(*row[1:])), claim)
            if first is not None:
                return first
        self._checks.require(draft, mark.access_seq)
        reach("append.checked")
        seq = None
        if draft.makes_history:
            seq = Seq(mark.seq + 1)
            access_seq = seq if any(map(touches_access, draft.changes)) else mark.access_seq
            self._changes.apply(draft.changes, draft.jobs, seq, at_ms, draft.caller)
            for attachment in draft.attachments:
                self._changes.attach(attachment)
            if not draft.only_adds:
                self._checks.forget()
            reach("append.applied")
            self._db.execute(
                "insert into entry values (?, ?, ?, ?, ?, ?, ?, ?)",
                (seq, at_ms, access_seq, draft.id, draft.caller, draft.api, draft.request, body),
            )
            self._mark = Mark(seq, at_ms, access_seq)
        if claim is not None:
            self._db.execute(
                "insert or replace into receipt values (?, ?, ?, ?, ?, ?, ?)",
                (
                    draft.caller,
                    claim.key,
                    claim.print,
                    seq,
                    at_ms,
                    encode(draft.outcome),
                    at_ms + claim.lifetime_ms,
                ),
            )
        return Receipt(seq=seq, at_ms=at_ms, outcome=draft.outcome)

    # --- back on the loop ----------------------------------------------------------------------

    def _answer(self, batch: list[_Waiting], results: list[Any], mark: Mark) -> None:
        for (_, _, answer), result in zip(batch, results, strict=True):
            if answer.done():  # its caller has gone; the draft stands all the same
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._on_batch(mark)


def _refusal(error: sqlite3.Error) -> MoorageError:
    code = getattr(error, "sqlite_errorcode", None)
    if code in _REFUSED_BY_DISK:
        return Unavailable("the disk of the ledger is full; nothing was written: free some space and send it again")
    if code == sqlite3.SQLITE_READONLY:
        return Unavailable("the ledger's folder is read-only; nothing was written: make it writable")
    return Unavailable(f"the ledger could not write ({error}); nothing was done")
