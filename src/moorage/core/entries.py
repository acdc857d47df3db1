"""The data types of the ledger: what a draft expects, what it changes, and what the ledger returns.

Everything here is data. An entry is a draft that became history. The entries are the feed:
applying their changes in order rebuilds the catalog.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from moorage.core.errors import DraftTooLarge
from moorage.core.ids import DraftId, Fence, JobId, SecurableId, Seq
from moorage.core.securables import MAIN, Doc, Grants, Kind, Shelf

MAX_CHANGES = 1_000
MAX_DRAFT_BYTES = 16 * 1024 * 1024

# --- what a draft expects --------------------------------------------------------------------


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
    """The object has no live children. Staging tables do not count: no listing shows them, and they expire."""

    id: SecurableId


class NameFree(msgspec.Struct, frozen=True, tag="name"):
    """No live object has the name, except objects whose name this draft releases."""

    parent: SecurableId
    shelf: Shelf
    key: str


class LocationFree(msgspec.Struct, frozen=True, tag="place"):
    """No object holds this location, one that contains it, or one inside it. Paths end with a slash.

    `by`: locations that this object holds count as free. `anew`: the caller wants the location for new files, so
    files there whose purge was requested may be deleted early. Otherwise those files may be what the caller wants.
    """

    path: str
    by: SecurableId | None = None
    anew: bool = False


class AccessIs(msgspec.Struct, frozen=True, tag="access"):
    """No access right has changed since the caller was authorised."""

    seq: int


class JobHeld(msgspec.Struct, frozen=True, tag="job"):
    """The job is open, and its newest lease carries this fence. None accepts any holder."""

    job: JobId
    fence: Fence | None


class JobFree(msgspec.Struct, frozen=True, tag="job_free"):
    """No open job has this `dedupe` key."""

    dedupe: str


class FloorAtMost(msgspec.Struct, frozen=True, tag="floor"):
    """This version of the line is still available."""

    table: SecurableId
    ref: str
    version: int


class KeysFree(msgspec.Struct, frozen=True, tag="keys"):
    """None of these idempotency keys was used before.

    No draft states this expectation. A draft with several idempotency keys implies it.
    """

    keys: tuple[str, ...]


# A single idempotency key needs no expectation here: the ledger checks and records it in one step.
Expect = HeadIs | RevisionIs | Live | Empty | NameFree | LocationFree | AccessIs | JobHeld | JobFree | FloorAtMost

# --- what a draft changes --------------------------------------------------------------------


class Create(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="create"):
    id: SecurableId
    kind: Kind
    parent: SecurableId
    name: str
    owner: str
    doc: Doc
    place: str | None = None
    """The storage location that this object holds from now on."""
    lifetime_ms: int | None = None
    """For a staging table: how long it may wait to become a table."""


class Update(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="update"):
    """Replaces the whole description, and the owner if one is given."""

    id: SecurableId
    doc: Doc
    owner: str | None = None
    place: str | None = None
    """A further storage location that the object holds. It keeps the former ones, which may still contain its files."""
    changes_access: bool = False
    """The description of a principal decides what a caller may do: its groups, and whether it is active."""


class SetGrants(msgspec.Struct, frozen=True, kw_only=True, tag="grants"):
    """Replaces all grants on an object. A principal that is not named has none afterwards."""

    id: SecurableId
    grants: Grants


class Rename(msgspec.Struct, frozen=True, kw_only=True, tag="rename"):
    id: SecurableId
    parent: SecurableId
    name: str


class Drop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="drop"):
    """Frees the name and keeps the location. Descendants become unreachable but are not changed."""

    id: SecurableId
    hold_ms: int
    changes_access: bool = False
    """The object is a token: it is refused from now on."""


class Undrop(msgspec.Struct, frozen=True, kw_only=True, tag="undrop"):
    id: SecurableId
    name: str


class Purge(msgspec.Struct, frozen=True, kw_only=True, tag="purge"):
    """Announces that the dropped tree will be erased. It can no longer be undropped."""

    id: SecurableId


class Erase(msgspec.Struct, frozen=True, kw_only=True, tag="erase"):
    """Deletes the last rows of purged objects and frees their locations."""

    ids: tuple[SecurableId, ...]


class Publish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The final location of a commit's bytes (`target`), and where the writer staged them (`source`)."""

    target: str
    source: str


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="commit"):
    """The next version of one line of a table."""

    table: SecurableId
    ref: str = MAIN
    version: int
    operation: str
    """append, change, rewrite or metadata. It decides which upkeep may run concurrently."""
    file: str
    size: int
    digest: str | None = None
    timestamp_ms: int
    row_id_mark: int | None = None
    publish: Publish | None = None
    details: dict[str, Any] = {}


