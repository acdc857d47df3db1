"""How far a long step has come, for somebody who waits."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

_SILENT_SECONDS: Final = 2.0
_EVERY_SECONDS_ON_A_TERMINAL: Final = 0.2
_EVERY_SECONDS: Final = 10.0


class Progress:
    """Silent for two seconds; then one line that changes on a terminal, or now and then one in a log."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next_at = time.monotonic() + _SILENT_SECONDS
        self._width = 0

    def __call__(self, words: str) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + (_EVERY_SECONDS_ON_A_TERMINAL if self._terminal else _EVERY_SECONDS)
        if self._terminal:
            print(f"\r{words:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(words)
        else:
            print(words, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
