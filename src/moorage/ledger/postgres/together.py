"""Questions that are asked at the same time share one statement.

Every request begins with a walk or a lineage, so this is where round trips add up: alone, each of 64 costs a
statement of its own, together they cost its rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import chain
from typing import Final, Generic, TypeVar

from moorage.core.errors import InvalidInput
from moorage.ledger.port import Found

_AT_ONCE: Final = 2
"""Statements in flight: one is carried out while the next one's answers are read. More would carry fewer questions."""
_MOST: Final = 256

Q = TypeVar("Q", bound=Hashable)


class Together(Generic[Q]):
    """Questions of one kind. An answer knows at least of everything that was answered before it was asked for."""

    def __init__(
        self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[Found]]], *, alike: Callable[[Q], int] = lambda _: 0
    ) -> None:
        """`ask` answers questions in their order, all by one statement; only those that are `alike` may share it."""
        self._ask = ask
        self._alike = alike
        self._waiting: dict[Q, list[asyncio.Future[Found]]] = {}
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, question: Q) -> Found:
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(question, []).append(answer)
        if self._running < _AT_ONCE:
            self._running += 1
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                kind = self._alike(next(iter(self._waiting)))
                questions = [question for question in self._waiting if self._alike(question) == kind][:_MOST]
                await self._answer({question: self._waiting.pop(question) for question in questions})
        finally:
            self._running -= 1

    async def _answer(self, asked: dict[Q, list[asyncio.Future[Found]]]) -> None:
        try:
            found = await self._ask(list(asked))
        except Exception as error:  # noqa: BLE001 - whatever it is, those who asked must hear of it
            # One question that the database cannot understand must not fail the others. But if it cannot be reached,
            # all hear of it now: asked one by one, the last would wait as often as there are others.
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
                if not answer.done():  # whoever asked has gone
                    answer.set_result(seen)
