"""The server's responses as typed values. Fields that a newer server adds are ignored."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from moorage.core.entries import JobState
from moorage.core.securables import Column

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list. The last page has no token."""

    items: tuple[T, ...]
    next_page_token: str | None = None


class Object(msgspec.Struct, frozen=True, kw_only=True):
    """A catalog, a namespace, or any other named object."""

    id: str
    kind: str
    name: str
    owner: str
    comment: str | None = None
    properties: dict[str, str] = {}
    revision: int
    created_at_ms: int
    created_by: str
    updated_at_ms: int
    updated_by: str
    dropped_at_ms: int | None = None
    purge_at_ms: int | None = None
    """Until then, a dropped object can be undropped."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a table."""

    version: int
    timestamp_ms: int
    published: int | None


class Table(Object, frozen=True, kw_only=True):
    """A table or view of any format."""

    format: str | None
    managed: bool
    location: str | None
    columns: tuple[Column, ...]
    head: Head | None


class LocatedTable(Table, frozen=True, kw_only=True):
    """A table with its current path of names: catalog, namespaces, table."""

    path: tuple[str, ...]


class Flow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query of a pipeline that fills a table."""

    name: str
    target: str
    reads: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None


class Pipeline(Object, frozen=True, kw_only=True):
    """A project of Spark's declarative pipelines, with its graph."""

    digest: str
    tables: tuple[str, ...]
    views: tuple[str, ...]
    sinks: tuple[str, ...] = ()
    flows: tuple[Flow, ...]
    schedule: str | None = None
    on_change: bool = False
    files: dict[str, str]


class FeedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the ledger. The story is kept as sent, because a newer server may have new kinds of changes."""

    seq: int
    at_ms: int
    access_seq: int
    draft: str
    caller: str
    api: str
    request: str
    story: dict[str, Any]

    @property
    def changes(self) -> list[dict[str, Any]]:
        return self.story.get("changes") or []

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return self.story.get("jobs") or []


class FeedPage(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[FeedEntry, ...]
    last_seq: int


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job and the state of its current attempt."""

    id: str
    kind: str
    subject: str | None
    args: dict[str, Any]
    state: JobState
    attempt: int
    attempts: int
    created_at_ms: int
    not_before_ms: int
    worker: str | None = None
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    ended_at_ms: int | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run a job until the lease ends. Every request about the job must carry the fence."""

    job: Job
    fence: str
    until_ms: int
    token: str | None = None
    """Opens only the table of the job. None if the server does not authenticate, or the job is not about a table."""

    def __repr__(self) -> str:
        """Omits the token, because this text may be logged."""
        return f"Lease({self.job.id} until {self.until_ms})"


class RenewedLease(msgspec.Struct, frozen=True, kw_only=True):
    until_ms: int


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a table, and the work that mends it."""

    problem: str
    severity: float
    reason: str
    work: str | None
    advice: str
    due: bool


class TableHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a table at its newest version. The score is between 0 and 100."""

    format: str
    score: int
    policy: str
    policy_set_by: str | None = None
    policy_problem: str | None = None
    findings: tuple[Finding, ...]
    facts: dict[str, Any]
    jobs: tuple[Job, ...] = ()


class TransactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The entry that contains all operations, and the objects that they changed, in order."""

    seq: int
    ids: tuple[str, ...]
    versions: tuple[int, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    ledger: str
    metastore_id: str
    seq: int
    at_ms: int
    open_jobs: int
    uptime_seconds: float


class Nothing(msgspec.Struct, frozen=True):
    """A response of which only the status is used."""
