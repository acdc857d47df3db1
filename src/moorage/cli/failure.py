"""How a verb ends when it cannot do what it was asked."""

from __future__ import annotations

from typing import Final

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


class Failure(Exception):
    """One line that says what is wrong and what to do."""

    def __init__(self, line: str, *, code: int = FAILED) -> None:
        super().__init__(line)
        self.line = line
        self.code = code
