"""Functions for the processes of the pool. They are found there by their names."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from moorage.core.errors import InvalidInput


def described(data: bytes, *, name: str) -> tuple[int, str, int]:
    return len(data), name, os.getpid()


def loads_arrow(_: bytes) -> bool:
    return "pyarrow" in sys.modules


def refuse(data: bytes, field: str) -> NoReturn:
    raise InvalidInput(f"{len(data)} bytes are too many", field=field)


def divide(_: bytes) -> float:
    return 1 / 0


def die(_: bytes) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process continues")


def die_once(_: bytes, note: Path) -> int:
    """Kill the first process that runs this."""
    if not note.exists():
        note.touch()
        die(b"")
    return os.getpid()


def hang(_: bytes, note: Path) -> None:
    note.write_text(str(os.getpid()))
    time.sleep(60)
