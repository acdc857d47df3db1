"""A cache of live objects, so that most reads need no statement.

Its owner applies every entry to it, in order. For SQLite, the writer applies each draft before its caller gets the
response. For PostgreSQL, `FeedCache` applies the feed. Absent names are never cached. The contents of a listing are
cached until an object is created in it or removed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from moorage.core.entries import (
    Change,
    Commit,
    Create,
    Drop,
    DropLine,
    DropVersions,
    Erase,
    FinishJob,
    Purge,
    RaiseFloor,
    Rename,
    SetGrants,
    Undrop,
    Update,
)
from moorage.core.history import changed
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.securables import MAIN, SHELF_OF, Doc, Head, Kind, Securable, Shelf
from moorage.ledger.port import Step, Version
from moorage.ledger.rows import encode

_MAX_OBJECTS = 100_000
_MAX_BYTES = 256 * 1024 * 1024
_MAX_FROM_LISTINGS = 20_000
"""Above this size, listings add no objects: reading a whole lake once must not fill the cache."""
_BARE_BYTES, _COLUMN_BYTES = 1_100, 300
"""The measured size of an object with an empty description, and of one column."""

_NameKey = tuple[SecurableId, str, str]
Page = tuple[SecurableId, Shelf, str, int, tuple[Kind, ...]]
"""A page of a listing: parent, shelf, the name key it starts after, limit, and kinds."""
_NO_PAGES: dict[Page, tuple[SecurableId, ...]] = {}


class Memory:
    """Live objects by id, ids by (parent, shelf, name key), the newest versions, and the ids of listing pages."""

    def __init__(self) -> None:
        self._known: dict[SecurableId, Securable] = {}
        self._ids: dict[_NameKey, SecurableId] = {}
        self._newest: dict[SecurableId, Version] = {}
        self._pages: dict[SecurableId, dict[Page, tuple[SecurableId, ...]]] = {}
        self._page_id_count = 0
        self._bytes = 0

    def walk(self, root: SecurableId, steps: Sequence[Step]) -> tuple[Securable, ...]:
        """The chain, as far as it is cached."""
        chain = []
        parent = root
        for step in steps:
            id = self._ids.get((parent, step.shelf, step.key))
            if id is None:
                break
            chain.append(self._known[id])
            parent = id
        return tuple(chain)

    def climb(self, root: SecurableId, id: SecurableId) -> tuple[Securable, ...] | None:
        """An object and its ancestors, all live, or None if one of them is not cached."""
        chain: list[Securable] = []
        while id != root:
            found = self._known.get(id)
            if found is None:
                return None
            chain.append(found)
            id = found.parent
        chain.reverse()
        return tuple(chain)

    def learn(self, chain: Iterable[Securable]) -> None:
        """Cache an object with its head, and its ancestors. The chain must be complete."""
        for securable in chain:
            self._store(securable)

    def add_children(self, children: Sequence[Securable]) -> None:
        """Cache objects that were read with their heads."""
        if len(self._known) + len(children) <= _MAX_FROM_LISTINGS and self._bytes <= _MAX_BYTES:
            for child in children:
                self._store(child)

    def recall(self, ids: Iterable[SecurableId]) -> tuple[Securable, ...] | None:
        """All of these objects, or None if one is not cached."""
        try:
            return tuple([self._known[id] for id in ids])
        except KeyError:
            return None

    def page(self, page: Page) -> tuple[Securable, ...] | None:
        """A page of a listing, or None if it is not cached."""
        ids = self._pages.get(page[0], _NO_PAGES).get(page)
        return None if ids is None else self.recall(ids)

    def add_page(self, page: Page, ids: tuple[SecurableId, ...]) -> None:
        """Cache which objects are on a page of a listing, until one is created in the listing or removed from it."""
        self._page_id_count += len(ids)
        if self._page_id_count > _MAX_OBJECTS:
            self._pages.clear()
            self._page_id_count = len(ids)
        self._pages.setdefault(page[0], {})[page] = ids

    def _forget_pages(self, change: Rename | Drop | Undrop | Purge) -> None:
        """Forget the listings that an object leaves or joins. All of them, if the object is not cached."""
        securable = self._known.get(change.id)
        if securable is None:
            self._pages.clear()
            return
        self._pages.pop(securable.parent, None)
        if isinstance(change, Rename):
            self._pages.pop(change.parent, None)

    def newest(self, id: SecurableId) -> Version | None:
        """The newest version of a table's main line. Most readers that lag behind miss only this one."""
        return self._newest.get(id)

    def add_version(self, version: Version) -> None:
        """Cache a version of a main line if it is the newest of a cached table."""
        table = self._known.get(version.table)
        if table is not None and table.head is not None and table.head.version == version.version:
            self._newest[version.table] = version

    def publish(self, id: SecurableId, version: int, *, claimed: int) -> None:
        """Update the cache for a note on the published version of a table's main line.

        `claimed`: the version up to which clients reported that they published it themselves; -1 for none.
        """
        table = self._known.get(id)
        if table is None:
            return
        head = table.head
        if head is None:
            self.forget(id)
            return
        published = version if head.published is None else max(head.published, version)
        after = replace(head, published=published, client_published=max(head.client_published, claimed))
        self._known[id] = replace(table, head=after)

    def forget(self, id: SecurableId) -> None:
        securable = self._known.pop(id, None)
        self._newest.pop(id, None)
        if securable is not None:
            del self._ids[_name_key_of(securable)]

    def _forget_all(self, ids: Iterable[SecurableId]) -> None:
        for id in ids:
            self.forget(id)

    def follow(self, changes: Iterable[Change], at_ms: int, by: str) -> None:
        """Update the cache for the changes of a draft that became history."""
        known = self._known
        for change in changes:
            match change:
                case Commit(table=id) if id in known:
                    known[id] = replace(known[id], head=_head_after(known[id].head, change))
                    self._newest.pop(id, None)
                case Update(id=id) if id in known:
                    known[id] = changed(known[id], change, at_ms, by)
                    self._make_room(change.doc)
                case SetGrants(id=id) if id in known:
                    known[id] = changed(known[id], change, at_ms, by)
                case Create(parent=parent):
                    self._pages.pop(parent, None)
                case Rename(id=id) | Drop(id=id) | Undrop(id=id) | Purge(id=id):
                    self._forget_pages(change)
                    self.forget(id)
                case RaiseFloor(table=id) | DropVersions(table=id) | DropLine(table=id):
                    self.forget(id)
                case Erase(ids=ids):
                    self._forget_all(ids)
                case Commit() | Update() | SetGrants() | FinishJob():
                    pass  # of an object that is not cached, or of a job
                case _:
                    assert_never(change)

    def _store(self, securable: Securable) -> None:
        if securable.id not in self._known:
            self._make_room(securable.doc)
        self._known[securable.id] = securable
        self._ids[_name_key_of(securable)] = securable.id

    def _make_room(self, doc: Doc) -> None:
        """Clear the cache when it is full. Removed and replaced objects count until then: that is cheap."""
        if len(self._known) > _MAX_OBJECTS or self._bytes > _MAX_BYTES:
            self._known.clear()
            self._ids.clear()
            self._newest.clear()
            self._pages.clear()
            self._bytes = 0
        self._bytes += _size_of(doc)


def _size_of(doc: Doc) -> int:
    """The approximate size of an object in bytes."""
    size = _BARE_BYTES + sum(map(len, doc.properties.values()))
    if doc.table is not None:
        for column in doc.table.columns:
            size += _COLUMN_BYTES + len(column.type_json or "") + len(column.comment or "")
    return size + len(encode(doc.details)) if doc.details else size


def _name_key_of(securable: Securable) -> _NameKey:
    return securable.parent, SHELF_OF[securable.kind], name_key(securable.name)


def _head_after(before: Head | None, commit: Commit) -> Head | None:
    if commit.ref != MAIN:
        return before
    return Head(
        ref=MAIN,
        version=commit.version,
        timestamp_ms=commit.timestamp_ms,
        row_id_mark=commit.row_id_mark if commit.row_id_mark is not None or before is None else before.row_id_mark,
        floor=before.floor if before else 0,
        published=before.published if before else None,
        client_published=before.client_published if before else -1,
    )
