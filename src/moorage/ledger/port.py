"""The contract of the ledger. SQLite and PostgreSQL implement it; the kit in `moorage.testing` tests it.

Before `append`: the files that the draft refers to are in storage. Nothing else is required.
After it returns: the draft is history, durable and visible to every reader. For a draft without changes, its
receipt is stored. If its idempotency key was used before, the original receipt is returned. A draft may have
several idempotency keys, for requests that it carries out together. All of them get the same receipt. If one of
them was used before, `append` raises `Stale` and writes nothing.
On error: `Stale` and every `MoorageError` except `OutcomeUnknown` mean that nothing was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from moorage.core.entries import (
    Change,
    Draft,
    Entry,
    Expect,
    IdempotencyKey,
    JobState,
    KeysFree,
    Publish,
    Receipt,
    Undrop,
)
from moorage.core.errors import AlreadyPurged, KeyReused
from moorage.core.ids import Fence, JobId, SecurableId, Seq
from moorage.core.jobs import Job, Lease
from moorage.core.reports import ReportKind
from moorage.core.securables import Head, Kind, Securable, Shelf


class Stale(Exception):
    """An expectation no longer holds. Nothing was written. Retry on the new state.

    `actual` is what the ledger found instead, if that needs no further read: the head's version,
    the revision, the id that holds the name or location, the newest access_seq.
    It never leaves a use case: the use case retries or raises a `MoorageError`.
    """

    def __init__(self, expect: Expect | KeysFree, actual: Any = None) -> None:
        super().__init__(f"{expect} does not hold (found {actual!r})")
        self.expect = expect
        self.actual = actual


class Position(msgspec.Struct, frozen=True):
    """The ledger position: seq, time and access_seq of the last entry."""

    seq: Seq
    at_ms: int
    access_seq: int


class Found(msgspec.Struct, frozen=True):
    """A chain of securables, outermost first, read by one statement.

    If it is shorter than the requested path, the next name does not exist.
    """

    position: Position
    chain: tuple[Securable, ...]


class Step(msgspec.Struct, frozen=True):
    """One step of a walk down the tree."""

    shelf: Shelf
    key: str


class Listing(msgspec.Struct, frozen=True):
    position: Position
    items: tuple[Securable, ...]


class Below(msgspec.Struct, frozen=True):
    securable: Securable
    is_leaf: bool


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One available version of a line of a table."""

    table: SecurableId
    ref: str
    version: int
    seq: Seq
    at_ms: int
    timestamp_ms: int
    operation: str
    file: str
    size: int
    digest: str | None
    publish: Publish | None
    details: dict[str, Any]


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A ratified commit whose bytes are not published under their final name yet, or not durable there."""

    table: SecurableId
    ref: str
    version: int
    at_ms: int
    file: str
    publish: Publish | None
    """None: the file already has its final name."""
    size: int
    digest: str | None
    bytes: bytes | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A client's report on one commit, or on a scan of one version."""

    table: SecurableId
    version: int
    at_ms: int
    body: bytes


LATEST = (2**62, "")
"""The start of a listing that shows the latest first."""


