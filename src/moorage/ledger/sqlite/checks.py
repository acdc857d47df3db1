"""Checks the expectations of a draft on the writer's connection, before the draft writes anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, assert_never, cast

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
)
from moorage.core.ids import SecurableId
from moorage.core.locations import enclosing_locations, range_inside
from moorage.ledger.port import Stale, purged

_LIVE = """
with recursive up (parent, dropped_at) as (
    select parent, dropped_at from securable where id = ?
    union all
    select s.parent, s.dropped_at from up join securable s on s.id = up.parent where up.dropped_at is null
)
select 1 from up where parent = '' and dropped_at is null"""

_MAX_CACHED = 100_000


class Checks:
    """Checks expectations against the state that the writer sees.

    Live objects, revisions and heads are cached until an object is dropped or moved or a batch is rolled back.
    Only this process writes, so nothing else can invalidate the cache.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._live_ids: set[SecurableId] = set()
        self._revisions: dict[SecurableId, int] = {}
        self._heads: dict[tuple[SecurableId, str], int] = {}
        self._checks: dict[type[Any], Callable[[Any], Any]] = {
            HeadIs: self._head,
            Live: self._live,
            RevisionIs: self._revision,
            Empty: self._empty,
            LocationFree: self._place,
            JobHeld: self._job,
            JobFree: self._purpose,
            FloorAtMost: self._floor,
        }

    def forget(self) -> None:
        self._live_ids.clear()
        self._revisions.clear()
        self._heads.clear()

    def follow(self, draft: Draft) -> None:
        """Update the cache for a draft that has been written."""
        for change in draft.changes:
            match change:
                case Update(id=id) | SetGrants(id=id):
                    if id in self._revisions:
                        self._revisions[id] += 1
                case Commit(table=table, ref=ref):
                    if (table, ref) in self._heads:
                        self._heads[table, ref] = change.version
                case DropLine(table=table, ref=ref):
                    self._heads.pop((table, ref), None)
                case Create() | RaiseFloor() | DropVersions() | FinishJob():
                    pass  # no cached value changes
                case Rename() | Drop() | Undrop() | Purge() | Erase():
                    self.forget()
                case _:
                    assert_never(change)

    def require(self, draft: Draft, access_seq: int) -> None:
        """Raise Stale for the first expectation that does not hold, or AlreadyPurged for an undrop that is too late."""
        for expect in draft.expects:
            if (check := self._checks.get(type(expect))) is not None:
                check(expect)
            elif isinstance(expect, NameFree):
                holder = self._holder(expect)
                if holder is not None and not _releases(draft, holder):
                    raise Stale(expect, holder)
            elif isinstance(expect, AccessIs):
                if expect.seq != access_seq:
                    raise Stale(expect, access_seq)
            else:  # never skipped: the draft relies on it
                raise TypeError(f"no check for {expect}")
        for change in draft.changes:
            if isinstance(change, Undrop):
                self._require_undroppable(change)

    def is_live(self, id: SecurableId) -> bool:
        if id in self._live_ids:
            return True
        if self._db.execute(_LIVE, (id,)).fetchone() is None:
            return False
        self._make_room()
        self._live_ids.add(id)
        return True

    def _make_room(self) -> None:
        if len(self._live_ids) + len(self._revisions) + len(self._heads) >= _MAX_CACHED:
            self.forget()

    def _head(self, expect: HeadIs) -> None:
        line = (expect.table, expect.ref)
        found = self._heads.get(line)
        if found is None:
            found = self._one("select version from head where table_id = ? and ref = ?", *line)
            if found is not None:
                self._make_room()
                self._heads[line] = found
        if found != expect.version or not self.is_live(expect.table):
            raise Stale(expect, found)

    def _live(self, expect: Live) -> None:
        if not self.is_live(expect.id):
            raise Stale(expect)

    def _holder(self, name: NameFree) -> SecurableId | None:
        return cast(
            SecurableId | None,
            self._one(
                "select id from securable where parent = ? and shelf = ? and name_key = ? and dropped_at is null",
                name.parent,
                name.shelf,
                name.key,
            ),
        )

    def _revision(self, expect: RevisionIs) -> None:
        found = self._revisions.get(expect.id)
        if found is None:
            found = self._one("select revision from securable where id = ?", expect.id)
            if found is not None:
                self._make_room()
                self._revisions[expect.id] = found
        if found != expect.revision:
            raise Stale(expect, found)

    def _require_undroppable(self, change: Undrop) -> None:
        if self._one("select purged from securable where id = ?", change.id):
            raise purged(change)

    def _empty(self, expect: Empty) -> None:
        child = self._one(
            "select id from securable where parent = ? and dropped_at is null and shelf <> 'stage' limit 1", expect.id
        )
        if child is not None:
            raise Stale(expect, child)

    def _place(self, expect: LocationFree) -> None:
        holder = self._one(*holder_query(expect.path, expect.by))
        if holder is not None:
            raise Stale(expect, holder)

    def _job(self, expect: JobHeld) -> None:
        row = self._db.execute(
            "select job.state, lease.fence from job left join lease on lease.job = job.id where job.id = ?",
            (expect.job,),
        ).fetchone()
        if row is None or row[0] != "open" or (expect.fence is not None and row[1] != expect.fence):
            raise Stale(expect, None if row is None else row[0])

    def _purpose(self, expect: JobFree) -> None:
        job = self._one("select id from job where dedupe = ? and state = 'open'", expect.dedupe)
        if job is not None:
            raise Stale(expect, job)

    def _floor(self, expect: FloorAtMost) -> None:
        floor = self._one("select floor from head where table_id = ? and ref = ?", expect.table, expect.ref)
        if floor is None or floor > expect.version:
            raise Stale(expect, floor)

    def _one(self, sql: str, *args: Any) -> Any:
        row = self._db.execute(sql, args).fetchone()
        return None if row is None else row[0]


def holder_query(path: str, by: SecurableId | None = None) -> tuple[Any, ...]:
    """The statement and its arguments for a holder of a location other than `by`: one that contains it comes first."""
    containers = enclosing_locations(path)
    return (
        f"select securable from place where path in ({','.join('?' * len(containers))}) and securable <> ? "
        "union all select securable from place where path >= ? and path < ? and securable <> ? limit 1",
        *containers,
        by or "",
        *range_inside(path),
        by or "",
    )


def _releases(draft: Draft, id: SecurableId) -> bool:
    """Whether the draft releases the name of this object."""
    return any(isinstance(change, Drop | Rename) and change.id == id for change in draft.changes)
