"""What a use case may reach."""

from __future__ import annotations

import time

import msgspec

from moorage.access.port import Access
from moorage.core.callers import Caller
from moorage.core.entries import Claim
from moorage.core.ids import SecurableId
from moorage.datasets.workshop import Workshop
from moorage.ledger.port import Ledger
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.port import Storage
from moorage.storage.s3_account import S3Account
from moorage.storage.s3_sessions import S3Sessions
from moorage.usecases.alarms import Alarms
from moorage.usecases.delta.families import ManagedTables

_DAY_MS = 24 * 60 * 60 * 1000


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """The world outside, and the few settings that decisions depend on."""

    ledger: Ledger
    storage: Storage
    snapshots: Snapshots
    access: Access
    managed_root: str
    """The place below which managed tables live, unless their catalog or namespace says otherwise."""
    older_roots: tuple[str, ...] = ()
    """Where managed tables may live that were made with other settings, or before the data folder was moved."""
    page_secret: bytes
    s3: S3Account | None = None
    """The object store in which tables may lie."""
    sessions: S3Sessions | None = None
    """The keys with which requests to it are signed for clients, while it gives any."""
    hold_ms: int = 7 * _DAY_MS
    """How long a dropped object can be brought back."""
    key_lifetime_ms: int = _DAY_MS
    """How long an idempotency key is remembered."""
    workshop: Workshop = msgspec.field(default_factory=Workshop)
    """Where pylance works."""
    managed_tables: ManagedTables = "on"
    """Which managed Delta tables are served: all, only through /delta/v1, or no new ones."""
    alarms: Alarms = msgspec.field(default_factory=Alarms)
    """Where damage is told of."""
    unsynced: dict[tuple[SecurableId, str], int] = msgspec.field(default_factory=dict)
    """By line, the newest version whose file this server wrote without waiting for the disk."""
    operations: frozenset[str] = frozenset()
    """The operations that this server has routes for, so that it never claims what it cannot do."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def signs(self) -> bool:
        """Whether requests to the object store are signed for clients."""
        return self.sessions is not None and await self.sessions.are_given()


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, through which API, under which request id and idempotency key."""

    caller: Caller
    api: str
    request: str
    claim: Claim | None = None
