"""Snapshots of Delta tables at any version or time, built on cached snapshots of older versions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import suppress
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
from moorage.snapshots.log_reader import FileMissing, LogReader, published_commit
from moorage.snapshots.predicates import Predicate
from moorage.snapshots.segments import MOST_REPLAYED, Segment, Step, plan
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.snapshots.times import file_times, timestamp_of, writer_timestamp
from moorage.storage.port import Listed, Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from moorage.formats.delta.replay import LogState, Part
    from moorage.snapshots.partition_filter import PartitionFilter
    from moorage.snapshots.snapshot import Snapshot

_STATES = "moorage.snapshots.states"
_BUDGET = 256 * 1024 * 1024
_PARALLEL_CHECKPOINTS = 2
"""Reading a checkpoint takes several times the memory of the resulting snapshot."""
_WINDOW_FILES, _WINDOW_BYTES = 64, 32 * 1024 * 1024


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one version: its adds, removes, change files, metadata and other actions."""

    version: int
    timestamp_ms: int
    commit: Commit


class Snapshots:
    """Reads logs through storage, and caches snapshots up to a limit in bytes.

    Every method may raise VersionNotFound (the version never existed, or is no longer available), Damaged (the log
    contradicts itself, the protocol or the ledger), Unsupported (the table requires an unsupported reader feature) and
    InvalidInput (the log names files outside the table).
    """

    def __init__(self, storage: Storage, *, budget_bytes: int = _BUDGET) -> None:
        self._storage = storage
        self._cache = SnapshotCache(budget_bytes)
        self._loading: dict[Hashable, asyncio.Task[Snapshot]] = {}
        self._checkpoint_slots = asyncio.Semaphore(_PARALLEL_CHECKPOINTS)

    async def at(self, ref: TableRef, when: int | datetime | None = None) -> Snapshot:
        """Return the table at a version or a moment. The default is its newest version."""
        # On a thread, because loading Arrow takes longer than most requests.
        if _STATES not in sys.modules:
            await asyncio.to_thread(import_module, _STATES)
        version = await self.version_at(ref, when) if isinstance(when, datetime) else when
        if ref.latest is not None:
            return await self._managed(ref, _require_version(ref, version, ref.latest))
        return await _load_with_retry(partial(self._external, ref, version), ref)

    async def files(self, snapshot: Snapshot, where: Predicate | None = None) -> pa.Table:
        """Return the files of a snapshot as an Arrow table. A predicate skips files without matching rows."""
        table = await asyncio.to_thread(snapshot.select, where)
        self._cache.update_size((snapshot.table, snapshot.location, snapshot.seen is None), snapshot)
        return table

    async def selections(
        self, snapshot: Snapshot, where: Predicate | None = None, partitions: PartitionFilter | None = None
    ) -> list[Part]:
        """Return the same files by slab, without copying them. A filter leaves out the files that it does not admit."""
        found = await asyncio.to_thread(snapshot.selections, where, partitions)
        self._cache.update_size((snapshot.table, snapshot.location, snapshot.seen is None), snapshot)
        return found

    async def version_at(self, ref: TableRef, moment: datetime) -> int:
        """Return the last version committed at or before a moment. For a future moment that is the newest version."""
        clock = await self._clock(ref)
        found = await clock.last_at(to_ms(moment))
        if found is None:
            raise VersionNotFound(
                f"the table has no version committed at or before {moment.isoformat()}; "
                f"the oldest available version is {clock.oldest}",
                oldest=clock.oldest,
            )
        return found

    async def version_from(self, ref: TableRef, moment: datetime) -> int:
        """Return the first version committed at or after a moment."""
        found = await (await self._clock(ref)).first_from(to_ms(moment))
        if found is None:
            raise VersionNotFound(f"the table has no version committed at or after {moment.isoformat()}")
        return found

    async def changes(self, ref: TableRef, first: int, last: int | None = None) -> AsyncIterator[Changes]:
        """Yield the changes of each version from first to last."""
        if first < 0:
            raise InvalidInput(f"version {first} is negative; versions start at 0", field="startingVersion")
        if first < ref.floor:
            raise _below_floor(ref, first)
        reader = LogReader(self._storage, ref)
        log = _EMPTY_LOG if ref.latest is not None else await reader.listing(whole=True)
        last = _require_version(ref, last, log.latest if ref.latest is None else ref.latest)
        times = file_times(log)
        for version in range(first, last + 1):
            commit = await self._commit(reader, ref, log, version)
            at = commit.in_commit_timestamp or times.get(version) or writer_timestamp(commit.commit_info)
            yield Changes(version=version, timestamp_ms=at or 0, commit=commit)

    async def replayed(self, ref: TableRef, log: LogFiles, version: int) -> LogState:
        """Return the state of a version, replayed from the oldest files of a listing, without newer checkpoints."""
        reader, segment = LogReader(self._storage, ref), _longest_segment(log, version)
        async with self._checkpoint_slots:
            start = None if segment.start is None else await reader.checkpoint(segment.start)
        return await self._replay(reader, ref, start, segment.steps)

    # --- loading ---------------------------------------------------------------------------------

    async def _managed(self, ref: TableRef, version: int) -> Snapshot:
        key = _key(ref)
        found = self._cache.get(key, version, None)
        return found or await self._load_once((key, version), partial(self._load_managed, ref, version))

    async def _load_managed(self, ref: TableRef, version: int) -> Snapshot:
        known = self._newest_cached(ref, version, _EMPTY_LOG)
        if known is not None and version - known.version <= MOST_REPLAYED:
            # The ledger records which versions exist, so no listing is needed.
            commits = {at: published_commit(at) for at in range(known.version + 1, version + 1)}
            try:
                return await self._load(ref, version, LogFiles(commits, {}, {}), known, seen=None)
            except FileMissing:
                pass  # the commit files are cleaned up already; a checkpoint contains their changes
        return await _load_with_retry(partial(self._load_listed, ref, version), ref)

    async def _load_listed(self, ref: TableRef, version: int, *, whole: bool) -> Snapshot:
        log = await LogReader(self._storage, ref).listing(wanted=version, whole=whole)
        return await self._load(ref, version, log, self._newest_cached(ref, version, _EMPTY_LOG), seen=None)

    async def _external(self, ref: TableRef, version: int | None, *, whole: bool) -> Snapshot:
        reader = LogReader(self._storage, ref)
        log = None if whole or version is not None else await self._listing_from_known(reader, ref)
        log = log or await reader.listing(wanted=version, whole=whole)
        wanted = _require_version(ref, version, log.latest)
        seen = log.newest_file(wanted)
        found = self._cache.get(_key(ref), wanted, seen)
        known = self._newest_cached(ref, wanted, log)
        load = partial(self._load, ref, wanted, log, known, seen=seen)
        return found or await self._load_once((_key(ref), wanted, seen), load)

    async def _listing_from_known(self, reader: LogReader, ref: TableRef) -> LogFiles | None:
        """List the log from the newest cached version on. None: none is cached, or the folder was refilled."""
        for version in self._cache.versions(_key(ref), up_to=sys.maxsize)[:1]:
            log = await reader.listing_from(version)
            if self._cache.get(_key(ref), version, log.newest_file(version)) is not None:
                return log
        return None

    def _newest_cached(self, ref: TableRef, version: int, log: LogFiles) -> Snapshot | None:
        """Return the newest cached snapshot at or below this version that still matches the log folder."""
        cached = self._cache.versions(_key(ref), up_to=version)
        found = (self._cache.get(_key(ref), at, log.newest_file(at)) for at in cached)
        return next((snapshot for snapshot in found if snapshot is not None), None)

    async def _load(
        self, ref: TableRef, version: int, log: LogFiles, known: Snapshot | None, *, seen: Listed | None
    ) -> Snapshot:
        from moorage.snapshots.states import snapshot_of, with_commit_info

        reader = LogReader(self._storage, ref)
        segment = plan(log, version, ratified=ref.commits, known=None if known is None else known.version)
        state = None if known is None else known.state
        if segment.start is not None:
            async with self._checkpoint_slots:
                state = await reader.checkpoint(segment.start)
        state = await self._replay(reader, ref, state, segment.steps)
        own = ref.commits.get(version) or log.commits.get(version)
        if own is not None and (not segment.steps or segment.steps[-1].source is not own):
            state = await asyncio.to_thread(with_commit_info, state, await reader.read(Step(version, own)))
        time_known = (-1, -1) if known is None else (known.version, known.timestamp_ms)
        snapshot = snapshot_of(ref, state, timestamp_ms=timestamp_of(state, log, time_known), seen=seen)
        self._cache.put(_key(ref), snapshot)
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

        is_managed = ref.latest is not None
        source = ref.commits.get(version) or (published_commit(version) if is_managed else log.commits.get(version))
        try:
            if source is not None:
                return await asyncio.to_thread(read_changes, await reader.read(Step(version, source)), ref.root)
        except FileMissing:
            pass
        raise VersionNotFound(f"the changes of version {version} are no longer available", version=version)

    async def _clock(self, ref: TableRef) -> Clock:
        newest = await self.at(ref)
        reader = LogReader(self._storage, ref)
        return Clock(reader, ref, await reader.listing(whole=True), newest)

    async def _load_once(self, key: Hashable, load: Callable[[], Awaitable[Snapshot]]) -> Snapshot:
        """Share one load among concurrent callers. A caller that is cancelled does not stop it for the others."""
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(load())
            task.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(task)

    def _loaded(self, key: Hashable, task: asyncio.Task[Snapshot]) -> None:
        del self._loading[key]
        if not task.cancelled():
            task.exception()  # retrieved here, because asyncio warns about it if all callers were cancelled


