"""Checkpoints of the write-ahead log, beside the writer and never inside a commit. The log file keeps its size."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from moorage.ledger.sqlite.connections import connect

log = logging.getLogger(__name__)

_FILLED_BYTES = 8 * 1024 * 1024
_FULL_BYTES = 16 * 1024 * 1024
"""The size at which the log is restarted."""
_BATCHES_PER_CHECKPOINT = 200
_INTERVAL_S = 0.25


def preallocate_log(file: Path) -> None:
    """Fill the log of a ledger with zeros before its first commit.

    A commit that overwrites costs half of one that extends the file, because the file system has no metadata to
    write. SQLite reads zeros as the end of the log. On a full disk the log grows as it is written.
    """
    try:
        with open(f"{file}-wal", "ab") as log_file:
            log_file.write(bytes(max(0, _FILLED_BYTES - log_file.tell())))
            log_file.flush()
            os.fdatasync(log_file.fileno())
    except OSError as error:
        log.warning("cannot preallocate the ledger's write-ahead log: %s", error)


class Checkpointer:
    """A thread with its own connection that wakes after each batch."""

    def __init__(self, file: Path) -> None:
        self._db = connect(file)
        # A backup reads for a while. A restart of the log would wait for it and block the writers.
        self._db.execute("pragma busy_timeout = 20")
        (self._page_bytes,) = self._db.execute("pragma page_size").fetchone()
        self._log_file = Path(f"{file}-wal")
        self._log_bytes = self._log_file.stat().st_size
        self._batches = 0
        self.blocks_writers = False
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-checkpoint", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._batches += 1
        if not self._woken.is_set():
            self._woken.set()

    def close(self) -> None:
        self._stopped.set()
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        failed = False
        with closing(self._db):
            while self._woken.wait() and not self._stopped.is_set():
                self._woken.clear()
                try:
                    if self._is_due():
                        self._checkpoint()
                        failed = False
                except (sqlite3.Error, OSError) as error:
                    # A full disk must not end this thread: the log would grow without bound once there is space again.
                    if not failed:
                        log.warning("cannot checkpoint the ledger's write-ahead log, will retry: %s", error)
                    failed = True
                self._stopped.wait(_INTERVAL_S)

    def _is_due(self) -> bool:
        """Not after only a few batches: the first commit after a restart of the log waits for the disk once more."""
        before, self._log_bytes = self._log_bytes, self._log_file.stat().st_size
        return self._batches >= _BATCHES_PER_CHECKPOINT or self._log_bytes > before

    def _checkpoint(self) -> None:
        self._batches = 0
        _, pages, _ = self._db.execute("pragma wal_checkpoint(passive)").fetchone()
        if pages * self._page_bytes >= _FULL_BYTES:
            # Under load a passive checkpoint never catches up, and the log would grow without bound. A restart
            # holds the writers back for the last few pages.
            self.blocks_writers = True
            try:
                self._db.execute("pragma wal_checkpoint(restart)")
            finally:
                self.blocks_writers = False
