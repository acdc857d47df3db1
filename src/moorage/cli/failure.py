"""The error with which a verb ends, and the exit codes."""

from __future__ import annotations

from typing import Final

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


class Failure(Exception):
    """A verb failed. `line` states what is wrong and what to do."""

    def __init__(self, line: str, *, code: int = FAILED) -> None:
        super().__init__(line)
        self.line = line
        self.code = code
