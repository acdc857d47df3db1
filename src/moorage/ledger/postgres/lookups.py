"""Concurrent lookups share one statement.

Every request begins with a walk or a lineage, so round trips add up here. Without sharing, 64 concurrent lookups
cost 64 statements; with it, they cost one statement with 64 rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import chain
from typing import Final, Generic, TypeVar

from moorage.core.errors import InvalidInput
from moorage.ledger.port import Found

_MAX_IN_FLIGHT: Final = 2
"""Statements in flight: one runs while the results of another are read. With more, each would combine fewer lookups."""
_MAX_LOOKUPS: Final = 256

Q = TypeVar("Q", bound=Hashable)


class SharedLookups(Generic[Q]):
    """Lookups of one kind. A result includes at least every write that was acknowledged before its lookup began."""

    def __init__(
        self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[Found]]], *, alike: Callable[[Q], int] = lambda _: 0
    ) -> None:
        """`ask` runs lookups as one statement and returns results in order. Only those with equal `alike` share it."""
        self._ask = ask
        self._alike = alike
        self._waiting: dict[Q, list[asyncio.Future[Found]]] = {}
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, question: Q) -> Found:
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(question, []).append(answer)
        if self._running < _MAX_IN_FLIGHT:
            self._running += 1
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                kind = self._alike(next(iter(self._waiting)))
                questions = [question for question in self._waiting if self._alike(question) == kind][:_MAX_LOOKUPS]
                await self._answer({question: self._waiting.pop(question) for question in questions})
        finally:
            self._running -= 1

    async def _answer(self, asked: dict[Q, list[asyncio.Future[Found]]]) -> None:
        try:
            found = await self._ask(list(asked))
        except Exception as error:  # noqa: BLE001 - every waiting caller must get the error
            # One lookup with invalid input must not fail the others, so they are retried one by one. If the database
            # is unreachable, all fail now: one by one, the last would wait for one timeout per lookup before it.
            if len(asked) > 1 and isinstance(error, InvalidInput):
                for question, answers in asked.items():
                    await self._answer({question: answers})
                return
            for answer in chain.from_iterable(asked.values()):
                if not answer.done():
                    answer.set_exception(error)
            return
        for answers, seen in zip(asked.values(), found, strict=True):
            for answer in answers:
                if not answer.done():  # the caller was cancelled
                    answer.set_result(seen)
