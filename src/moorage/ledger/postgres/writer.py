"""The only writing connection of a process: queued drafts share one call and one fsync."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import asyncpg

from moorage.core.entries import AccessIs, Draft, FloorAtMost, HeadIs, Receipt, RevisionIs, encode_body
from moorage.core.errors import InvalidInput, MoorageError, OutcomeUnknown, Unavailable
from moorage.core.ids import Seq
from moorage.ledger import rows
from moorage.ledger.batch import Footprint, footprint, take_batch
from moorage.ledger.faults import reach
from moorage.ledger.port import Stale, keys_used_error, purged, replayed_receipt
from moorage.ledger.postgres.arguments import Written, call
from moorage.ledger.postgres.connections import LOST, Backend, backend_of, connect, is_lost, terminate_backend

log = logging.getLogger(__name__)

_RETRY_DELAY_S: Final = 0.1

_NUMBERS = (HeadIs, RevisionIs, AccessIs, FloorAtMost)
"""Expectations whose actual value is a number."""

Answer = Receipt | Stale | MoorageError
OnAppend = Callable[[Sequence[Draft], Sequence[int], int], None]
"""Gets the drafts of a batch, the sequence number of each (0 or less for those that made no entry), and their time."""


class _Waiting(NamedTuple):
    written: Written
    footprint: Footprint
    size: int
    answer: asyncio.Future[Receipt]


class Writer:
    """Takes drafts from a queue in batches and calls append_v1 once per batch.

    A call that takes longer than `answer_s` counts as lost: the network dropped the request or the response.
    """

    def __init__(
        self,
        url: str,
        connection: asyncpg.Connection[asyncpg.Record],
        backend: Backend,
        *,
        clock_ms: Callable[[], int] | None,
        patience_s: float,
        answer_s: float,
        on_append: OnAppend,
    ) -> None:
        self._url = url
        self._connection = connection
        self._backend = backend
        self._lost = False
        self._unreachable_since: float | None = None
        self._clock_ms = clock_ms
        self._patience_s = patience_s
        self._answer_s = answer_s
        self._on_append = on_append
        self._queue: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="ledger-writer")

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock_ms: Callable[[], int] | None,
        patience_s: float,
        answer_s: float,
        on_append: OnAppend,
    ) -> Writer:
        connection = await connect(url)
        backend = await backend_of(connection)
        return cls(
            url,
            connection,
            backend,
            clock_ms=clock_ms,
            patience_s=patience_s,
            answer_s=answer_s,
            on_append=on_append,
        )

    def submit(self, draft: Draft) -> asyncio.Future[Receipt]:
        """Queue a draft. Cancelling the returned future does not withdraw it."""
        if self._closed:
            raise Unavailable("the server is stopping; retry on another server or after its restart")
        body = encode_body(draft)
        size = len(body)
        for attachment in draft.attachments:
            size += len(attachment.document or b"") + len(attachment.staged or b"")
        answer: asyncio.Future[Receipt] = self._loop.create_future()
        self._queue.append(_Waiting(Written(draft, body), footprint(draft), size, answer))
        self._wake.set()
        return answer

    async def close(self) -> None:
        """Finish the queued drafts, then stop."""
        self._closed = True
        self._wake.set()
        await self._task
        if self._lost:
            self._connection.terminate()
        else:
            await self._connection.close()

    # --- the task ------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._queue or not self._closed:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = take_batch(self._queue)
            answers = await self._write([waiting.written for waiting in batch])
            for waiting, answer in zip(batch, answers, strict=True):
                if waiting.answer.done():  # the caller was cancelled; the draft is written all the same
                    continue
                if isinstance(answer, Receipt):
                    waiting.answer.set_result(answer)
                else:
                    waiting.answer.set_exception(answer)

    async def _write(self, batch: Sequence[Written], *, again: bool = False) -> list[Answer]:
        """Return one answer for each draft. No error of a draft stops the task."""
        try:
            return await self._append(batch, again=again)
        except MoorageError as error:
            return [error] * len(batch)
        except Exception as error:  # an error that a draft causes must fail that draft, not the task
            if not again:  # rolled back: retry one by one, with the same ids, to isolate the failure
                return [answer for one in batch for answer in await self._write([one], again=True)]
            log.exception("the database rejected the draft %s", batch[0].draft.id)
            return [_refusal(error)]

    async def _append(self, batch: Sequence[Written], *, again: bool) -> list[Answer]:
        """Repeat the call until its outcome is known. After a lost connection, the draft ids show what was written."""
        given_ms = None if self._clock_ms is None else self._clock_ms()
        sent, result = 0, None
        while result is None:
            try:
                if self._lost or self._connection.is_closed():
                    await self._reconnect()
                statement, *args = call(batch, given_ms, again=again or sent > 0)
                reach("append.begun")
                sent += 1
                async with asyncio.timeout(self._answer_s):
                    result = await self._connection.fetchrow(statement, *args)
                reach("append.committed")
            except (*LOST, asyncpg.PostgresError) as error:  # TimeoutError is an OSError
                if not self._lost and not is_lost(error, self._connection):
                    raise
                await self._back_off(error, sent=sent > 0)
        self._unreachable_since = None
        self._on_append([one.draft for one in batch], result["seqs"], result["now_ms"])
        return [_answer(one.draft, i, result, resent=sent > 1) for i, one in enumerate(batch)]

    async def _back_off(self, error: BaseException, *, sent: bool) -> None:
        """Close the connection and back off, or fail the batch if the database was unreachable for `patience_s`."""
        if not self._lost:
            self._lost = True
            self._connection.terminate()
        now = self._loop.time()
        if self._unreachable_since is None:
            self._unreachable_since = now
            log.warning("lost the connection to the database: %s", str(error) or "no answer in time")
        if now - self._unreachable_since < self._patience_s:
            await asyncio.sleep(_RETRY_DELAY_S)
        elif sent:
            raise OutcomeUnknown("the database became unreachable during the write; check the state before you retry")
        else:
            raise Unavailable("the database is unreachable; nothing was done: retry later")

    async def _reconnect(self) -> None:
        connection = await connect(self._url, within_s=self._patience_s)
        try:
            async with asyncio.timeout(self._answer_s):
                await terminate_backend(connection, self._backend)
                self._backend = await backend_of(connection)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        self._lost = False


def _answer(draft: Draft, index: int, result: Any, *, resent: bool) -> Answer:
    seq = result["seqs"][index]
    if seq != 0:
        return Receipt(seq=Seq(seq) if seq > 0 else None, at_ms=result["now_ms"], outcome=draft.outcome)
    i = index + 1
    replays = [replay for replay in result["replays"] if replay["i"] == i]
    if replays:
        return _replay(draft, replays, resent=resent)
    nth, actual = min((s["nth"], s["actual"]) for s in result["stale"] if s["i"] == i)
    if nth >= len(draft.expects):
        return purged(draft.changes[nth - len(draft.expects)])
    expect = draft.expects[nth]
    if actual is not None and isinstance(expect, _NUMBERS):
        actual = int(actual)
    return Stale(expect, actual)


def _replay(draft: Draft, replays: list[Any], *, resent: bool) -> Answer:
    itself = next((replay for replay in replays if replay["print"] is None), None)
    if itself is not None:
        # The draft is already history. If this process wrote it and only the response was lost, no caller has seen
        # the receipt yet. Marked as a replay, it would make the caller delete the files that the draft refers to.
        return Receipt(seq=itself["seq"], at_ms=itself["at_ms"], outcome=draft.outcome, replayed=not resent)
    if len(draft.keys) > 1:
        return keys_used_error(draft)
    found = replays[0]
    first = found["print"], rows.receipt(found["seq"], found["at_ms"], found["outcome"])
    try:
        receipt = replayed_receipt(first, draft.keys[0])
    except MoorageError as reused:
        return reused
    assert receipt is not None  # noqa: S101 - `first` is not None
    return receipt


def _refusal(error: Exception) -> MoorageError:
    """An error without the database's own message, which may name tables and values. It is only logged."""
    if isinstance(error, asyncpg.DataError | ValueError):
        return InvalidInput("a text or number in this request cannot be stored; nothing was done")
    if isinstance(error, asyncpg.InsufficientResourcesError):
        return Unavailable("the database has run out of space or memory; nothing was done")
    return Unavailable("the database rejected the write; nothing was done: see the log")
