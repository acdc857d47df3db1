"""A reference model of the ledger in plain dictionaries: it applies drafts one by one, without files and locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from msgspec.structs import replace

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
    Expect,
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
    Receipt,
    Rename,
    RevisionIs,
    SetGrants,
    Undrop,
    Update,
    may_change_access,
)
from moorage.core.errors import AlreadyPurged, KeyReused
from moorage.core.ids import DraftId, SecurableId, Seq
from moorage.core.names import name_key
from moorage.core.securables import MAIN, NO_PARENT, SHELF_OF, Head, Kind, Securable, Shelf
from moorage.ledger.port import Stale, keys_used_error

Line = tuple[SecurableId, str]


class Model:
    """The state of a ledger, and the effect of a draft on it."""

    def __init__(self) -> None:
        self.history: list[Draft] = []
        self.receipts: dict[DraftId, Receipt] = {}
        self.keys: dict[tuple[str, str], tuple[str, Receipt, int]] = {}
        self.objects: dict[SecurableId, Securable] = {}
        self.locations: dict[str, SecurableId] = {}
        self.lines: dict[Line, Head] = {}
        self.versions: dict[Line, list[int]] = {}
        self.at_ms = 0
        self.access_seq = 0
        self._access_by: DraftId | None = None

    def append(self, draft: Draft, clock_ms: int) -> Receipt:
        """Return the receipt that the store must return, or raise the error that it must raise."""
        now_ms = self.now_ms(clock_ms)
        if (first := self._first_receipt(draft, clock_ms)) is not None:
            return replace(first, replayed=True)
        for expect in draft.expects:
            self._require(expect, draft)
        if any(isinstance(change, Undrop) and self.objects[change.id].purged for change in draft.changes):
            raise AlreadyPurged("the model's")
        seq = None
        if draft.makes_history:
            seq = Seq(len(self.history) + 1)
            self._apply(draft, seq, now_ms)
        receipt = Receipt(seq=seq, at_ms=now_ms, outcome=draft.outcome)
        if draft.makes_history:
            self.receipts[draft.id] = receipt
        for key in draft.keys:
            self.keys[draft.caller, key.value] = (key.fingerprint, receipt, now_ms + key.lifetime_ms)
        return receipt

    def _first_receipt(self, draft: Draft, clock_ms: int) -> Receipt | None:
        """Return the receipt of a draft that was sent before, or of its idempotency key if that was used before."""
        if draft.id in self.receipts:
            return self.receipts[draft.id]
        for key in draft.keys:
            if (first := self.receipt(draft.caller, key.value, clock_ms)) is None:
                continue
            if len(draft.keys) > 1:
                raise keys_used_error(draft)
            if first[0] != key.fingerprint:
                raise KeyReused("the model's")
            return first[1]
        return None

    def renumber(self, draft: Draft, receipt: Receipt) -> None:
        """Take over the sequence number of the store, which may order concurrent drafts differently."""
        if draft.makes_history:
            self.receipts[draft.id] = receipt
        for key in draft.keys:
            fingerprint, _, until = self.keys[draft.caller, key.value]
            self.keys[draft.caller, key.value] = (fingerprint, receipt, until)
        if self._access_by == draft.id and receipt.seq is not None:
            self.access_seq = receipt.seq

    def now_ms(self, clock_ms: int) -> int:
        return max(self.at_ms, clock_ms)

    def receipt(self, caller: str, key: str, clock_ms: int) -> tuple[str, Receipt] | None:
        fingerprint, receipt, until = self.keys.get((caller, key), ("", None, -1))
        return None if receipt is None or until < self.now_ms(clock_ms) else (fingerprint, receipt)

    # --- reads ---------------------------------------------------------------------------------

    def is_live(self, id: SecurableId) -> bool:
        found = self.objects.get(id)
        if found is None or not found.is_live:
            return False
        return found.parent == NO_PARENT or self.is_live(found.parent)

    def children(self, parent: SecurableId, shelf: Shelf | None = None) -> Iterator[Securable]:
        """Yield the children of any kind, live or dropped, in the order of their name keys."""
        for found in sorted(self.objects.values(), key=lambda one: name_key(one.name)):
            if found.parent == parent and shelf in (None, SHELF_OF[found.kind]):
                yield self.with_head(found)

    def with_head(self, found: Securable) -> Securable:
        return replace(found, head=self.lines.get((found.id, MAIN)))

    def of_kind(self, *kinds: Kind) -> list[Securable]:
        return [self.with_head(found) for found in self.objects.values() if found.kind in kinds]

    def path(self, id: SecurableId) -> list[Securable]:
        """Return the ancestors of the object, without the metastore, and the object."""
        found = self.objects[id]
        above = [] if found.parent == NO_PARENT else self.path(found.parent)
        return above if found.kind is Kind.METASTORE else [*above, found]

    # --- expectations --------------------------------------------------------------------------

    def _require(self, expect: Expect, draft: Draft) -> None:
        for holds, actual in self._evaluate(expect, draft):
            if not holds:
                raise Stale(expect, actual)

    def _evaluate(self, expect: Expect, draft: Draft) -> Iterator[tuple[bool, Any]]:
        match expect:
            case HeadIs() | FloorAtMost():
                yield self._evaluate_line(expect)
            case RevisionIs(id, revision):
                actual = self.objects[id].revision if id in self.objects else None
                yield actual == revision, actual
            case Live(id):
                yield self.is_live(id), None
            case Empty(id):
                yield from (
                    (False, child.id)
                    for child in self.children(id)
                    if child.is_live and child.kind is not Kind.STAGING_TABLE
                )
            case NameFree(parent, shelf, key):
                released = {change.id for change in draft.changes if isinstance(change, Drop | Rename)}
                for holder in self.children(parent, shelf):
                    yield not holder.is_live or name_key(holder.name) != key or holder.id in released, holder.id
            case LocationFree(path, by):
                yield from (
                    (holder_id == by or not (held.startswith(path) or path.startswith(held)), holder_id)
                    for held, holder_id in self.locations.items()
                )
            case AccessIs(seq):
                yield seq == self.access_seq, self.access_seq
            case JobHeld() | JobFree():
                pass  # the model has no jobs
            case _:
                assert_never(expect)

    def _evaluate_line(self, expect: HeadIs | FloorAtMost) -> tuple[bool, Any]:
        head = self.lines.get((expect.table, expect.ref))
        if isinstance(expect, FloorAtMost):
            return head is not None and head.floor <= expect.version, head and head.floor
        actual = head and head.version
        return actual == expect.version and self.is_live(expect.table), actual

    # --- changes -------------------------------------------------------------------------------

    def _apply(self, draft: Draft, seq: Seq, now_ms: int) -> None:
        self.history.append(draft)
        self.at_ms = now_ms
        for change in draft.changes:
            match change:
                case Create():
                    self._create(change, now_ms, draft.caller)
                case Update() | SetGrants() | Rename() | Drop() | Undrop() | Purge():
                    self._change(change, now_ms, draft.caller)
                    if may_change_access(change):
                        self.access_seq, self._access_by = seq, draft.id
                case Erase(ids=ids):
                    for id in ids:
                        self._erase(id)
                case Commit():
                    self._commit(change)
                case RaiseFloor() | DropVersions() | DropLine():
                    self._change_line(change)
                case FinishJob():
                    pass
                case _:
                    assert_never(change)

    def _change_line(self, change: RaiseFloor | DropVersions | DropLine) -> None:
        line = (change.table, change.ref)
        match change:
            case RaiseFloor(version=version):
                self.lines[line] = replace(self.lines[line], floor=max(self.lines[line].floor, version))
            case DropVersions(first=first, last=last):
                self.versions[line] = [number for number in self.versions[line] if not first <= number <= last]
            case DropLine():
                del self.lines[line], self.versions[line]
            case _:
                assert_never(change)

    def _create(self, change: Create, now_ms: int, by: str) -> None:
        self.objects[change.id] = Securable(
            id=change.id,
            kind=change.kind,
            parent=change.parent,
            name=change.name,
            owner=change.owner,
            revision=1,
            created_at_ms=now_ms,
            created_by=by,
            updated_at_ms=now_ms,
            updated_by=by,
            expires_at_ms=None if change.lifetime_ms is None else now_ms + change.lifetime_ms,
            doc=change.doc,
        )
        if change.place is not None:
            self.locations[change.place] = change.id

    def _change(self, change: Update | SetGrants | Rename | Drop | Undrop | Purge, now_ms: int, by: str) -> None:
        found = self.objects[change.id]
        new: dict[str, Any] = {"revision": found.revision + 1, "updated_at_ms": now_ms, "updated_by": by}
        match change:
            case Update(doc=doc, owner=owner, place=place):
                new |= {"doc": doc, "owner": owner or found.owner}
                if place is not None:
                    self.locations[place] = change.id
            case SetGrants(grants=grants):
                new |= {"grants": grants}
            case Rename(parent=parent, name=name):
                new |= {"parent": parent, "name": name}
            case Drop(hold_ms=hold_ms):
                new |= {"dropped_at_ms": now_ms, "purge_at_ms": now_ms + hold_ms}
            case Undrop(name=name):
                new |= {"dropped_at_ms": None, "purge_at_ms": None, "name": name}
            case Purge():
                new = {"revision": found.revision + 1, "purged": True}
            case _:
                assert_never(change)
        self.objects[change.id] = replace(found, **new)

    def _erase(self, id: SecurableId) -> None:
        self.objects.pop(id, None)
        self.locations = {path: holder for path, holder in self.locations.items() if holder != id}
        self.lines = {line: head for line, head in self.lines.items() if line[0] != id}
        self.versions = {line: numbers for line, numbers in self.versions.items() if line[0] != id}

    def _commit(self, change: Commit) -> None:
        line = (change.table, change.ref)
        before = self.lines.get(line)
        row_id_mark = change.row_id_mark
        self.lines[line] = Head(
            ref=change.ref,
            version=change.version,
            timestamp_ms=change.timestamp_ms,
            row_id_mark=row_id_mark if row_id_mark is not None or before is None else before.row_id_mark,
            floor=before.floor if before else 0,
            published=before.published if before else None,
            client_published=before.client_published if before else -1,
        )
        self.versions.setdefault(line, []).append(change.version)
