"""The principals on whose behalf requests and chores act."""

from __future__ import annotations

import msgspec

from moorage.core.ids import Fence, JobId, SecurableId, Seq


class JobScope(msgspec.Struct, frozen=True):
    """What a job token opens: one table for reading and writing, and the names above it for reading."""

    job: JobId
    fence: Fence
    table: SecurableId
    above: frozenset[SecurableId]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated principal, and what it is known to be at the ledger's `access_seq`."""

    id: str
    """The name of the principal. It never changes and is never used again: objects are owned by it."""
    name: str
    principals: frozenset[str] = frozenset()
    """The principal itself, and the groups it belongs to, directly or through another group."""
    grants: frozenset[str] = frozenset()
    """What these principals are granted on the metastore. It holds for every object."""
    is_admin: bool = False
    """One of these principals owns the metastore, and with it every object."""
    is_read_only: bool = False
    """The token of the request may not change anything."""
    token: SecurableId | None = None
    """The token of this server that the request presented, or that its session belongs to."""
    until_ms: int | None = None
    """When this token expires, or the one by which a browser logged in. Tokens that the caller creates for itself end
    then, too. None: never, or the caller logged in at an identity provider."""
    job: JobScope | None = None
    """The token of the request opens only this. The principal's own grants do not count then."""
    seq: Seq | None = None
    """The position of the ledger that was read to authenticate the caller. A request that changes nothing may read its
    objects as of then. None: none was read."""
    access_seq: int | None = None
    """The state of all grants, groups and tokens that admitted the caller. None: nothing can change it."""


SYSTEM = Caller(id="moorage", name="moorage", is_admin=True)
"""The catalog itself: the caller of every chore."""

LOCAL = Caller(id="local", name="local", is_admin=True)
"""The caller of every request to an open server on loopback."""

EVERYONE = "account users"
"""The group of all principals. It exists without being created."""

RESERVED_NAMES = frozenset({SYSTEM.id, LOCAL.id, EVERYONE})
