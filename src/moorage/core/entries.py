"""The words of the ledger: what a draft relies on, what it changes, and what comes back.

Everything here is data. An entry is a draft that became history; the entries are the feed,
and applying their changes in order rebuilds the catalog.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from moorage.core.errors import DraftTooLarge
from moorage.core.ids import DraftId, Fence, JobId, SecurableId, Seq
from moorage.core.securables import MAIN, Doc, Kind, Shelf

MOST_CHANGES = 1_000
LARGEST_DRAFT = 16 * 1024 * 1024

# --- what a draft relies on ------------------------------------------------------------------


class HeadIs(msgspec.Struct, frozen=True, tag="head"):
    """The line is at this version (None: it does not exist), and the table and its ancestors are live."""

    table: SecurableId
    ref: str
    version: int | None


class RevisionIs(msgspec.Struct, frozen=True, tag="revision"):
    """The object has not changed since it was read."""

    id: SecurableId
    revision: int


class Live(msgspec.Struct, frozen=True, tag="live"):
    """The object and all its ancestors exist and are not dropped."""

    id: SecurableId


class Empty(msgspec.Struct, frozen=True, tag="empty"):
    """The object has no live children. Stages do not count: nobody sees them, and they go by themselves."""

    id: SecurableId


class NameFree(msgspec.Struct, frozen=True, tag="name"):
    """No live object holds the name, save those whose name this same draft releases."""

    parent: SecurableId
    shelf: Shelf
    key: str


class PlaceFree(msgspec.Struct, frozen=True, tag="place"):
    """No object holds this path, one above it or one below it. Paths end with a slash.

    `by`: what this object holds itself is free for it. `anew`: the place is wanted for new files, so those that wait
    there to be purged may go to make room; otherwise they may be just what is wanted.
    """

    path: str
    by: SecurableId | None = None
    anew: bool = False


class AccessIs(msgspec.Struct, frozen=True, tag="access"):
    """Nobody's rights changed since the caller was authorised."""

    seq: int


class JobHeld(msgspec.Struct, frozen=True, tag="job"):
    """The job is open, and its newest lease carries this fence (None: whoever holds it)."""

    job: JobId
    fence: Fence | None


class JobFree(msgspec.Struct, frozen=True, tag="job_free"):
    """No job of this purpose is open."""

    dedupe: str


class FloorAtMost(msgspec.Struct, frozen=True, tag="floor"):
    """This version of the line is still available."""

    table: SecurableId
    ref: str
    version: int


class KeysFree(msgspec.Struct, frozen=True, tag="keys"):
    """None of these keys was used before. No draft says so: it is what several claims of one draft rely on."""

    keys: tuple[str, ...]


# `KeyFree` of the design is the draft's claim: it is checked and taken in one go.
Expect = HeadIs | RevisionIs | Live | Empty | NameFree | PlaceFree | AccessIs | JobHeld | JobFree | FloorAtMost

# --- what a draft changes --------------------------------------------------------------------


class Create(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="create"):
    id: SecurableId
    kind: Kind
    parent: SecurableId
    name: str
    owner: str
    doc: Doc
    place: str | None = None
    """The storage path that this object holds from now on."""
    lifetime_ms: int | None = None
    """Of a stage: how long it may wait to become a table."""


class Update(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="update"):
    """The description is replaced as a whole; the owner only if given."""

    id: SecurableId
    doc: Doc
    owner: str | None = None
    place: str | None = None
    """A storage path that it holds from now on too. Where it was before, files of its may still lie."""


class Rename(msgspec.Struct, frozen=True, kw_only=True, tag="rename"):
    id: SecurableId
    parent: SecurableId
    name: str


class Drop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="drop"):
    """Frees the name and keeps the place. What lies below becomes unreachable, not touched."""

    id: SecurableId
    hold_ms: int


class Undrop(msgspec.Struct, frozen=True, kw_only=True, tag="undrop"):
    id: SecurableId
    name: str


class Purge(msgspec.Struct, frozen=True, kw_only=True, tag="purge"):
    """Announces that the dropped tree will be erased: nobody can undrop it any more."""

    id: SecurableId


class Erase(msgspec.Struct, frozen=True, kw_only=True, tag="erase"):
    """The last rows of purged objects go, their places become free."""

    ids: tuple[SecurableId, ...]


