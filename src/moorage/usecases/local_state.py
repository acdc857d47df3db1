"""What one server process holds in memory: queues, caches and background tasks.

Losing all of it is always safe. The ledger decides between servers; a queue only prevents the requests of one
server from conflicting with each other, and a cache only holds what never changes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec

from moorage.core.accesses import Tallies
from moorage.core.entries import Commit
from moorage.core.errors import VersionTaken
from moorage.core.ids import SecurableId

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_LONGEST_WAIT_SECONDS = 0.1
_MAX_WAITS = 10
"""A conflict is reported after at most this many waits."""
_RETRY_SECONDS = 0.005
"""About the time in which a fast client reads a table and commits again."""


# --- queues ------------------------------------------------------------------------------------


class QueueKey(msgspec.Struct, frozen=True):
    """What a queue is for. Keys of different types are never equal."""


class TableQueue(QueueKey, frozen=True, cache_hash=True):
    """Commits to the table or view of a name; `keys` are the name keys of its path."""

    keys: tuple[str, ...]


class TableIdQueue(QueueKey, frozen=True):
    """Commits to the table of an id, in APIs that name tables by id alone."""

    id: str


class LanceWorkQueue(QueueKey, frozen=True):
    """Worker processes that change one Lance table. Taken before the table's own queue, which a commit takes."""

    keys: tuple[str, ...]


class RequestQueue(QueueKey, frozen=True):
    """Requests under one idempotency key: the second waits and then finds the receipt of the first."""

    caller: str
    key: str


class RetryQueue(QueueKey, frozen=True):
    """Requests that conflicted over one object. One at a time can win, so their retries are serialised."""

    object: str


class LargeCommitQueue(QueueKey, frozen=True):
    """Delta commits so large that several at a time would take all memory and all threads."""


class ConflictPacer:
    """Spreads the conflict responses of writers that race for the next version of one table.

    A client that receives a conflict reads the table and retries immediately, and only one of them can win. If all
    received it together, all but one would conflict again. So one response is sent per new version. If versions appear
    faster than a client can read the table and retry, fewer are sent: one in `retry_s`.
    """

    __slots__ = (
        "_longest_wait_s",
        "_may_retry",
        "_next_release",
        "_release_timer",
        "_retry_s",
        "_versions",
        "_waiting",
    )

    def __init__(self, longest_wait_s: float = _LONGEST_WAIT_SECONDS, retry_s: float = _RETRY_SECONDS) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._longest_wait_s = longest_wait_s
        self._retry_s = retry_s
        self._may_retry = True
        self._next_release = 0.0
        self._release_timer: asyncio.TimerHandle | None = None
        self._versions = 0

    def record_version(self) -> None:
        """A new version exists: one more of the waiting writers may retry on it, or on the one that is current then."""
        self._versions += 1
        if not self._waiting:
            self._may_retry = True
        elif self._release_timer is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._next_release:
                self._release_timer = loop.call_at(self._next_release, self._release)
            else:
                self._release()

    def _release(self) -> None:
        self._release_timer = None
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                self._next_release = asyncio.get_running_loop().time() + self._retry_s
                return
        self._may_retry = True

    async def wait(self, is_contested: Callable[[], bool]) -> None:
        """Return when this writer may retry.

        It waits as long as new versions appear or `is_contested` says that one is being made: a slow machine or a
        stalled disk must not release writers that would only conflict again.
        """
        if self._may_retry:
            self._may_retry = False
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._end_later(turn, _MAX_WAITS, is_contested)
        try:
            await turn
        finally:
            turn.cancel()  # a writer that stopped waiting must not use up a turn

    def _end_later(self, turn: asyncio.Future[None], waits: int, is_contested: Callable[[], bool]) -> None:
        # A timer, because asyncio.wait with a timeout costs several times as much.
        loop = asyncio.get_running_loop()
        loop.call_later(self._longest_wait_s, self._end, turn, waits - 1, self._versions, is_contested)

    def _end(self, turn: asyncio.Future[None], waits: int, before: int, is_contested: Callable[[], bool]) -> None:
        if turn.done():
            return
        if waits == 0 or (self._versions == before and not is_contested()):
            turn.set_result(None)
        else:
            self._end_later(turn, waits, is_contested)


class Queue(asyncio.Lock):
    """Requests for one object, one at a time: `async with local.queue(key)`."""

    pacer: ConflictPacer | None = None
    """Made when the first writer conflicts."""

    async def pace_conflict(self) -> None:
        """Wait until a writer that conflicted may retry.

        The queue object is kept for a moment after that: the writer is about to retry, and writers that conflict
        before it does must wait for it.
        """
        if self.pacer is None:
            self.pacer = ConflictPacer(_LONGEST_WAIT_SECONDS)
        await self.pacer.wait(self.locked)
        asyncio.get_running_loop().call_later(_LONGEST_WAIT_SECONDS, _keep_alive, self)

    def record_version(self) -> None:
        if self.pacer is not None:
            self.pacer.record_version()


