"""Moving the write-ahead log into the file, beside the writer and never inside a commit."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from moorage.ledger.sqlite.connections import connect

log = logging.getLogger(__name__)

_CHECKPOINT_BYTES = 4 * 1024 * 1024
_RESTART_BYTES = 256 * 1024 * 1024
_REST_S = 0.05


class Checkpointer:
    """A thread with its own connection, woken after each batch."""

    def __init__(self, file: Path) -> None:
        self._db = connect(file)
        # A backup reads for a while, and a restart of the WAL waits for it with the writers behind it.
        self._db.execute("pragma busy_timeout = 20")
        self._wal = file.with_name(file.name + "-wal")
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-checkpoint", daemon=True)
        self._thread.start()

    def wake(self) -> None:
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
                    self._checkpoint()
                    failed = False
                except (sqlite3.Error, OSError) as error:
                    # A full disk must not end this thread: the log would grow for ever once there is space again.
                    if not failed:
                        log.warning("the ledger's log cannot be moved into its file yet: %s", error)
                    failed = True
                self._stopped.wait(_REST_S)

    def _checkpoint(self) -> None:
        size = self._wal.stat().st_size if self._wal.exists() else 0
        if size >= _RESTART_BYTES:
            # Under load a passive checkpoint never quite catches up, and the file would grow
            # for ever: this one holds writers back for a moment so that the WAL starts anew.
            self._db.execute("pragma wal_checkpoint(truncate)")
        elif size >= _CHECKPOINT_BYTES:
            self._db.execute("pragma wal_checkpoint(passive)")
