"""Progress of a long operation, on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

_SILENT_SECONDS: Final = 2.0
_TERMINAL_INTERVAL_SECONDS: Final = 0.2
_LOG_INTERVAL_SECONDS: Final = 10.0


class Progress:
    """Prints nothing for two seconds, then updates one line on a terminal or adds a line to a log every ten seconds."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next_at = time.monotonic() + _SILENT_SECONDS
        self._width = 0

    def __call__(self, message: str) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + (_TERMINAL_INTERVAL_SECONDS if self._terminal else _LOG_INTERVAL_SECONDS)
        if self._terminal:
            print(f"\r{message:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(message)
        else:
            print(message, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
