"""Modes: clients write them in any case, as `ExistOk` or `exist_ok`."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from moorage.core.errors import InvalidInput

M = TypeVar("M", bound=Enum)


class IfMissing(Enum):
    """What to do about something that is to go and is not there."""

    FAIL = "fail"
    SKIP = "skip"


class IfNotEmpty(Enum):
    """What to do about a namespace that is to go and is not empty."""

    RESTRICT = "restrict"
    CASCADE = "cascade"


def parse_mode(text: str | None, default: M, field: str = "mode") -> M:
    """The mode that a client means; none is the default."""
    if text is None:
        return default
    kind = type(default)
    folded = text.replace("_", "").lower()
    for mode in kind:
        if mode.value.replace("_", "") == folded:
            return mode
    known = ", ".join(mode.value for mode in kind)
    raise InvalidInput(f"{field}: {text!r} is none of {known}", field=field)
