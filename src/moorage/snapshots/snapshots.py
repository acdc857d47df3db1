"""Delta tables at any version or time, read once and built on what was read before."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from moorage.core.errors import Damaged, InvalidInput, Unavailable, VersionNotFound
from moorage.formats.delta.log_commits import Commit
from moorage.snapshots.cache import SnapshotCache
from moorage.snapshots.clock import Clock, to_ms
from moorage.snapshots.log_files import LogFiles
from moorage.snapshots.log_reader import Gone, LogReader, published
from moorage.snapshots.predicates import Predicate
from moorage.snapshots.segments import FEW, Step, plan
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.snapshots.times import file_times, stated_by_writer, timestamp_of
from moorage.storage.port import Listed, Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from moorage.formats.delta.replay import LogState
    from moorage.snapshots.snapshot import Snapshot

_STATES = "moorage.snapshots.states"
_BUDGET = 256 * 1024 * 1024
_COLD_AT_ONCE = 2
"""Reading a large table from its checkpoint takes several times the memory that it ends up with."""
_WINDOW_FILES, _WINDOW_BYTES = 64, 32 * 1024 * 1024


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What one version changed: its adds, removes, change files, metadata and the rest."""

    version: int
    timestamp_ms: int
    commit: Commit


class Snapshots:
    """Reads logs through storage. What it read stays, up to a budget of bytes.

    Every method may raise VersionNotFound (never was, or no longer kept), Damaged (the log contradicts
    itself, the protocol or the ledger), Unsupported (the table needs a reader that this one is not) and
    InvalidInput (the log names files outside of the table).
    """

    def __init__(self, storage: Storage, *, budget_bytes: int = _BUDGET) -> None:
        self._storage = storage
        self._cache = SnapshotCache(budget_bytes)
        self._loading: dict[Hashable, asyncio.Task[Snapshot]] = {}
        self._cold = asyncio.Semaphore(_COLD_AT_ONCE)

    async def at(self, ref: TableRef, when: int | datetime | None = None) -> Snapshot:
        """The table at a version or a moment; without either, at its newest version."""
        # Not on the loop: loading Arrow takes longer than most requests.
        if _STATES not in sys.modules:
            await asyncio.to_thread(import_module, _STATES)
        version = await self.version_at(ref, when) if isinstance(when, datetime) else when
        if ref.latest is not None:
            return await self._ours(ref, _offered(ref, version, ref.latest))
        return await _twice(partial(self._theirs, ref, version), ref)

    async def files(self, snapshot: Snapshot, where: Predicate | None = None) -> pa.Table:
        """The files of a snapshot as an Arrow table; with a predicate, those that may hold rows for it."""
        table = await asyncio.to_thread(snapshot.select, where)
        self._cache.weigh((snapshot.table, snapshot.location, snapshot.seen is None), snapshot)
        return table

    async def version_at(self, ref: TableRef, moment: datetime) -> int:
        """The last version committed at or before a moment. After the newest one, that is the newest."""
        clock = await self._clock(ref)
        found = await clock.last_at(to_ms(moment))
        if found is None:
            raise VersionNotFound(
                f"the table has no version from {moment.isoformat()} or before; the oldest that can be read is "
                f"{clock.oldest}",
                oldest=clock.oldest,
            )
        return found

    async def version_from(self, ref: TableRef, moment: datetime) -> int:
        """The first version committed at or after a moment."""
        found = await (await self._clock(ref)).first_from(to_ms(moment))
        if found is None:
            raise VersionNotFound(f"the table has no version from {moment.isoformat()} or after")
        return found

    async def changes(self, ref: TableRef, first: int, last: int | None = None) -> AsyncIterator[Changes]:
        """What each version from first to last changed, one after the other."""
        if first < 0:
            raise InvalidInput(f"there is no version {first}", field="startingVersion")
        if first < ref.floor:
            raise _below_floor(ref, first)
        reader = LogReader(self._storage, ref)
        log = _NOTHING if ref.latest is not None else await reader.listing(whole=True)
        last = _offered(ref, last, log.latest if ref.latest is None else ref.latest)
        times = file_times(log)
        for version in range(first, last + 1):
            commit = await self._commit(reader, ref, log, version)
            at = commit.in_commit_timestamp or times.get(version) or stated_by_writer(commit.commit_info)
            yield Changes(version=version, timestamp_ms=at or 0, commit=commit)

    # --- loading ---------------------------------------------------------------------------------

    async def _ours(self, ref: TableRef, version: int) -> Snapshot:
        key = _key(ref)
        found = self._cache.get(key, version, None)
        return found or await self._once((key, version), partial(self._load_ours, ref, version))

    async def _load_ours(self, ref: TableRef, version: int) -> Snapshot:
        known = self._known(ref, version, _NOTHING)
        if known is not None and version - known.version <= FEW:
            # The ledger knows which versions there are, so nothing needs to be listed.
            commits = {at: published(at) for at in range(known.version + 1, version + 1)}
            try:
                return await self._load(ref, version, LogFiles(commits, {}, {}), known, seen=None)
            except Gone:
                pass  # cleaned up already: a checkpoint says what they did
        return await _twice(partial(self._load_listed, ref, version), ref)

    async def _load_listed(self, ref: TableRef, version: int, *, whole: bool) -> Snapshot:
        log = await LogReader(self._storage, ref).listing(wanted=version, whole=whole)
        return await self._load(ref, version, log, self._known(ref, version, _NOTHING), seen=None)

    async def _theirs(self, ref: TableRef, version: int | None, *, whole: bool) -> Snapshot:
        log = await LogReader(self._storage, ref).listing(wanted=version, whole=whole)
        wanted = _offered(ref, version, log.latest)
        seen = log.newest_file(wanted)
        found = self._cache.get(_key(ref), wanted, seen)
        known = self._known(ref, wanted, log)
        load = partial(self._load, ref, wanted, log, known, seen=seen)
        return found or await self._once((_key(ref), wanted, seen), load)

    def _known(self, ref: TableRef, version: int, log: LogFiles) -> Snapshot | None:
        """The newest kept version at or below this one, if the folder still tells the same story."""
        kept = self._cache.versions(_key(ref), up_to=version)
        found = (self._cache.get(_key(ref), at, log.newest_file(at)) for at in kept)
        return next((snapshot for snapshot in found if snapshot is not None), None)

    async def _load(
        self, ref: TableRef, version: int, log: LogFiles, known: Snapshot | None, *, seen: Listed | None
    ) -> Snapshot:
        from moorage.snapshots.states import snapshot_of, with_commit_info

        reader = LogReader(self._storage, ref)
        segment = plan(log, version, ratified=ref.commits, known=None if known is None else known.version)
        state = None if known is None else known.state
        if segment.start is not None:
            async with self._cold:
                state = await reader.checkpoint(segment.start)
        state = await self._replay(reader, ref, state, segment.steps)
        own = ref.commits.get(version) or log.commits.get(version)
        if own is not None and (not segment.steps or segment.steps[-1].source is not own):
            state = await asyncio.to_thread(with_commit_info, state, await reader.read(Step(version, own)))
        snapshot = snapshot_of(ref, state, timestamp_ms=timestamp_of(state, log), seen=seen)
        self._cache.keep(_key(ref), snapshot)
        return snapshot

    async def _replay(
        self, reader: LogReader, ref: TableRef, state: LogState | None, steps: Sequence[Step]
    ) -> LogState:
        from moorage.snapshots.states import state_after

        for window in _windows(steps):
            reads = await asyncio.gather(*(reader.read(step) for step in window))
            state = await asyncio.to_thread(state_after, state, reads, ref.root)
        if state is None:
            raise VersionNotFound(f"there is no Delta log at {ref.location}")
        return state

    async def _commit(self, reader: LogReader, ref: TableRef, log: LogFiles, version: int) -> Commit:
        from moorage.snapshots.states import read_changes

        is_ours = ref.latest is not None
        source = ref.commits.get(version) or (published(version) if is_ours else log.commits.get(version))
        try:
            if source is not None:
                return await asyncio.to_thread(read_changes, await reader.read(Step(version, source)), ref.root)
        except Gone:
            pass
        raise VersionNotFound(f"the changes of version {version} are no longer kept", version=version)

    async def _clock(self, ref: TableRef) -> Clock:
        newest = await self.at(ref)
        reader = LogReader(self._storage, ref)
        return Clock(reader, ref, await reader.listing(whole=True), newest)

    async def _once(self, key: Hashable, load: Callable[[], Awaitable[Snapshot]]) -> Snapshot:
        """One load for all who ask at the same time. Who leaves early does not stop it for the others."""
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(load())
            task.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(task)

    def _loaded(self, key: Hashable, task: asyncio.Task[Snapshot]) -> None:
        del self._loading[key]
        if not task.cancelled():
            task.exception()  # looked at here, or asyncio would complain if everybody had left


