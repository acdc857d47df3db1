"""What a use case may reach, and on whose behalf it acts."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from moorage.access.browser_logins import BrowserLogins
from moorage.access.oidc import Issuers
from moorage.access.port import Access
from moorage.core.callers import Caller
from moorage.core.entries import IdempotencyKey, JobHeld, LocationFree
from moorage.core.errors import PlaceTaken
from moorage.core.ids import SecurableId
from moorage.core.locations import Roots
from moorage.datasets.worker_pool import WorkerPool
from moorage.ledger.port import Ledger
from moorage.processes.pool import ProcessPool
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.no_stores import NoObjectStores
from moorage.storage.port import ObjectStores, Storage
from moorage.storage.secrets import SecretKeys
from moorage.usecases.alarms import Alarms
from moorage.usecases.formats import Formats
from moorage.usecases.local_state import LocalState

ManagedTables = Literal["on", "delta-v1", "off"]
"""Which managed Delta tables are served: all, only through /delta/v1, or no new ones."""

_DAY_MS = 24 * 60 * 60 * 1000

ReleaseLocation: TypeAlias = "Callable[[Ports, LocationFree, SecurableId], Awaitable[None]]"


async def _refuse_location(ports: Ports, expect: LocationFree, holder: SecurableId) -> None:
    raise PlaceTaken(f"the location '{expect.path}' is in use", field="location")


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """The world outside, and the few settings that decisions depend on."""

    ledger: Ledger
    storage: Storage
    snapshots: Snapshots
    access: Access
    roots: Roots
    page_secret: bytes
    formats: Formats = msgspec.field(default_factory=Formats)
    stores: ObjectStores = msgspec.field(default_factory=NoObjectStores)
    """How clients reach the object stores."""
    secrets: SecretKeys = msgspec.field(default_factory=SecretKeys)
    """Encrypt the secrets of storage credentials."""
    hold_ms: int = 7 * _DAY_MS
    """How long a dropped object can be undropped."""
    key_lifetime_ms: int = _DAY_MS
    """How long an idempotency key is kept."""
    worker_pool: WorkerPool = msgspec.field(default_factory=WorkerPool)
    """The worker processes that run pylance."""
    processes: ProcessPool = msgspec.field(default_factory=ProcessPool)
    """Check and translate large documents."""
    managed_tables: ManagedTables = "on"
    public_url: str = "http://127.0.0.1:8080"
    """Where clients reach this server. Addresses in responses begin with it, never with a Host header."""
    audit_ms: int = 90 * _DAY_MS
    """How long the lines of the audit are kept."""
    share_url_lifetime_ms: int = 60 * 60 * 1000
    """How long a recipient of a share can use a URL of a data file."""
    min_deletion_delay_ms: int = 2 * 60 * 60 * 1000
    """How long the files of expired versions are kept at least."""
    alarms: Alarms = msgspec.field(default_factory=Alarms)
    local: LocalState = msgspec.field(default_factory=LocalState)
    release_location: ReleaseLocation = _refuse_location
    """Called when a location that a request needs is held by another object: release it, or raise PlaceTaken."""
    issuers: Issuers = msgspec.field(default_factory=Issuers)
    """The identity providers whose tokens authenticate recipients."""
    browser_logins: BrowserLogins = msgspec.field(default_factory=BrowserLogins)
    """The identity providers at which people log in with a browser."""
    operations: frozenset[str] = frozenset()
    """The operations that this server has routes for, so that it reports only capabilities that it has."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a use case acts: caller, API, request id and idempotency key."""

    caller: Caller
    api: str
    request: str
    key: IdempotencyKey | None = None
    job: JobHeld | None = None
    """The job that a worker acts for. Nothing is appended unless the worker still has it."""
    authenticate: Callable[[], Awaitable[Caller]] | None = None
    """Authenticates the caller again, after a grant or revocation while the request was carried out."""
