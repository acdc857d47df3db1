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

_MAX_LOOKUPS: Final = 256

Q = TypeVar("Q", bound=Hashable)
A = TypeVar("A")


class SharedLookups(Generic[Q, A]):
    """Lookups of one kind. A result includes at least every write that was acknowledged before its lookup began."""

    def __init__(
        self,
        ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]],
        *,
        alike: Callable[[Q], int] = lambda _: 0,
        in_flight: int = 2,
    ) -> None:
        """`ask` runs lookups as one statement and returns results in order. Only those with equal `alike` share it.

        `in_flight`: of two statements, one runs while the results of the other are read. With more, each would combine
        fewer lookups.
        """
        self._ask = ask
        self._alike = alike
        self._in_flight = in_flight
        self._waiting: dict[Q, list[asyncio.Future[A]]] = {}
        self._running = 0
        self._are_rare = False
        """Whether the last statement had one lookup. If it had more, the next one waits a turn for others to join."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, question: Q) -> A:
        if self._are_rare and not self._running:
            return await self._answer_alone(question)
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(question, []).append(answer)
        if self._running < self._in_flight:
            self._start()
        return await answer

    async def _answer_alone(self, question: Q) -> A:
        """Run a lookup without a task. Lookups that arrive meanwhile share the next statement."""
        self._running += 1
        try:
            return (await self._ask((question,)))[0]
        finally:
            self._running -= 1
            if self._waiting:
                self._start()

    def _start(self) -> None:
        self._running += 1
        task = asyncio.create_task(self._run(), name="lookups")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            while self._waiting:
                kind = self._alike(next(iter(self._waiting)))
                questions = [question for question in self._waiting if self._alike(question) == kind][:_MAX_LOOKUPS]
                asked = {question: self._waiting.pop(question) for question in questions}
                self._are_rare = sum(map(len, asked.values())) == 1
                await self._answer(asked)
        finally:
            self._running -= 1

    async def _answer(self, asked: dict[Q, list[asyncio.Future[A]]]) -> None:
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
