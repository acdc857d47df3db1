"""Jobs that go wrong in ways that pylance would: workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from moorage.datasets.job_table import JobTable


def abort(_desk: JobTable) -> None:
    """As an allocation that fails in Rust does."""
    os.kill(os.getpid(), signal.SIGABRT)


def panic(_desk: JobTable) -> None:
    raise BaseException("a panic in Rust is no Exception")


def hang(_desk: JobTable, note: str) -> None:
    Path(note).write_text(str(os.getpid()))
    time.sleep(600)


def whose(_desk: JobTable) -> int:
    return os.getpid()


def reserve(_desk: JobTable, size: int) -> int:
    return len(bytearray(size))
