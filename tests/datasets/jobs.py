"""Jobs that fail as pylance can fail. Worker processes import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from moorage.datasets.job_table import JobTable


def abort(_table: JobTable) -> None:
    """Abort as a failed allocation in Rust does."""
    os.kill(os.getpid(), signal.SIGABRT)


def panic(_table: JobTable) -> None:
    raise BaseException("a panic in Rust is not an Exception")


def hang(_table: JobTable, note: str) -> None:
    Path(note).write_text(str(os.getpid()))
    time.sleep(600)


def process_id(_table: JobTable) -> int:
    return os.getpid()


def reserve(_table: JobTable, size: int) -> int:
    return len(bytearray(size))