_NOTHING = LogFiles({}, {}, {})


def _key(ref: TableRef) -> Hashable:
    return (ref.id, ref.root, ref.latest is not None)


def _offered(ref: TableRef, version: int | None, latest: int | None) -> int:
    """The version to read, if the table has it."""
    if latest is None:
        raise VersionNotFound(f"there is no Delta log at {ref.location}")
    if version is None:
        return latest
    if not 0 <= version <= latest:
        raise VersionNotFound(
            f"version {version} does not exist; the latest is {latest}", version=version, latest=latest
        )
    if version < ref.floor:
        raise _below_floor(ref, version)
    return version


def _below_floor(ref: TableRef, version: int) -> VersionNotFound:
    return VersionNotFound(
        f"version {version} is no longer kept; the oldest that can be read is {ref.floor}",
        version=version,
        oldest=ref.floor,
    )


def _windows(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Steps that are read and replayed together: many, for speed, but not more than memory allows."""
    window: list[Step] = []
    size = 0
    for step in steps:
        size += _size(step.source)
        window.append(step)
        if len(window) == _WINDOW_FILES or size > _WINDOW_BYTES:
            yield window
            window, size = [], 0
    if window:
        yield window


def _size(source: Listed | Ratified) -> int:
    return (len(source.data) if source.data else source.size or 0) if isinstance(source, Ratified) else source.size


async def _twice(load: Callable[..., Awaitable[Snapshot]], ref: TableRef) -> Snapshot:
    """Load; and once more by a whole listing if a file went away meanwhile, as files of old logs do."""
    try:
        return await load(whole=False)
    except Gone as first:
        try:
            return await load(whole=True)
        except Gone as second:
            if second.path == first.path:
                raise Damaged(f"the log at {ref.location} lacks {first.path}", table=ref.id) from second
            raise Unavailable(f"the log at {ref.location} changes faster than it is read", table=ref.id) from second
