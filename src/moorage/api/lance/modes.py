"""Parsing of modes. Clients write them in any case, for example `ExistOk` or `exist_ok`."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from moorage.core.errors import InvalidInput

M = TypeVar("M", bound=Enum)


class IfMissing(Enum):
    """What to do if the object to drop does not exist."""

    FAIL = "fail"
    SKIP = "skip"


class IfNotEmpty(Enum):
    """What to do if the namespace to drop is not empty."""

    RESTRICT = "restrict"
    CASCADE = "cascade"


def parse_mode(text: str | None, default: M, field: str = "mode") -> M:
    """The mode in a request; the default if it is absent."""
    if text is None:
        return default
    kind = type(default)
    folded = text.replace("_", "").lower()
    for mode in kind:
        if mode.value.replace("_", "") == folded:
            return mode
    known = ", ".join(mode.value for mode in kind)
    raise InvalidInput(f"{field}: {text!r} is not one of {known}", field=field)