class Publish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the bytes of a commit belong in the end, and where the writer staged them."""

    target: str
    source: str


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="commit"):
    """The next version of one line of a table."""

    table: SecurableId
    ref: str = MAIN
    version: int
    operation: str
    """append, change, rewrite or metadata: what upkeep may do beside it depends on this."""
    file: str
    size: int
    digest: str | None = None
    timestamp_ms: int
    row_id_mark: int | None = None
    publish: Publish | None = None
    details: dict[str, Any] = {}


class RaiseFloor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="raise_floor"):
    """Versions below the floor are no longer available; their files go after a wait."""

    table: SecurableId
    ref: str = MAIN
    version: int


class DropVersions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="drop_versions"):
    """The records of versions go, from first to last; their numbers are never given out again.

    `last` is not above the head as the changes before this one leave it. Files are not touched.
    """

    table: SecurableId
    ref: str = MAIN
    first: int
    last: int


class DropLine(msgspec.Struct, frozen=True, kw_only=True, tag="drop_line"):
    """A branch ends with all its versions; one of the same name would be another."""

    table: SecurableId
    ref: str


class JobState(StrEnum):
    """Where a job stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class FinishJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="finish_job"):
    job: JobId
    state: JobState
    result: dict[str, Any] | None = None
    error: str | None = None


Change = (
    Create | Update | Rename | Drop | Undrop | Purge | Erase | Commit | RaiseFloor | DropVersions | DropLine | FinishJob
)


class NewJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work for a worker, written by the entry that causes it.

    While a job with the same `dedupe` is open, a second one is not made.
    """

    id: JobId
    kind: str
    subject: SecurableId | None = None
    dedupe: str | None = None
    args: dict[str, Any] = {}
    attempts: int = 5
    delay_ms: int = 0


# --- what comes back -------------------------------------------------------------------------


class Done(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="done"):
    """What a success is remembered by: enough to render its answer again, and no secrets."""

    ids: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    """The properties that were to go and were not there."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refused"):
    """A final refusal, remembered so that a repeated request hears the same."""

    error: str
    message: str
    field: str | None = None
    details: dict[str, Any] = {}


Outcome = Done | Refused


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotency key with the request that it stands for."""

    key: str
    print: str
    """The fingerprint of the request: the same key with another print is refused."""
    lifetime_ms: int


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that travel with a commit but are no part of history: losing them is always safe."""

    table: SecurableId
    ref: str
    version: int
    document: bytes | None = None
    """The table's document at this version, so that a load needs no object store. When it comes, those of versions
    before the last one go: whoever read the head a moment ago still finds the one that belongs to it."""
    staged: bytes | None = None
    """The verified bytes of a commit, kept until they are published."""
    unsynced: bool = False
    """A power cut could still take the file of this version: it waits to be made durable, like one to be published."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed change of the catalog: all of it becomes history, or none of it."""

    id: DraftId
    caller: str
    api: str
    request: str
    expects: tuple[Expect, ...] = ()
    changes: tuple[Change, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    claims: tuple[Claim, ...] = ()
    """Of the caller. One that was used before is answered with its first receipt; of several, none may have been."""
    outcome: Outcome = Done()

    @property
    def makes_history(self) -> bool:
        """A refusal only leaves its receipt: no entry, no sequence number."""
        return bool(self.changes or self.jobs)


class Story(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an entry: what it changed and which jobs it caused."""

    changes: tuple[Change, ...] = ()
    jobs: tuple[NewJob, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A draft that became history."""

    seq: Seq
    at_ms: int
    access_seq: int
    draft: DraftId
    caller: str
    api: str
    request: str
    story: Story


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to a draft. `replayed`: the first answer, given again."""

    seq: Seq | None
    at_ms: int
    outcome: Outcome
    replayed: bool = False


_story_encoder = msgspec.json.Encoder()


def write_story(draft: Draft) -> bytes:
    """The draft as it will stand in the feed, or DraftTooLarge."""
    count = len(draft.changes) + len(draft.jobs)
    if count > MOST_CHANGES:
        raise DraftTooLarge(f"a draft holds at most {MOST_CHANGES} changes and jobs, this one has {count}")
    body = _story_encoder.encode(Story(changes=draft.changes, jobs=draft.jobs))
    attached = sum(len(a.document or b"") + len(a.staged or b"") for a in draft.attachments) if draft.attachments else 0
    if len(body) + attached > LARGEST_DRAFT:
        raise DraftTooLarge(f"a draft holds at most {LARGEST_DRAFT >> 20} MB")
    return body


_read_story = msgspec.json.Decoder(Story)


def read_story(body: bytes | str) -> Story:
    """The changes of an entry, as they were written."""
    return _read_story.decode(body)


def touches_access(change: Change) -> bool:
    """Whether the change may alter what somebody is allowed to do."""
    return isinstance(change, Update) and change.owner is not None