class Ledger(Protocol):
    kind: ClassVar[Literal["sqlite", "postgresql"]]

    @property
    def root(self) -> SecurableId:
        """The metastore: the parent of all catalogs, created by the first entry."""
        ...

    def append(self, draft: Draft) -> Awaitable[Receipt]:
        """Make the draft history: all of it, durably, or none of it."""
        ...

    @property
    def known_access_seq(self) -> int | None:
        """The access_seq of the position. None unless this process is the only writer and needs no read for it."""
        ...

    # --- reads: each is one statement, so its result is consistent -----------------------------

    async def position(self) -> Position: ...

    async def walk(self, steps: Sequence[Step], *, since: Seq | None = None) -> Found:
        """The live objects along a path of names, starting below the metastore.

        If the last one is a table, it has its main head. `since`: the result may be as old as this position, which was
        read for the same request.
        """
        ...

    async def lineage(self, id: SecurableId) -> Found:
        """The object and its ancestors (without the metastore), including dropped ones.

        An empty chain means that the object never existed or is erased. A table has its main head.
        """
        ...

    async def children(
        self,
        parent: SecurableId,
        shelf: Shelf,
        *,
        after: str = "",
        limit: int = 100,
        kinds: Sequence[Kind] = (),
        since: Seq | None = None,
    ) -> Listing:
        """Live children in the order of their name keys, after a key. The parent is not checked.

        `since`: the result may be as old as this position, at which the caller has just read the parent.
        """
        ...

    async def ids_on(self, shelf: Shelf, *, after: str = "", limit: int = 100) -> tuple[SecurableId, ...]:
        """The objects on one shelf of all parents, in the order of their ids, after one, without dropped ones.

        An ancestor of such an object may be dropped: `lineage` says so.
        """
        ...

    async def dropped(
        self, parent: SecurableId, shelf: Shelf, *, after: tuple[int, str] = LATEST, limit: int = 100
    ) -> Listing:
        """Dropped children that can still be undropped, the latest first, after a (dropped_at_ms, id)."""
        ...

    async def head(self, table: SecurableId, ref: str) -> Head | None: ...

    async def versions(
        self,
        table: SecurableId,
        ref: str,
        *,
        first: int = 0,
        last: int | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> tuple[Version, ...]:
        """Available versions from first to last, inclusive. Ascending unless `descending`."""
        ...

    async def count_versions(self, table: SecurableId, ref: str, first: int, last: int) -> int:
        """The number of available versions from first to last, inclusive."""
        ...

    async def document(self, table: SecurableId, ref: str, version: int) -> bytes | None: ...

    async def receipt(self, caller: str, key: str) -> tuple[str, Receipt] | None:
        """The fingerprint and the receipt of an idempotency key, if they have not expired."""
        ...

    async def entries(self, after: int, *, limit: int = 100) -> tuple[Entry, ...]: ...

    async def wait_for_entry_after(self, seq: int, timeout_s: float) -> bool:
        """Whether an entry above seq exists or appears within the timeout. A hint: read to be sure."""
        ...

    async def job(self, id: JobId) -> Job | None: ...

    async def open_job(self, dedupe: str) -> Job | None: ...

    async def jobs(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        subject: SecurableId | None = None,
        after: str = "",
        limit: int = 100,
        descending: bool = False,
    ) -> tuple[Job, ...]:
        """Jobs in the order of their ids, which is the order of their creation, after an id.

        `descending`: the newest first; `after` is then the id above the first one, or empty for all.
        """
        ...

    async def due_jobs(self, *, limit: int = 100) -> tuple[Job, ...]:
        """The jobs that workers have or could take now, in the order in which they are taken.

        The runtime does not grow with the number of jobs that ended, nor with that of jobs that are due later.
        """
        ...

    # --- notes: written without an entry; they only move forward, and losing one is always safe --

    async def lease_job(self, worker: str, kinds: Sequence[str], fence: Fence, lease_ms: int) -> Lease | None:
        """Lease the oldest due job of these kinds that has no active lease."""
        ...

    async def renew_lease(self, job: JobId, fence: Fence, lease_ms: int, progress: dict[str, Any] | None) -> int | None:
        """Extend the lease and return its new end, or None if the fence is not the newest.

        Without progress, a lease with three quarters of the time left stays as it is: each step of a job asks, and a
        write waits for the disk.
        """
        ...

    async def requeue_job(
        self, job: JobId, fence: Fence, delay_ms: int, error: str, *, is_failure: bool = True
    ) -> bool:
        """Return a job to the queue, due after a delay. False: the fence is not the newest.

        Unless it is a failure, the attempt does not count.
        """
        ...

    async def staged(
        self, *, older_than_ms: int = 0, after: tuple[str, str, int] = ("", "", -1), limit: int = 100
    ) -> tuple[Staged, ...]:
        """Commits that are not published or not durable yet, in the order (table, ref, version), after one."""
        ...

    async def record_published(self, table: SecurableId, ref: str, version: int, *, by_client: bool = False) -> None:
        """Record that every version up to this one has its final name, and delete their staged bytes.

        `by_client`: a client reported that it published the version, so it is no longer announced to clients.
        """
        ...

    async def record_durable(self, versions: Mapping[tuple[SecurableId, str], int]) -> None:
        """Record that the lines are durable up to these versions, and delete their staged rows."""
        ...

    async def store_report(
        self, table: SecurableId, version: int, body: bytes, *, kind: ReportKind = ReportKind.COMMIT
    ) -> None:
        """Store a report on a version: the first one for its commit, the latest one for its scans."""
        ...

    async def reports(
        self, table: SecurableId, *, kind: ReportKind = ReportKind.COMMIT, after: int = -1, limit: int = 100
    ) -> tuple[Report, ...]:
        """The reports of a kind on versions above `after`, in ascending order."""
        ...

    async def delete_reports(self, table: SecurableId, *, kind: ReportKind, below: int, limit: int = 1000) -> int:
        """Delete reports of a kind on versions below one, at most `limit`, and return their number."""
        ...

    async def due_for_purge(self, *, after: tuple[int, str] = (-1, ""), limit: int = 100) -> tuple[Securable, ...]:
        """Dropped roots whose hold has ended and expired staging tables, in the order (due_ms, id), after one."""
        ...

    async def location_holder(self, path: str) -> SecurableId | None:
        """An object, live or dropped, that holds this location, one that contains it, or one inside it.

        If there are several, one that contains it comes first.
        """
        ...

    async def all_children(self, parent: SecurableId, limit: int = 500) -> tuple[Below, ...]:
        """Children of any shelf, including dropped ones. A purge walks down a dropped tree with it."""
        ...

    async def delete_expired_receipts(self, limit: int = 1000) -> int:
        """Delete expired receipts and return their number."""
        ...

    async def page_secret(self) -> bytes:
        """The secret that authenticates page tokens. It is the same on every server of this ledger."""
        ...

    async def close(self) -> None: ...


def keys_used_error(draft: Draft) -> Stale:
    """The error for a draft with several idempotency keys of which one was used before."""
    return Stale(KeysFree(tuple(key.value for key in draft.keys)))


def purged(change: Change) -> AlreadyPurged:
    """The error for a draft that undrops an object whose purge has begun."""
    id = change.id if isinstance(change, Undrop) else None
    return AlreadyPurged("the object is being purged; it can no longer be undropped", id=id)


def replayed_receipt(first: tuple[str, Receipt] | None, key: IdempotencyKey) -> Receipt | None:
    """The original receipt if the idempotency key was used before. KeyReused if it was for another request."""
    if first is None:
        return None
    fingerprint, receipt = first
    if fingerprint != key.fingerprint:
        raise KeyReused(
            "this idempotency key was used for a different request; send a new key", field="Idempotency-Key"
        )
    return msgspec.structs.replace(receipt, replayed=True)
