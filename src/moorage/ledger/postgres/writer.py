"""The one writing connection of a process: waiting drafts share one call and one fsync."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import asyncpg

from moorage.core.entries import AccessIs, Draft, FloorAtMost, HeadIs, Receipt, RevisionIs, write_story
from moorage.core.errors import InvalidInput, MoorageError, OutcomeUnknown, Unavailable
from moorage.core.ids import Seq
from moorage.ledger import rows
from moorage.ledger.batch import Footprint, footprint, take_batch
from moorage.ledger.faults import reach
from moorage.ledger.port import Stale, claimed_receipt, keys_taken, purged
from moorage.ledger.postgres.arguments import APPEND, Written, arguments
from moorage.ledger.postgres.connections import LOST, Backend, backend_of, connect, end_backend, is_lost

log = logging.getLogger(__name__)

_BETWEEN_TRIES_S: Final = 0.1

_NUMBERS = (HeadIs, RevisionIs, AccessIs, FloorAtMost)
"""Expectations whose actual value is a number."""

Answer = Receipt | Stale | MoorageError


class _Waiting(NamedTuple):
    written: Written
    footprint: Footprint
    size: int
    answer: asyncio.Future[Receipt]


class Writer:
    """Takes drafts from a queue in batches and makes one call of append_v1 for each.

    A call that takes longer than `answer_s` is lost: the network swallowed it, or the answer.
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
        on_append: Callable[[int], None],
    ) -> None:
        self._url = url
        self._connection = connection
        self._backend = backend
        self._lost = False
        self._down_since: float | None = None
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
        on_append: Callable[[int], None],
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
        """Queue a draft. Cancelling whoever waits does not withdraw it."""
        if self._closed:
            raise Unavailable("the server is stopping; send the request to the next one")
        body = write_story(draft)
        size = len(body)
        for attachment in draft.attachments:
            size += len(attachment.document or b"") + len(attachment.staged or b"")
        answer: asyncio.Future[Receipt] = self._loop.create_future()
        self._queue.append(_Waiting(Written(draft, body), footprint(draft), size, answer))
        self._wake.set()
        return answer

    async def close(self) -> None:
        """Finish what was accepted, then stop."""
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
                if waiting.answer.done():  # its caller has gone; the draft stands all the same
                    continue
                if isinstance(answer, Receipt):
                    waiting.answer.set_result(answer)
                else:
                    waiting.answer.set_exception(answer)

    async def _write(self, batch: Sequence[Written], *, again: bool = False) -> list[Answer]:
        """One answer for each draft; nothing that goes wrong with one of them stops the task."""
        try:
            return await self._append(batch, again=again)
        except MoorageError as error:
            return [error] * len(batch)
        except Exception as error:  # whatever a draft provokes is its own answer, not the end of all
            if not again:  # nothing of it happened: find the one that fails, with the same ids
                return [answer for one in batch for answer in await self._write([one], again=True)]
            log.exception("the database refused the draft %s", batch[0].draft.id)
            return [_refusal(error)]

    async def _append(self, batch: Sequence[Written], *, again: bool) -> list[Answer]:
        """Make the call until its outcome is known. After a lost connection the draft ids give the answer."""
        given_ms = None if self._clock_ms is None else self._clock_ms()
        sent, result = 0, None
        while result is None:
            try:
                if self._lost or self._connection.is_closed():
                    await self._reconnect()
                args = arguments(batch, given_ms, again=again or sent > 0)
                reach("append.begun")
                sent += 1
                async with asyncio.timeout(self._answer_s):
                    result = await self._connection.fetchrow(APPEND, *args)
                reach("append.committed")
            except (*LOST, asyncpg.PostgresError) as error:  # TimeoutError is an OSError
                if not self._lost and not is_lost(error, self._connection):
                    raise
                await self._survive(error, sent=sent > 0)
        self._down_since = None
        self._on_append(max(result["seqs"]))
        return [_answer(one.draft, i, result, resent=sent > 1) for i, one in enumerate(batch)]

    async def _survive(self, error: BaseException, *, sent: bool) -> None:
        """Wait a little for the database to come back, or give up on this batch."""
        if not self._lost:
            self._lost = True
            self._connection.terminate()
        now = self._loop.time()
        if self._down_since is None:
            self._down_since = now
            log.warning("lost the connection to the database: %s", str(error) or "no answer in time")
        if now - self._down_since < self._patience_s:
            await asyncio.sleep(_BETWEEN_TRIES_S)
        elif sent:
            raise OutcomeUnknown("the database went away while it was writing; look before you repeat this")
        else:
            raise Unavailable("the database cannot be reached; nothing was done")

    async def _reconnect(self) -> None:
        connection = await connect(self._url, within_s=self._patience_s)
        try:
            async with asyncio.timeout(self._answer_s):
                await end_backend(connection, self._backend)
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
        # The draft is history already. If that was our doing, and only the answer was lost, nobody has had it yet:
        # whoever was told of a replay would take away the files that the draft had brought.
        return Receipt(seq=itself["seq"], at_ms=itself["at_ms"], outcome=draft.outcome, replayed=not resent)
    if len(draft.claims) > 1:
        return keys_taken(draft)
    found = replays[0]
    first = found["print"], rows.receipt(found["seq"], found["at_ms"], found["outcome"])
    try:
        receipt = claimed_receipt(first, draft.claims[0])
    except MoorageError as reused:
        return reused
    assert receipt is not None  # noqa: S101 - `first` is not None
    return receipt


def _refusal(error: Exception) -> MoorageError:
    """The database's words stay in the log: they may name tables and values."""
    if isinstance(error, asyncpg.DataError | ValueError):
        return InvalidInput("a text or number of this request cannot be stored; nothing was done")
    if isinstance(error, asyncpg.InsufficientResourcesError):
        return Unavailable("the database has run out of space or memory; nothing was done")
    return Unavailable("the database refused to write this; nothing was done")