def _keep_alive(queue: Queue) -> None:
    """Hold a reference until this call is due."""


class Race:
    """Writers of the next version of one table, entered by `async with`.

    They are served one at a time, so that all but one conflict before anything is read for them, and their conflicts
    are paced. Other servers need no queue: the ledger decides.
    """

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def __aenter__(self) -> None:
        await self._queue.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._queue.release()
        if error is None:
            self._queue.record_version()
        elif isinstance(error, VersionTaken):
            await self._queue.pace_conflict()


# --- caches ------------------------------------------------------------------------------------


def _one(_: object) -> int:
    return 1


class CacheKind(Generic[K, V]):
    """The declaration of a cache: what it holds, and how much. The cached values belong to a `LocalState`."""

    def __init__(
        self,
        name: str,
        *,
        limit: int,
        weigh: Callable[[V], int] = _one,
        on_evict: Callable[[V], object] | None = None,
    ) -> None:
        self.name = name
        self.limit = limit
        self.weigh = weigh
        self.on_evict = on_evict


class Cache(Generic[K, V]):
    """Values by key; the least recently used are evicted when together they weigh more than the limit."""

    __slots__ = ("_items", "_kind", "weight")

    def __init__(self, kind: CacheKind[K, V]) -> None:
        self._kind = kind
        self._items: OrderedDict[K, V] = OrderedDict()
        self.weight = 0

    def get(self, key: K) -> V | None:
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Cache a value, unless it alone weighs more than the limit."""
        self.pop(key)
        weight = self._kind.weigh(value)
        if weight > self._kind.limit:
            return
        self._items[key] = value
        self.weight += weight
        while self.weight > self._kind.limit:
            self._evict(last=False)

    def pop(self, key: K) -> V | None:
        value = self._items.pop(key, None)
        if value is not None:
            self.weight -= self._kind.weigh(value)
        return value

    def clear(self) -> None:
        while self._items:
            self._evict(last=True)

    def _evict(self, *, last: bool) -> None:
        _, value = self._items.popitem(last=last)
        self.weight -= self._kind.weigh(value)
        if self._kind.on_evict is not None:
            self._kind.on_evict(value)

    def __contains__(self, key: K) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)


# --- all of it ---------------------------------------------------------------------------------


class LocalState:
    """Every queue, cache and background task of one server."""

    def __init__(self) -> None:
        self.unsynced: dict[tuple[SecurableId, str], int] = {}
        """By table and ref, the newest version whose file this server wrote without waiting for the disk."""
        self.accesses: Tallies = {}
        """The lines of the audit that are not stored yet."""
        self.unconverted: set[SecurableId] = set()
        """Tables with a new version that clients of another format may want to read."""
        self.linked: dict[tuple[SecurableId, str], dict[int, Commit]] = {}
        """By table and ref, versions whose staged files this server gave their final names, without waiting for the
        disk. The ledger has their bytes."""
        self.unswept: dict[tuple[SecurableId, str], int] = {}
        """By table and ref, the published version of lines that may have leftover files."""
        self.has_lost_writes = False
        """The disk reported a lost write, which it does only once: what a read shows may not be on the disk."""
        self._shared: WeakValueDictionary[QueueKey, Any] = WeakValueDictionary()
        self._caches: dict[CacheKind[Any, Any], Cache[Any, Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def shared(self, key: QueueKey, make: Callable[[], T]) -> T:
        """The object under this key, the same for all requests that hold it at the same time."""
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = make()
        return cast("T", found)

    def queue(self, key: QueueKey) -> Queue:
        return self.shared(key, Queue)

    def race(self, key: QueueKey) -> Race:
        """The race for the next version of a table."""
        return Race(self.queue(key))

    @asynccontextmanager
    async def queues(self, keys: Iterable[TableQueue]) -> AsyncIterator[None]:
        """Hold several queues, always taken in the same order: otherwise two requests could wait for each other."""
        held: list[Queue] = []
        try:
            for key in sorted(set(keys), key=lambda each: each.keys):
                queue = self.queue(key)
                await queue.acquire()
                held.append(queue)
            yield
        finally:
            for queue in held:
                queue.release()

    @property
    def is_idle(self) -> bool:
        """Whether no request holds or awaits a queue."""
        return not self._shared

    def cache(self, kind: CacheKind[K, V]) -> Cache[K, V]:
        found = self._caches.get(kind)
        if found is None:
            found = self._caches[kind] = Cache(kind)
        return found

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work that must not end with the request that started it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def clear_caches(self) -> None:
        """Empty all caches, as a restart does."""
        for cache in self._caches.values():
            cache.clear()
