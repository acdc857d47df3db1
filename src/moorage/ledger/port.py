"""The contract of the ledger. SQLite and PostgreSQL keep it; `moorage.testing` holds the kit that proves it.

Before `append`: files that the draft speaks of are in storage already. Nothing else is required.
After it returns: the draft is history, durably, and everybody sees it; or, for a draft without
changes, its receipt is kept. The receipt of a claimed key that was used before is the first one. A draft may
claim several keys, for requests that it carries out together: each gets the same receipt, and if one of them
was used before, `Stale` says so and nothing is written.
On error: `Stale` and every `MoorageError` but `OutcomeUnknown` mean that nothing was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from moorage.core.entries import Change, Claim, Draft, Entry, Expect, JobState, KeysFree, Publish, Receipt, Undrop
from moorage.core.errors import AlreadyPurged, KeyReused
from moorage.core.ids import Fence, JobId, SecurableId, Seq
from moorage.core.jobs import Job, Lease
from moorage.core.reports import ReportKind
from moorage.core.securables import Head, Kind, Securable, Shelf


class Stale(Exception):
    """An expectation no longer holds; nothing was written. Decide again on the new state.

    `actual` is what stands there instead, as far as it is known without another read: the head's
    version, the revision, the id that holds the name or place, the newest access_seq.
    Never leaves a use case: it becomes another try or an error of the tree.
    """

    def __init__(self, expect: Expect | KeysFree, actual: Any = None) -> None:
        super().__init__(f"{expect} does not hold (found {actual!r})")
        self.expect = expect
        self.actual = actual


class Mark(msgspec.Struct, frozen=True):
    """The ledger's clock: the last entry's numbers."""

    seq: Seq
    at_ms: int
    access_seq: int


class Found(msgspec.Struct, frozen=True):
    """A chain of securables, outermost first, as one statement saw it.

    Shorter than what was asked for: the next name does not exist there.
    """

    mark: Mark
    chain: tuple[Securable, ...]


class Step(msgspec.Struct, frozen=True):
    """One step of a walk down the tree."""

    shelf: Shelf
    key: str


class Listing(msgspec.Struct, frozen=True):
    mark: Mark
    items: tuple[Securable, ...]


class Below(msgspec.Struct, frozen=True):
    securable: Securable
    is_leaf: bool


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One kept version of a line of a table."""

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
    """A ratified commit whose bytes still have to reach their final name, or to be durable there."""

    table: SecurableId
    ref: str
    version: int
    at_ms: int
    file: str
    publish: Publish | None
    """None: the file bears its final name already."""
    size: int
    digest: str | None
    bytes: bytes | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a client said of one commit, or of a scan of one version."""

    table: SecurableId
    version: int
    at_ms: int
    body: bytes


LATEST = (2**62, "")
"""Where a list begins that shows the latest first."""


class Ledger(Protocol):
    kind: ClassVar[Literal["sqlite", "postgresql"]]

    @property
    def root(self) -> SecurableId:
        """The metastore: the parent of all catalogs, and the first thing every ledger creates."""
        ...

    def append(self, draft: Draft) -> Awaitable[Receipt]:
        """Make the draft history: all of it, durably, or none of it."""
        ...

    # --- reads: each is one statement, so what it returns belongs together ---------------------

    async def mark(self) -> Mark: ...

    async def walk(self, steps: Sequence[Step]) -> Found:
        """The live objects along a path of names, starting below the metastore.

        The last one carries its main head, if it is a table.
        """
        ...

    async def lineage(self, id: SecurableId) -> Found:
        """The object below its ancestors (without the metastore), dropped ones too.

        An empty chain: it never was, or is erased. A table carries its main head.
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
    ) -> Listing:
        """Live children in the order of their name keys, after a key. The parent is not looked at."""
        ...

    async def dropped(
        self, parent: SecurableId, shelf: Shelf, *, after: tuple[int, str] = LATEST, limit: int = 100
    ) -> Listing:
        """Dropped children that can still be brought back, the latest first, after a (dropped_at_ms, id)."""
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
        """Kept versions between first and last, both included, in ascending order unless told otherwise."""
        ...

    async def count_versions(self, table: SecurableId, ref: str, first: int, last: int) -> int:
        """How many versions between first and last, both included, are kept."""
        ...

    async def document(self, table: SecurableId, ref: str, version: int) -> bytes | None: ...

    async def receipt(self, caller: str, key: str) -> tuple[str, Receipt] | None:
        """The fingerprint and the receipt of a key that is still remembered."""
        ...

    async def entries(self, after: int, *, limit: int = 100) -> tuple[Entry, ...]: ...

    async def wait_past(self, seq: int, timeout_s: float) -> bool:
        """Whether an entry above seq exists now or appears in time. A hint: read to be sure."""
        ...

    async def job(self, id: JobId) -> Job | None: ...

    async def open_job(self, dedupe: str) -> Job | None: ...

    async def jobs(
        self, *, state: JobState | None = None, kind: str | None = None, after: str = "", limit: int = 100
    ) -> tuple[Job, ...]:
        """Jobs in the order of their ids, which is the order of their making."""
        ...

    # --- notes: written directly, they only move forward, and losing one is always safe ---------

    async def take_job(self, worker: str, kinds: Sequence[str], fence: Fence, lease_ms: int) -> Lease | None:
        """Lease the oldest job of these kinds that is due and that nobody holds."""
        ...

    async def renew_lease(self, job: JobId, fence: Fence, lease_ms: int, progress: dict[str, Any] | None) -> int | None:
        """The new end of the lease, or None if the fence is not the newest one."""
        ...

    async def rest_job(self, job: JobId, fence: Fence, delay_ms: int, error: str) -> bool:
        """Give a job back after a failed attempt, due again after a delay. False: the fence is not the newest."""
        ...

    async def staged(
        self, *, older_than_ms: int = 0, after: tuple[str, str, int] = ("", "", -1), limit: int = 100
    ) -> tuple[Staged, ...]:
        """Commits that still have to be published or made durable, in the order (table, ref, version), after one."""
        ...

    async def published(self, table: SecurableId, ref: str, version: int, *, claimed: bool = False) -> None:
        """Note that every version up to this one lies under its final name; forget its staged bytes.

        `claimed`: a client published it and told us, so it need not be told of it any more.
        """
        ...

    async def durable(self, versions: Mapping[tuple[SecurableId, str], int]) -> None:
        """Note that a power cut takes nothing any more of the lines up to these versions: none of them is staged."""
        ...

    async def keep_report(
        self, table: SecurableId, version: int, body: bytes, *, kind: ReportKind = ReportKind.COMMIT
    ) -> None:
        """Keep a report on a version: the first on its commit, the latest on its scans."""
        ...

    async def reports(
        self, table: SecurableId, *, kind: ReportKind = ReportKind.COMMIT, after: int = -1, limit: int = 100
    ) -> tuple[Report, ...]:
        """The reports of a kind on versions above one, in ascending order."""
        ...

    async def due_for_purge(self, *, after: tuple[int, str] = (-1, ""), limit: int = 100) -> tuple[Securable, ...]:
        """Dropped roots whose hold has ended, and stages whose life has, in the order (due_ms, id), after one."""
        ...

    async def below(self, parent: SecurableId, limit: int = 500) -> tuple[Below, ...]:
        """Children of any shelf, dropped ones too: how purge finds its way down a dropped tree."""
        ...

    async def forget_receipts(self, limit: int = 1000) -> int:
        """Drop receipts past their life; how many went."""
        ...

    async def page_secret(self) -> bytes:
        """What page tokens are authenticated with; the same on every server of this ledger."""
        ...

    async def close(self) -> None: ...


def keys_taken(draft: Draft) -> Stale:
    """One of the several keys of this draft was used before."""
    return Stale(KeysFree(tuple(claim.key for claim in draft.claims)))


def purged(change: Change) -> AlreadyPurged:
    """What a draft is told that would bring back what is being erased."""
    id = change.id if isinstance(change, Undrop) else None
    return AlreadyPurged("the object is being purged; it cannot come back", id=id)


def claimed_receipt(first: tuple[str, Receipt] | None, claim: Claim) -> Receipt | None:
    """The receipt a claim leads to, if its key was used before. KeyReused if for another request."""
    if first is None:
        return None
    print_, receipt = first
    if print_ != claim.print:
        raise KeyReused(
            "this idempotency key was used for a different request; send a new key", field="Idempotency-Key"
        )
    return msgspec.structs.replace(receipt, replayed=True)
