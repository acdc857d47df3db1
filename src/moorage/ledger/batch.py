"""Which queued drafts may share a batch.

A batch is checked as a whole against the state before it, and then written as a whole. The result
equals that of serial execution only if no draft of the batch writes what another one reads or
writes. SQLite runs its drafts serially and does not need this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from moorage.core.entries import (
    AccessIs,
    Commit,
    Create,
    Draft,
    DropLine,
    DropVersions,
    Empty,
    FinishJob,
    FloorAtMost,
    HeadIs,
    JobFree,
    JobHeld,
    Live,
    LocationFree,
    NameFree,
    RaiseFloor,
    RevisionIs,
    SetGrants,
    Update,
    may_change_access,
)
from moorage.core.locations import enclosing_locations
from moorage.core.names import name_key
from moorage.core.securables import SHELF_OF

LARGEST_BATCH = 256
FULL_BATCH_BYTES = 4 * 1024 * 1024
"""All servers share the lock, so a batch of large drafts must not hold it for long."""
LOOK_AHEAD = 1024
"""How many queued drafts are examined per batch. It bounds the cost, which would otherwise grow with the square of
the number of writers to one table."""

Thing = tuple[str, ...]

_ACCESS: Thing = ("access",)
_ANY_DEDUPE: Thing = ("dedupe",)


class Footprint(NamedTuple):
    """The keys of what a draft reads and writes.

    `alone`: the draft frees names or moves objects. What it affects (all objects below a dropped catalog,
    the current name of an id) cannot be derived from the draft, so it shares a batch with no other.
    """

    reads: set[Thing]
    writes: set[Thing]
    alone: bool


def footprint(draft: Draft) -> Footprint:
    reads: set[Thing] = set()
    writes: set[Thing] = {("draft", draft.id)}
    for key in draft.keys:
        writes.add(("key", draft.caller, key.value))
    for expect in draft.expects:
        _OF_EXPECT[type(expect)](expect, reads, writes)
    alone = False
    for change in draft.changes:
        if (touch := _OF_CHANGE.get(type(change))) is not None:
            touch(change, reads, writes)
        else:
            alone = True
    for job in draft.jobs:
        writes.add(("job", job.id))
        if job.dedupe is not None:
            reads.add(_ANY_DEDUPE)
            writes.add(("dedupe", job.dedupe))
    return Footprint(reads, writes, alone)


class HasFootprint(Protocol):
    @property
    def footprint(self) -> Footprint: ...

    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=HasFootprint)


def take_batch(waiting: deque[W]) -> list[W]:
    """Remove and return the next drafts that may be written together. The others keep their order.

    A deferred draft also defers later drafts that touch the same keys, so drafts are never reordered per key.
    """
    chosen: list[W] = []
    deferred: list[W] = []
    read: set[Thing] = set()
    written: set[Thing] = set()
    room = FULL_BATCH_BYTES
    for _ in range(min(len(waiting), LOOK_AHEAD)):
        reads, writes, alone = waiting[0].footprint
        if alone and (chosen or deferred):
            break
        one = waiting.popleft()
        if writes.isdisjoint(written) and writes.isdisjoint(read) and reads.isdisjoint(written):
            chosen.append(one)
            room -= one.size
        else:
            deferred.append(one)
        if alone or len(chosen) == LARGEST_BATCH or room <= 0:
            break
        read |= reads
        written |= writes
    waiting.extendleft(reversed(deferred))
    return chosen


# --- what each expectation reads, and what each change writes --------------------------------------

Touch = Callable[[Any, set[Thing], set[Thing]], None]


def _head(expect: HeadIs, reads: set[Thing], writes: set[Thing]) -> None:
    reads.add(("head", expect.table, expect.ref))
    reads.add(("live", expect.table))


def _empty(expect: Empty, reads: set[Thing], writes: set[Thing]) -> None:
    # Emptiness counts as a write and a new child as a read: new children do not conflict with each
    # other, only with a draft that expects none.
    writes.add(("children", expect.id))


def _place(path: str, reads: set[Thing], writes: set[Thing]) -> None:
    # Two locations overlap if one is an ancestor folder of the other. Siblings only read their ancestors.
    reads.update(("place", folder) for folder in enclosing_locations(path) if folder != path)
    writes.add(("place", path))


def _create(change: Create, reads: set[Thing], writes: set[Thing]) -> None:
    reads.add(("children", change.parent))
    writes.add(("revision", change.id))
    writes.add(("live", change.id))
    writes.add(("name", change.parent, SHELF_OF[change.kind], name_key(change.name)))
    if change.place is not None:
        _place(change.place, reads, writes)


def _update(change: Update, reads: set[Thing], writes: set[Thing]) -> None:
    writes.add(("revision", change.id))
    if may_change_access(change):
        writes.add(_ACCESS)
    if change.place is not None:
        _place(change.place, reads, writes)


def _set_grants(change: SetGrants, reads: set[Thing], writes: set[Thing]) -> None:
    writes.add(("revision", change.id))
    writes.add(_ACCESS)


def _finish(change: FinishJob, reads: set[Thing], writes: set[Thing]) -> None:
    # A finished job frees its dedupe key, which only the database knows. So it writes all of them.
    writes.add(("job", change.job))
    writes.add(_ANY_DEDUPE)


_OF_EXPECT: dict[type[Any], Touch] = {
    HeadIs: _head,
    RevisionIs: lambda e, reads, writes: reads.add(("revision", e.id)),
    Live: lambda e, reads, writes: reads.add(("live", e.id)),
    Empty: _empty,
    NameFree: lambda e, reads, writes: reads.add(("name", e.parent, e.shelf, e.key)),
    LocationFree: lambda e, reads, writes: _place(e.path, reads, writes),
    AccessIs: lambda e, reads, writes: reads.add(_ACCESS),
    JobHeld: lambda e, reads, writes: reads.add(("job", e.job)),
    JobFree: lambda e, reads, writes: reads.update((_ANY_DEDUPE, ("dedupe", e.dedupe))),
    FloorAtMost: lambda e, reads, writes: reads.add(("head", e.table, e.ref)),
}

# A change that is not listed here makes its draft run alone.
_OF_CHANGE: dict[type[Any], Touch] = {
    Create: _create,
    Update: _update,
    SetGrants: _set_grants,
    Commit: lambda c, reads, writes: writes.add(("head", c.table, c.ref)),
    RaiseFloor: lambda c, reads, writes: writes.add(("head", c.table, c.ref)),
    DropVersions: lambda c, reads, writes: writes.add(("head", c.table, c.ref)),
    DropLine: lambda c, reads, writes: writes.add(("head", c.table, c.ref)),
    FinishJob: _finish,
}
