"""Walks that are asked for at the same time share one statement.

Every request begins with a walk, so this is where round trips add up: alone, each of 64 costs a statement
of its own, together they cost its rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any, Final

from moorage.core.ids import SecurableId
from moorage.core.securables import Securable
from moorage.ledger import rows
from moorage.ledger.port import Found, Mark, Step
from moorage.ledger.postgres.queries import walks_sql

_AT_ONCE: Final = 2
"""Statements in flight: one is carried out while the next one's answers are read. More would carry fewer walks each."""
_MOST: Final = 256
_WIDTH: Final = len(rows.SECURABLE_COLUMNS)

Path = tuple[Step, ...]


class Walks:
    """Walks below one root. A walk sees at least everything that was answered before it was asked for."""

    def __init__(self, fetch: Callable[..., Awaitable[list[Any]]]) -> None:
        self._fetch = fetch
        self._waiting: dict[Path, list[asyncio.Future[Found]]] = {}
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def walk(self, root: SecurableId, steps: Path) -> Found:
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(steps, []).append(answer)
        if self._running < _AT_ONCE:
            self._running += 1
            task = asyncio.create_task(self._run(root))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _run(self, root: SecurableId) -> None:
        try:
            while self._waiting:
                depth = len(next(iter(self._waiting)))
                paths = [path for path in self._waiting if len(path) == depth][:_MOST]
                await self._answer(root, {path: self._waiting.pop(path) for path in paths})
        finally:
            self._running -= 1

    async def _answer(self, root: SecurableId, asked: dict[Path, list[asyncio.Future[Found]]]) -> None:
        try:
            found = await self._fetch(*_statement(root, list(asked)))
        except Exception as error:  # noqa: BLE001 - whatever it is, those who asked must hear of it
            if len(asked) > 1:  # one path that the database cannot look up must not fail the others
                for path, answers in asked.items():
                    await self._answer(root, {path: answers})
                return
            for answer in chain.from_iterable(asked.values()):
                if not answer.done():
                    answer.set_exception(error)
            return
        known: dict[SecurableId, Securable] = {}
        for (path, answers), row in zip(asked.items(), found, strict=True):
            seen = _found(row, len(path), known)
            for answer in answers:
                if not answer.done():  # whoever asked has gone
                    answer.set_result(seen)


def _statement(root: SecurableId, paths: Sequence[Path]) -> list[Any]:
    depth = len(paths[0])
    args: list[Any] = [walks_sql(depth), root]
    for n in range(depth):
        args += ([path[n].shelf.value for path in paths], [path[n].key for path in paths])
    return args


def _found(row: Any, depth: int, known: dict[SecurableId, Securable]) -> Found:
    """The chain of one row. Many rows of a statement begin with the same catalog: it is read once."""
    line: list[Securable] = []
    for n in range(depth):
        first = 3 + n * _WIDTH
        id = row[first]
        if id is None:
            break
        if n + 1 == depth:
            line.append(rows.securable(row[first : first + _WIDTH], rows.head(row[first + _WIDTH :])))
            break
        above = known.get(id)
        if above is None:
            above = known[id] = rows.securable(row[first : first + _WIDTH])
        line.append(above)
    return Found(Mark(*row[:3]), tuple(line))
