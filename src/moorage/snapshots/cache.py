"""A cache of recently read snapshots with a limit in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moorage.snapshots.snapshot import Snapshot
    from moorage.storage.port import Listed


class SnapshotCache:
    """Evicts the least recently used snapshot first. Memory that several versions share is counted once."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._snapshots: OrderedDict[tuple[Hashable, int], Snapshot] = OrderedDict()
        self._versions: dict[Hashable, set[int]] = {}
        self._reference_counts: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._snapshots)

    def get(self, table: Hashable, version: int, seen: Listed | None) -> Snapshot | None:
        """Return the snapshot if its log file is still the one that it was read from."""
        snapshot = self._snapshots.get((table, version))
        if snapshot is None or snapshot.seen != seen:
            return None
        self._snapshots.move_to_end((table, version))
        return snapshot

    def versions(self, table: Hashable, *, up_to: int) -> list[int]:
        """Return the cached versions of a table, newest first."""
        return sorted((version for version in self._versions.get(table, ()) if version <= up_to), reverse=True)

    def put(self, table: Hashable, snapshot: Snapshot) -> None:
        self._drop((table, snapshot.version))
        self._snapshots[table, snapshot.version] = snapshot
        self._versions.setdefault(table, set()).add(snapshot.version)
        for held, _ in snapshot.memory_usage():
            self._reference_counts[id(held)] = self._reference_counts.get(id(held), 0) + 1
        self.update_size(table, snapshot)

    def update_size(self, table: Hashable, snapshot: Snapshot) -> None:
        """Measure a snapshot again, because bounds parsed for a predicate make it larger."""
        if self._snapshots.get((table, snapshot.version)) is not snapshot:
            return
        for held, size in snapshot.memory_usage():
            self.nbytes += size - self._sizes.get(id(held), 0)
            self._sizes[id(held)] = size
        while self.nbytes > self._budget and self._snapshots:
            self._drop(next(iter(self._snapshots)))

    def _drop(self, key: tuple[Hashable, int]) -> None:
        snapshot = self._snapshots.pop(key, None)
        if snapshot is None:
            return
        table, version = key
        self._versions[table].discard(version)
        if not self._versions[table]:
            del self._versions[table]
        for held, _ in snapshot.memory_usage():
            self._reference_counts[id(held)] -= 1
            if not self._reference_counts[id(held)]:
                del self._reference_counts[id(held)]
                self.nbytes -= self._sizes.pop(id(held), 0)
