"""Who is asking."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated principal. `access_seq` is the state of the grants it was admitted under."""

    id: str
    """The principal id: objects are owned by it, and it survives a change of the name."""
    name: str
    groups: frozenset[str] = frozenset()
    """The ids of the groups it belongs to, directly or through another group."""
    access_seq: int | None = None


SYSTEM = Caller(id="moorage", name="moorage")
"""The catalog itself, when a chore acts."""

LOCAL = Caller(id="local", name="local")
"""Whoever reaches an open server on loopback."""