_EMPTY_LOG = LogFiles({}, {}, {})


def _longest_segment(log: LogFiles, version: int) -> Segment:
    """From the first commit, or else from the oldest checkpoint after which no commit is missing.

    A clean-up that was interrupted may have deleted later commits before earlier ones.
    """
    bases = [{}, *({at: log.checkpoints[at]} for at in sorted(log.checkpoints))]
    for base in bases[:-1]:
        with suppress(VersionNotFound, Damaged):
            return plan(LogFiles(log.commits, base, {}), version, ratified={})
    return plan(LogFiles(log.commits, bases[-1], {}), version, ratified={})


def _key(ref: TableRef) -> Hashable:
    return (ref.id, ref.root, ref.latest is not None)


def _require_version(ref: TableRef, version: int | None, latest: int | None) -> int:
    """Return the version to read. Raises VersionNotFound if the table does not have it."""
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
        f"version {version} is no longer available; the oldest available version is {ref.floor}",
        version=version,
        oldest=ref.floor,
    )


def _windows(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Group steps that are read and replayed together: many for speed, but limited for memory."""
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


async def _load_with_retry(load: Callable[..., Awaitable[Snapshot]], ref: TableRef) -> Snapshot:
    """Load, and retry once with a full listing if a file was deleted in between, as log cleanup does."""
    try:
        return await load(whole=False)
    except FileMissing as first:
        try:
            return await load(whole=True)
        except FileMissing as second:
            if second.path == first.path:
                raise Damaged(f"{first.path} is missing from the log at {ref.location}", table=ref.id) from second
            raise Unavailable(
                f"files of the log at {ref.location} are deleted while they are read; retry later", table=ref.id
            ) from second
