"""Runs statements that wait for the disk on a separate thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import suppress
from queue import SimpleQueue


class Disk:
    """Runs statements one after another off the event loop. The first statement starts the thread.

    Not an executor: for the commits of a slow disk, that takes twice the CPU.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[tuple[str, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def execute(self, sql: str) -> asyncio.Future[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ledger-disk", daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((sql, done))
        return done

    def close(self) -> None:
        """Finish the queued statements, then stop."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (queued := self._queue.get()) is not None:
            sql, done = queued
            error: BaseException | None = None
            try:
                self._db.execute(sql)
            except BaseException as raised:  # noqa: BLE001 - passed on to the waiting caller
                error = raised
            with suppress(RuntimeError):  # the loop has ended, so no caller is waiting
                self._loop.call_soon_threadsafe(_resolve, done, error)


def _resolve(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
