"""Converts drafts to the arguments of append_v1 or append_v2: a list of rows for each kind of expectation and change.

Several changes of one draft to the same row are merged, because a set-based statement updates a row
only once. The tuples match the types of 0002_append_v1.sql, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from moorage.core.entries import (
    AccessIs,
    Commit,
    Create,
    Draft,
    Drop,
    DropLine,
    DropVersions,
    Empty,
    Erase,
    FinishJob,
    FloorAtMost,
    HeadIs,
    JobFree,
    JobHeld,
    Live,
    LocationFree,
    NameFree,
    Purge,
    RaiseFloor,
    Rename,
    RevisionIs,
    SetGrants,
    Undrop,
    Update,
    may_change_access,
)
from moorage.core.ids import JobId, SecurableId
from moorage.core.locations import enclosing_locations, range_inside
from moorage.core.names import name_key
from moorage.core.securables import SHELF_OF, Kind
from moorage.ledger.rows import encode

PARTS: Final = (
    "head_is", "live", "revision_is", "is_empty", "name_free", "releases", "place_free", "access_is", "job_held",
    "job_free", "floor_at_most", "undropped", "erased", "parked", "changed", "created", "places", "ended", "raised",
    "commits", "to_publish", "documents", "dropped", "finished", "jobs",
)  # fmt: skip
"""The parameters of append_v1 after the drafts and their idempotency keys, in order. append_v2 has GRANTED too."""

GRANTED: Final = "granted"

APPEND: Final = f"select * from append_v1({', '.join(f'${n + 1}' for n in range(5 + len(PARTS)))})"
APPEND_GRANTS: Final = f"select * from append_v2({', '.join(f'${n + 1}' for n in range(6 + len(PARTS)))})"

Rows = list[tuple[Any, ...]]


class Written(NamedTuple):
    """A draft and its encoded body for the feed."""

    draft: Draft
    body: bytes


def call(batch: Sequence[Written], given_ms: int | None, *, again: bool) -> list[Any]:
    """The statement that appends a batch, and its arguments. An empty part is null: the function skips it.

    `again`: an earlier call may already have appended the drafts.
    """
    parts: dict[str, Rows] = {part: [] for part in (*PARTS, GRANTED)}
    drafts: Rows = []
    keys: Rows = []
    access_by = None
    for i, (draft, body) in enumerate(batch, 1):
        drafts.append((i, draft.id, draft.caller, draft.api, draft.request, body, draft.makes_history))
        for key in draft.keys:
            keys.append((i, draft.caller, key.value, key.fingerprint, encode(draft.outcome), key.lifetime_ms))
        for nth, expect in enumerate(draft.expects):
            part, row = _EXPECTATION_ROWS[type(expect)]
            parts[part].append((i, nth, *row(expect)))
        for nth, change in enumerate(draft.changes, len(draft.expects)):
            if isinstance(change, Undrop):
                parts["undropped"].append((i, nth, change.id))
        if draft.makes_history:
            effects = _Effects(i, draft)
            effects.write(parts)
            if effects.may_change_access:
                access_by = i
    granted = parts.pop(GRANTED)
    args = [given_ms, drafts, again, access_by, keys or None, *(rows or None for rows in parts.values())]
    return [APPEND_GRANTS, *args, granted] if granted else [APPEND, *args]


_EXPECTATION_ROWS: dict[type[Any], tuple[str, Callable[[Any], tuple[Any, ...]]]] = {
    HeadIs: ("head_is", lambda e: (e.table, e.ref, e.version)),
    Live: ("live", lambda e: (e.id,)),
    RevisionIs: ("revision_is", lambda e: (e.id, e.revision)),
    Empty: ("is_empty", lambda e: (e.id,)),
    NameFree: ("name_free", lambda e: (e.parent, e.shelf.value, e.key)),
    LocationFree: ("place_free", lambda e: (enclosing_locations(e.path), *range_inside(e.path), e.by)),
    AccessIs: ("access_is", lambda e: (e.seq,)),
    JobHeld: ("job_held", lambda e: (e.job, e.fence)),
    JobFree: ("job_free", lambda e: (e.dedupe,)),
    FloorAtMost: ("floor_at_most", lambda e: (e.table, e.ref, e.version)),
}


class _Object:
    """The combined changes of one draft to one object. None keeps the stored value."""

    __slots__ = (
        "by", "doc", "fate", "grows", "hold_ms", "key", "kind", "lifetime_ms", "name", "owner", "parent", "purged",
    )  # fmt: skip

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.parent: SecurableId | None = None
        self.name: str | None = None
        self.key: str | None = None
        self.owner: str | None = None
        self.doc: bytes | None = None
        self.lifetime_ms: int | None = None
        self.grows = 0
        self.by: str | None = None
        self.fate: str | None = None
        self.hold_ms: int | None = None
        self.purged = False

    def row(self, i: int, id: SecurableId) -> tuple[Any, ...]:
        shelf = None if self.kind is None else SHELF_OF[self.kind].value
        return (
            i, id, self.kind, shelf, self.parent, self.name, self.key, self.owner, self.doc,
            self.lifetime_ms, self.grows, self.by, self.fate, self.hold_ms, self.purged,
        )  # fmt: skip


class _Line:
    """The combined changes of one draft to one line of a table that it commits to."""

    __slots__ = ("commits", "floor", "row_id_mark")

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.row_id_mark: int | None = None
        self.floor = 0


class _Effects:
    """The net effect of one draft's changes, applied in order."""

    def __init__(self, i: int, draft: Draft) -> None:
        self._i = i
        self._draft = draft
        self._objects: dict[SecurableId, _Object] = {}
        self._places: set[tuple[str, SecurableId]] = set()
        self._granted: dict[SecurableId, bytes | None] = {}
        self._erased: set[SecurableId] = set()
        self._lines: dict[tuple[SecurableId, str], _Line] = {}
        self._raised: dict[tuple[SecurableId, str], int] = {}
        self._dropped: list[DropVersions] = []
        self._ended: set[tuple[SecurableId, str]] = set()
        self._finished: dict[JobId, FinishJob] = {}
        self.may_change_access = False
        for change in draft.changes:
            _HANDLERS[type(change)](self, change)

    def write(self, parts: dict[str, Rows]) -> None:
        if self._objects or self._erased:
            self._write_objects(parts)
        if self._lines or self._draft.attachments:
            self._write_lines(parts)
        i = self._i
        for (table, ref), floor in self._raised.items():
            parts["raised"].append((i, 0, table, ref, floor))
        parts["ended"] += [(i, *line) for line in self._ended]
        # Deleted last: no dropped version was above the head at that point, so no later commit is affected.
        parts["dropped"] += [(i, d.table, d.ref, d.first, d.last) for d in self._dropped]
        for end in self._finished.values():
            result = None if end.result is None else encode(end.result)
            parts["finished"].append((i, end.job, end.state.value, result, end.error))
        for job in self._draft.jobs:
            parts["jobs"].append(
                (i, job.id, job.kind, job.subject, job.dedupe, encode(job.args), job.attempts, job.delay_ms)
            )

    def _write_objects(self, parts: dict[str, Rows]) -> None:
        i = self._i
        for id, found in self._objects.items():
            parts["changed" if found.kind is None else "created"].append(found.row(i, id))
        parts[GRANTED] += [(i, id, grants) for id, grants in self._granted.items()]
        parts["places"] += [(i, path, id) for path, id in self._places]
        parts["erased"] += [(i, id) for id in self._erased]
        # Only objects that existed before have a name to release. A new one is inserted with its final name.
        freed = {c.id for c in self._draft.changes if isinstance(c, Drop | Rename)}
        parts["releases"] += [(i, id) for id in freed]
        if len(self._draft.changes) > 1:
            parts["parked"] += [(i, id) for id in freed if id in self._objects and self._objects[id].kind is None]

    def _write_lines(self, parts: dict[str, Rows]) -> None:
        i = self._i
        attached = {(a.table, a.ref, a.version): a for a in self._draft.attachments}
        for line in self._lines.values():
            for c in line.commits:
                row = (
                    i, c.table, c.ref, c.version, c.timestamp_ms, c.operation, c.file, c.size, c.digest,
                    c.publish and c.publish.target, c.publish and c.publish.source, encode(c.details),
                    c is line.commits[-1], line.row_id_mark, line.floor,
                )  # fmt: skip
                parts["commits"].append(row)
                bytes_ = attached.get((c.table, c.ref, c.version))
                if c.publish is not None or (bytes_ is not None and bytes_.unsynced):
                    parts["to_publish"].append((i, c.table, c.ref, c.version, bytes_ and bytes_.staged))
        parts["documents"] += [(i, *key, a.document) for key, a in attached.items() if a.document is not None]

    # --- one method for each kind of change ----------------------------------------------------

    def _create(self, change: Create) -> None:
        made = self._objects[change.id] = _Object()
        made.kind, made.owner, made.lifetime_ms = change.kind, change.owner, change.lifetime_ms
        made.parent, made.name, made.key = change.parent, change.name, name_key(change.name)
        made.doc, made.grows, made.by = encode(change.doc), 1, self._draft.caller
        if change.place is not None:
            self._places.add((change.place, change.id))

    def _revised(self, id: SecurableId) -> _Object:
        found = self._objects.setdefault(id, _Object())
        found.grows += 1
        found.by = self._draft.caller
        return found

    def _update(self, change: Update) -> None:
        found = self._revised(change.id)
        found.doc = encode(change.doc)
        found.owner = found.owner if change.owner is None else change.owner
        self.may_change_access |= may_change_access(change)
        if change.place is not None:
            self._places.add((change.place, change.id))

    def _set_grants(self, change: SetGrants) -> None:
        self._revised(change.id)
        self._granted[change.id] = encode(change.grants) if change.grants else None
        self.may_change_access = True

    def _rename(self, change: Rename) -> None:
        found = self._revised(change.id)
        found.parent, found.name, found.key = change.parent, change.name, name_key(change.name)

    def _drop(self, change: Drop) -> None:
        found = self._revised(change.id)
        found.fate, found.hold_ms = "dropped", change.hold_ms
        self.may_change_access |= may_change_access(change)

    def _undrop(self, change: Undrop) -> None:
        found = self._revised(change.id)
        found.fate, found.name, found.key = "live", change.name, name_key(change.name)

    def _purge(self, change: Purge) -> None:
        found = self._objects.setdefault(change.id, _Object())
        found.grows += 1
        found.purged = True

    def _erase(self, change: Erase) -> None:
        erased = set(change.ids)
        for id in erased:
            self._objects.pop(id, None)
        self._places = {(path, id) for path, id in self._places if id not in erased}
        self._lines = {key: line for key, line in self._lines.items() if key[0] not in erased}
        self._erased |= erased

    def _commit(self, change: Commit) -> None:
        line = self._lines.setdefault((change.table, change.ref), _Line())
        line.commits.append(change)
        line.row_id_mark = line.row_id_mark if change.row_id_mark is None else change.row_id_mark

    def _raise_floor(self, change: RaiseFloor) -> None:
        key = (change.table, change.ref)
        if (line := self._lines.get(key)) is not None:
            line.floor = max(line.floor, change.version)
        else:
            self._raised[key] = max(self._raised.get(key, 0), change.version)

    def _drop_versions(self, change: DropVersions) -> None:
        self._dropped.append(change)

    def _drop_line(self, change: DropLine) -> None:
        key = (change.table, change.ref)
        self._lines.pop(key, None)
        self._raised.pop(key, None)
        self._dropped = [each for each in self._dropped if (each.table, each.ref) != key]
        self._ended.add(key)

    def _finish(self, change: FinishJob) -> None:
        self._finished[change.job] = change


_HANDLERS: dict[type[Any], Callable[[_Effects, Any], None]] = {
    Create: _Effects._create,
    Update: _Effects._update,
    SetGrants: _Effects._set_grants,
    Rename: _Effects._rename,
    Drop: _Effects._drop,
    Undrop: _Effects._undrop,
    Purge: _Effects._purge,
    Erase: _Effects._erase,
    Commit: _Effects._commit,
    RaiseFloor: _Effects._raise_floor,
    DropVersions: _Effects._drop_versions,
    DropLine: _Effects._drop_line,
    FinishJob: _Effects._finish,
}