class RaiseFloor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="raise_floor"):
    """Versions below the floor are no longer available. Their files are deleted after a delay."""

    table: SecurableId
    ref: str = MAIN
    version: int


class DropVersions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="drop_versions"):
    """Deletes the records of the versions from first to last. Their numbers are never reused.

    `last` is at most the head after the preceding changes of the draft. Files are not touched.
    """

    table: SecurableId
    ref: str = MAIN
    first: int
    last: int


class DropLine(msgspec.Struct, frozen=True, kw_only=True, tag="drop_line"):
    """Deletes a branch with all its versions. A later branch of the same name is a different one."""

    table: SecurableId
    ref: str


class JobState(StrEnum):
    """The state of a job. The last three are final."""

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
    Create
    | Update
    | SetGrants
    | Rename
    | Drop
    | Undrop
    | Purge
    | Erase
    | Commit
    | RaiseFloor
    | DropVersions
    | DropLine
    | FinishJob
)


class NewJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work for a worker, enqueued by the entry that causes it.

    If a job with the same `dedupe` key is open, no second one is created.
    """

    id: JobId
    kind: str
    subject: SecurableId | None = None
    dedupe: str | None = None
    args: dict[str, Any] = {}
    attempts: int = 5
    delay_ms: int = 0


# --- what the ledger returns -----------------------------------------------------------------


class Done(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="done"):
    """The stored result of a success: enough to render its response again, and no secrets."""

    ids: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    """The properties that the request asked to remove and that did not exist."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refused"):
    """A final refusal, stored so that a retry gets the same response."""

    error: str
    message: str
    field: str | None = None
    details: dict[str, Any] = {}


Outcome = Done | Refused


class IdempotencyKey(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotency key and the request that it is bound to."""

    value: str
    fingerprint: str
    """The fingerprint of the request. The same key with another fingerprint is refused."""
    lifetime_ms: int


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that accompany a commit but are not part of history. Losing them is always safe."""

    table: SecurableId
    ref: str
    version: int
    document: bytes | None = None
    """The table's document at this version, so that a load needs no object store. Storing it deletes the documents
    of all versions but the previous one: a reader that has just read the previous head still finds its document."""
    staged: bytes | None = None
    """The verified bytes of a commit, kept until they are published."""
    unsynced: bool = False
    """The file of this version is not durable yet. It is queued for that, like a file to be published."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed change of the catalog. All of it becomes history, or none of it."""

    id: DraftId
    caller: str
    api: str
    request: str
    expects: tuple[Expect, ...] = ()
    changes: tuple[Change, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    keys: tuple[IdempotencyKey, ...] = ()
    """The caller's idempotency keys. A single key that was used before returns its first receipt. If there are several,
    all of them must be unused."""
    outcome: Outcome = Done()

    @property
    def makes_history(self) -> bool:
        """Whether the draft becomes an entry. A refusal stores only a receipt: no entry, no sequence number."""
        return bool(self.changes or self.jobs)


class EntryBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an entry: its changes, and the jobs it enqueued."""

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
    body: EntryBody = msgspec.field(name="story")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's response to a draft. `replayed`: the original response, returned again."""

    seq: Seq | None
    at_ms: int
    outcome: Outcome
    replayed: bool = False


_body_encoder = msgspec.json.Encoder()


def encode_body(draft: Draft) -> bytes:
    """Encode the draft as an entry body for the feed, or raise DraftTooLarge."""
    count = len(draft.changes) + len(draft.jobs)
    if count > MAX_CHANGES:
        raise DraftTooLarge(f"a draft has at most {MAX_CHANGES} changes and jobs, this one has {count}: split it")
    body = _body_encoder.encode(EntryBody(changes=draft.changes, jobs=draft.jobs))
    size = len(body)
    for attachment in draft.attachments:
        size += len(attachment.document or b"") + len(attachment.staged or b"")
    if size > MAX_DRAFT_BYTES:
        raise DraftTooLarge(f"a draft has at most {MAX_DRAFT_BYTES >> 20} MB: split it")
    return body


_body_decoder = msgspec.json.Decoder(EntryBody)


def decode_body(body: bytes | str) -> EntryBody:
    """Decode the body of an entry."""
    return _body_decoder.decode(body)


def may_change_access(change: Change) -> bool:
    """Whether the change may alter the access rights of a principal."""
    match change:
        case Update(owner=owner, changes_access=marked):
            return marked or owner is not None
        case Drop(changes_access=marked):
            return marked
        case SetGrants():
            return True
    return False
