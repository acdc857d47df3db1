"""Statements that wait for the disk, on a thread of their own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import suppress
from queue import SimpleQueue


class Disk:
    """Runs one statement after another off the event loop. Its thread begins with the first.

    Less than an executor, on purpose: for every commit of a slow disk that takes twice the CPU.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._loop = asyncio.get_running_loop()
        self._asked: SimpleQueue[tuple[str, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def execute(self, sql: str) -> asyncio.Future[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ledger-disk", daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = self._loop.create_future()
        self._asked.put((sql, done))
        return done

    def close(self) -> None:
        """Finish what was asked for, then stop."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            sql, done = asked
            error: BaseException | None = None
            try:
                self._db.execute(sql)
            except BaseException as raised:  # noqa: BLE001 - whoever waits hears of it
                error = raised
            with suppress(RuntimeError):  # the loop may have ended, and nobody waits any more
                self._loop.call_soon_threadsafe(_tell, done, error)


def _tell(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
