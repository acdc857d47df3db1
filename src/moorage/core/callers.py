"""The principals on whose behalf requests and chores act."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated principal. `access_seq` identifies the state of the grants that admitted it."""

    id: str
    """The principal id: objects are owned by it, and it survives a change of the name."""
    name: str
    groups: frozenset[str] = frozenset()
    """The ids of the groups it belongs to, directly or through another group."""
    access_seq: int | None = None


SYSTEM = Caller(id="moorage", name="moorage")
"""The catalog itself: the caller of every chore."""

LOCAL = Caller(id="local", name="local")
"""The caller of every request to an open server on loopback."""
