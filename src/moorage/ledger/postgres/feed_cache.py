"""The cache of live objects of one server, kept equal to the feed that all servers write.

Entries become visible in the order of their sequence numbers, because appends take one lock. A cache that has applied
every entry up to the last one therefore equals the database. One short statement reads the entries after the last
applied one, and concurrent reads share it. The server's own entries are applied when they are written.

Notes on published versions have no entry. This server's own notes are applied at once, those of other servers when they
are read again. Losing a note is safe, so seeing it late is safe too.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final, assert_never

import msgspec

from moorage.core.entries import (
    Change,
    Commit,
    Create,
    Draft,
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
    decode_body,
    may_change_access,
)
from moorage.core.ids import SecurableId, Seq
from moorage.core.securables import Head, Securable
from moorage.ledger.cache import Memory, Page
from moorage.ledger.port import Found, Listing, Position, Step
from moorage.ledger.postgres import queries
from moorage.ledger.postgres.lookups import SharedLookups

_NOTES_MS: Final = 100
_NOTES_SHARE: Final = 0.1
"""Notes on a table are read again after this share of the time since its last commit, but not before `_NOTES_MS`."""
_MAX_TRACKED: Final = 10_000

Chain = tuple[Securable, ...]


class FeedCache:
    """Live objects as of one position of the ledger. `fetch` runs a statement."""

    def __init__(self, fetch: Callable[..., Awaitable[list[Any]]]) -> None:
        self._fetch = fetch
        self._refreshes = SharedLookups(self._refresh_for, in_flight=1)
        self._changes = _RecentChanges(Seq(0))
        self._memory = Memory()
        self._position = Position(Seq(0), 0, 0)
        self._last_draft = ""
        self._is_quiet = False
        """No other server appended before the last refresh. Then it is cheaper to ask only for the last entry first."""
        self._notes_read_at: dict[SecurableId, float] = {}

    # --- reads: None if the objects are not cached ----------------------------------------------

    async def walk(self, root: SecurableId, steps: Sequence[Step], since: Seq | None = None) -> Found | None:
        def look() -> Chain | None:
            found = self._memory.walk(root, steps)
            return found if len(found) == len(steps) else None

        if since is not None and since <= self._position.seq:
            found = look()
            if found is not None and not self._with_old_notes(found):
                return Found(self._position, found)
        found = await self._recall(look)
        return None if found is None else Found(self._position, found)

    async def climb(self, root: SecurableId, id: SecurableId) -> Found | None:
        found = await self._recall(lambda: self._memory.climb(root, id))
        return None if found is None else Found(self._position, found)

    async def page(self, page: Page, since: Seq | None) -> Listing | None:
        if since is not None and since <= self._position.seq:
            found = self._memory.page(page)
        else:
            found = await self._recall(lambda: self._memory.page(page))
        return None if found is None else Listing(self._position, found)

    async def _recall(self, look: Callable[[], Chain | None]) -> Chain | None:
        """What `look` finds, after all entries that were acknowledged before this call have been applied."""
        if (cached := look()) is None:
            return None
        await self._refreshes.answer(self._with_old_notes(cached))
        return look()

    def _with_old_notes(self, cached: Chain) -> tuple[SecurableId, ...]:
        """The tables of which another server may have published a version since their notes were read."""
        now_ms = time.time() * 1000
        return tuple(
            [one.id for one in cached if one.head is not None and self._has_old_notes(one.id, one.head, now_ms)]
        )

    def _has_old_notes(self, id: SecurableId, head: Head, now_ms: float) -> bool:
        if head.published == head.version:
            return False
        age_ms = max(_NOTES_MS, _NOTES_SHARE * (now_ms - head.timestamp_ms))
        return self._notes_read_at.get(id, 0.0) + age_ms < now_ms

    # --- results of statements ------------------------------------------------------------------

    async def learn(self, found: Found) -> None:
        """Cache a chain that a statement read."""
        if found.chain and await self._is_current(found.position, found.chain):
            self._memory.learn(found.chain)

    async def learn_page(self, page: Page, listing: Listing) -> None:
        """Cache a page of a listing that a statement read."""
        if not await self._is_current(listing.position, listing.items):
            return
        self._memory.add_children(listing.items)
        ids = tuple([item.id for item in listing.items])
        if self._changes.are_listed_since(page[0], listing.position.seq) and self._memory.recall(ids) is not None:
            self._memory.add_page(page, ids)

    async def _is_current(self, position: Position, found: Chain) -> bool:
        """Whether objects that were read at a position are live and have not changed since."""
        if position.seq > self._position.seq:
            await self._refreshes.answer(())
        for one in found:  # this server may have published a version since the statement ran
            self._notes_read_at.pop(one.id, None)
        is_known = self._changes.since <= position.seq <= self._position.seq
        unchanged = self._changes.are_unchanged_since
        return is_known and unchanged(found, position.seq) and all(one.is_live for one in found)

    # --- the feed -------------------------------------------------------------------------------

    def follow(self, drafts: Sequence[Draft], seqs: Sequence[int], at_ms: int) -> None:
        """Apply the drafts of this server that became history, unless another server appended before them."""
        for draft, seq in zip(drafts, seqs, strict=True):
            if seq == self._position.seq + 1:
                has_access = any(map(may_change_access, draft.changes))
                position = Position(Seq(seq), at_ms, seq if has_access else self._position.access_seq)
                self._apply(position, draft.id, draft.caller, draft.changes)

    def publish(self, table: SecurableId, version: int, *, by_client: bool) -> None:
        """Apply a note of this server on the published version of a main line."""
        self._memory.publish(table, version, claimed=version if by_client else -1)

    async def _refresh_for(self, asked: Sequence[tuple[SecurableId, ...]]) -> list[None]:
        await self._refresh(list({*chain.from_iterable(asked)}))
        return [None] * len(asked)

    async def _refresh(self, ids: list[SecurableId]) -> None:
        after, last_draft = self._position.seq, self._last_draft
        if self._is_quiet and not ids:
            found = await self._fetch(queries.LAST_ENTRY)
            if (found[0][0], found[0][3]) == (after, last_draft):
                return
        if ids:
            found = await self._fetch(queries.CHANGES_AND_NOTES_SINCE, after, ids)
            entries, notes = [row for row in found if row[4] is not None], [row for row in found if row[4] is None]
        else:
            entries, notes = await self._fetch(queries.CHANGES_SINCE, after), []
        # The last applied entry is not there, or another one is, if the database was restored or a failover lost it.
        is_known = bool(entries) and (entries[0][0], entries[0][3]) == (after, last_draft)
        if not is_known or len(entries) == queries.MAX_CHANGES:
            await self._start_over()
            return
        self._is_quiet = len(entries) == 1
        for seq, at_ms, access_seq, draft, caller, body in entries[1:]:
            if seq > self._position.seq:  # not applied by `follow` in the meantime
                changes = _changes_in(body)
                if changes is None:
                    await self._start_over()
                    return
                self._apply(Position(seq, at_ms, access_seq), draft, caller, changes)
        for version, claimed, _, id, *_ in notes:
            self._memory.publish(id, version, claimed=claimed)
        if len(self._notes_read_at) > _MAX_TRACKED:
            self._notes_read_at.clear()
        self._notes_read_at.update(dict.fromkeys(ids, time.time() * 1000))

    def _apply(self, position: Position, draft: str, caller: str, changes: Sequence[Change]) -> None:
        self._memory.follow(changes, position.at_ms, caller)
        self._changes.follow(changes, position.seq)
        self._position, self._last_draft = position, draft

    async def _start_over(self) -> None:
        """Clear the cache and continue from the last entry."""
        found = await self._fetch(queries.LAST_ENTRY)
        self._memory = Memory()
        self._notes_read_at.clear()
        *position, self._last_draft = found[0]
        self._position = Position(*position)
        self._changes = _RecentChanges(self._position.seq)


class _RecentChanges:
    """When objects and listings last changed. A statement may return what has changed since it ran."""

    def __init__(self, since: int) -> None:
        self.since = since
        """Changes up to this sequence number are not known."""
        self._changed: dict[SecurableId, int] = {}
        self._grown: dict[SecurableId, int] = {}
        self._removed_at = 0

    def are_unchanged_since(self, objects: Iterable[Securable], seq: int) -> bool:
        return all(self._changed.get(one.id, 0) <= seq for one in objects)

    def are_listed_since(self, parent: SecurableId, seq: int) -> bool:
        """Whether the listings below a parent have the same objects as then."""
        return self._removed_at <= seq and self._grown.get(parent, 0) <= seq

    def follow(self, changes: Sequence[Change], seq: int) -> None:
        if len(self._changed) + len(self._grown) > _MAX_TRACKED:
            self._changed.clear()
            self._grown.clear()
            self.since = seq
        for change in changes:
            match change:
                case Commit(table=id) | Update(id=id) | SetGrants(id=id):
                    self._changed[id] = seq
                case RaiseFloor(table=id) | DropVersions(table=id) | DropLine(table=id):
                    self._changed[id] = seq
                case Create(parent=parent):
                    self._grown[parent] = seq
                case Rename(id=id) | Drop(id=id) | Undrop(id=id) | Purge(id=id):
                    self._changed[id] = self._removed_at = seq
                case Erase(ids=ids):
                    self._changed.update(dict.fromkeys(ids, seq))
                    self._removed_at = seq
                case FinishJob():
                    pass
                case _:
                    assert_never(change)


def _changes_in(body: bytes | None) -> tuple[Change, ...] | None:
    """The changes of an entry. None if it is too large, or has a change that only a later release knows."""
    try:
        return None if body is None else decode_body(body).changes
    except msgspec.ValidationError:
        return None
