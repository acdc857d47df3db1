"""The principals on whose behalf requests and chores act."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated principal. `access_seq` identifies the state of the grants that admitted it."""

    id: str
    name: str
    access_seq: int | None = None


SYSTEM = Caller(id="moorage", name="moorage")
"""The catalog itself: the caller of every chore."""

LOCAL = Caller(id="local", name="local")
"""The caller of every request to an open server on loopback."""
