"""Iceberg tables of a share: their snapshots, described as readers of Delta Sharing expect them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moorage.core.errors import Unsupported, VersionNotFound
from moorage.core.securables import MAIN, Securable
from moorage.snapshots.clock import to_ms
from moorage.usecases.iceberg.lookup import require_head
from moorage.usecases.iceberg.manifests import TableFiles, read_manifest_list, read_manifests
from moorage.usecases.iceberg.metadata_files import load_version
from moorage.usecases.iceberg.relations import load_found
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.reading import Reading, full_name, neutral_errors
from moorage.usecases.sharing.shared_tables import SharedTable

if TYPE_CHECKING:
    from moorage.formats.delta.file_actions import DeletionVector
    from moorage.formats.sharing.from_iceberg import ContentFile, Document
    from moorage.snapshots.partition_filter import PartitionFilter
    from moorage.snapshots.snapshot import Snapshot
    from moorage.snapshots.snapshots import Changes

_log = logging.getLogger(__name__)

_Key: TypeAlias = tuple[str, int, str | None, bool]
"""Table, version of its metadata, location of the table, and whether its share has a partition filter."""
_SNAPSHOTS: Final = CacheKind[_Key, Any](
    "shared Iceberg tables",
    limit=64 * 1024 * 1024,
    weigh=lambda snapshot: sum(size for _, size in snapshot.memory_usage()),
)
_MAX_VECTOR_BYTES: Final = 16 * 1024 * 1024
"""Responses contain the vectors, so a table with more of them has to be compacted first."""
_CONCURRENT_READS: Final = 8
_PAGE: Final = 1000


class IcebergReading(Reading):
    """An Iceberg table, as one request reads it: at any version whose snapshot the table still has."""

    async def _newest(self) -> Snapshot:
        return await _snapshot(self.ports, self.shared, require_head(self.shared.table).version)

    async def at(self, version: int) -> Snapshot:
        self.require_shared(version)
        with neutral_errors(self.shared):
            return await _snapshot(self.ports, self.shared, version)

    async def _last_until(self, moment: datetime) -> int:
        found = await self._last_where(lambda at_ms: at_ms <= to_ms(moment))
        if found is None:
            raise VersionNotFound(
                f"the table has no version committed at or before {moment.isoformat()}",
                oldest=require_head(self.shared.table).floor,
            )
        return found

    async def _first_from(self, moment: datetime) -> int:
        before = await self._last_where(lambda at_ms: at_ms < to_ms(moment))
        return require_head(self.shared.table).floor if before is None else before + 1

    async def _last_where(self, holds: Callable[[int], bool]) -> int | None:
        """The last version whose time meets a condition."""
        last = require_head(self.shared.table).version
        while last >= 0:
            page = await self.ports.ledger.versions(self.shared.table.id, MAIN, last=last, limit=_PAGE, descending=True)
            found = next((each.version for each in page if holds(each.timestamp_ms)), None)
            if found is not None or len(page) < _PAGE:
                return found
            last = page[-1].version - 1
        return None

    def partition_filter(self, snapshot: Snapshot) -> PartitionFilter:
        from moorage.formats.sharing.protocols import MAPPING_MODE

        if self.shared.partitions and MAPPING_MODE in snapshot.metadata.configuration:
            raise Unsupported(
                f"files of table '{full_name(self.shared)}' may have other names for its columns, so the partition "
                "filter of its share cannot be applied; tell its provider"
            )
        return super().partition_filter(snapshot)

    async def changes(self, first: int, last: int) -> AsyncIterator[Changes]:
        """The difference of each version to the one before it."""
        from moorage.formats.delta.replay import LogState
        from moorage.formats.sharing.iceberg_changes import changes_rows, commit_between
        from moorage.snapshots.snapshots import Changes

        before = None if first == 0 else await _at(self.ports, self.shared, first - 1)
        for version in range(first, last + 1):
            after = await _at(self.ports, self.shared, version)
            state, document = (LogState(), None) if before is None else (before.snapshot.state, before.document)
            data_change = changes_rows(document, after.document)
            commit = await asyncio.to_thread(commit_between, state, after.snapshot.state, data_change=data_change)
            yield Changes(version=version, timestamp_ms=after.snapshot.timestamp_ms, commit=commit)
            before = after

    def require_feed(self) -> None:
        raise Unsupported(
            f"table '{full_name(self.shared)}' is an Iceberg table, which records no change data feed; read its "
            "versions, or stream its files from a startingVersion on"
        )


class _Version(NamedTuple):
    """A version with its metadata."""

    document: Document
    snapshot: Snapshot


async def _snapshot(ports: Ports, shared: SharedTable, version: int) -> Snapshot:
    if version == require_head(shared.table).version:
        found: Snapshot | None = ports.local.cache(_SNAPSHOTS).get(_key(shared, version))
        if found is not None:
            return found
    return (await _at(ports, shared, version)).snapshot


async def _at(ports: Ports, shared: SharedTable, version: int) -> _Version:
    table = shared.table
    is_newest = version == require_head(table).version
    document = await (_newest(ports, table) if is_newest else _older(ports, table, version))
    cache, key = ports.local.cache(_SNAPSHOTS), _key(shared, version)
    found: Snapshot | None = cache.get(key)
    if found is None:
        found = await _read(ports, shared, version, document)
        cache.put(key, found)
    return _Version(document, found)


def _key(shared: SharedTable, version: int) -> _Key:
    return (shared.table.id, version, shared.table.doc.location, bool(shared.partitions))


async def _newest(ports: Ports, table: Securable) -> Document:
    return (await load_found(ports, table)).metadata.doc


async def _older(ports: Ports, table: Securable, version: int) -> Document:
    """The metadata of an older version, whose snapshot the table must still have: else its files may be deleted."""
    head = require_head(table).version
    found = await load_version(ports, table, version) if version < head else None
    snapshot = None if found is None else found.doc.get("current-snapshot-id")
    kept = {None, *(each["snapshot-id"] for each in (await _newest(ports, table)).get("snapshots", ()))}
    if found is None or snapshot not in kept:
        raise VersionNotFound(
            f"version {version} of the table does not exist or is no longer available; the newest version is {head}",
            version=version,
        )
    return found.doc


async def _read(ports: Ports, shared: SharedTable, version: int, document: Document) -> Snapshot:
    from moorage.formats.delta.replay import LogState, part_of, to_table
    from moorage.formats.sharing.from_iceberg import current_snapshot, describe, specs_of, vectors_of
    from moorage.snapshots.snapshot import Snapshot

    table = shared.table
    snapshot = current_snapshot(document)
    source = TableFiles(table.id, table.locations)
    specs = specs_of(document)
    with _naming_no_file(shared):
        listed = () if snapshot is None else await read_manifest_list(ports, source, snapshot)
        manifests = await read_manifests(ports, source, [each for each in listed if each.live != 0], specs)
    files = [file for manifest in manifests for file in manifest.files]
    named = await asyncio.to_thread(vectors_of, files, specs)
    with _naming_no_file(shared):
        places = {vector.path: source.locate(vector.path) for vector in named.values()}
    vectors = await _vectors(ports, places, named)

    def build() -> Snapshot:
        location = table.doc.location or ""
        location = location if location.endswith("/") else f"{location}/"
        is_filtered = bool(shared.partitions)
        described = describe(document, files, specs, vectors, root=location, is_filtered=is_filtered)
        state = LogState(
            version=version,
            protocol=described.protocol,
            metadata=described.metadata,
            parts=(part_of(to_table(described.files)),) if described.files else (),
        )
        return Snapshot(
            table=table.id,
            location=location,
            timestamp_ms=document["last-updated-ms"],
            protocol=described.protocol,
            metadata=described.metadata,
            state=state,
        )

    return await asyncio.to_thread(build)


@contextmanager
def _naming_no_file(shared: SharedTable) -> Iterator[None]:
    """Replace the reason why the files of a snapshot cannot be read, which names one of them."""
    try:
        yield
    except Unsupported as error:
        _log.warning("table %s of share %s cannot be read: %s", shared.table.id, shared.share, error.message)
        raise Unsupported(
            f"table '{full_name(shared)}' has metadata files that are too large or outside of its location, so it "
            "cannot be read through a share; tell its provider"
        ) from error


async def _vectors(
    ports: Ports, places: Mapping[str, tuple[str, str]], named: Mapping[str, ContentFile]
) -> dict[str, DeletionVector]:
    """The deletion vectors of data files, by data file. Each file of vectors is read once.

    `places` are the locations of the files of vectors, and their keys.
    """
    from moorage.formats.sharing.from_iceberg import to_vector

    by_file: defaultdict[str, list[tuple[str, ContentFile]]] = defaultdict(list)
    for data_file, vector in named.items():
        by_file[vector.path].append((data_file, vector))
    spans = {path: _span([vector for _, vector in some]) for path, some in by_file.items()}
    if sum(end - start for start, end in spans.values()) > _MAX_VECTOR_BYTES:
        raise Unsupported(
            f"the deletion vectors of the table have more than {_MAX_VECTOR_BYTES} bytes, which is too much to share; "
            "compact the table"
        )
    turns = asyncio.Semaphore(_CONCURRENT_READS)
    found: dict[str, DeletionVector] = {}

    async def read(path: str) -> None:
        (start, end), (root, key) = spans[path], places[path]
        async with turns:
            data = await ports.storage.read_range(root, key, start=start, end=end) or b""
        for data_file, vector in by_file[path]:
            first, length = (vector.offset or 0) - start, vector.length or 0
            found[data_file] = to_vector(vector, data[first : first + length])

    await asyncio.gather(*map(read, by_file))
    return found


def _span(vectors: list[ContentFile]) -> tuple[int, int]:
    """The part of a file that contains these vectors."""
    starts = [vector.offset or 0 for vector in vectors]
    ends = [start + (vector.length or 0) for start, vector in zip(starts, vectors, strict=True)]
    return min(starts), max(ends)
