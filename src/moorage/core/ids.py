"""Id types. The core only passes ids on; `moorage.fresh` makes them."""

from __future__ import annotations

import re
from typing import NewType

SecurableId = NewType("SecurableId", str)
TableId = NewType("TableId", SecurableId)
DraftId = NewType("DraftId", str)
JobId = NewType("JobId", str)
Fence = NewType("Fence", str)

Seq = NewType("Seq", int)
"""The number of an entry: 1, 2, 3, … without gaps."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_id(text: str) -> bool:
    """Whether text has the form of an id: a lower-case UUID with dashes."""
    return _UUID.fullmatch(text) is not None
