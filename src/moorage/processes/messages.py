"""What a process answers through its pipe."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.core.errors import MoorageError


class Done(msgspec.Struct, frozen=True):
    """The result of a job, or the answer to a question."""

    result: Any


class Refused(msgspec.Struct, frozen=True):
    """A MoorageError, in either direction."""

    error: MoorageError


class Failed(msgspec.Struct, frozen=True):
    """The job ended with an unexpected exception. The text is for the log."""

    traceback: str
