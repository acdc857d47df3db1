"""Iceberg tables of a share: their newest snapshot, described as readers of Delta Sharing expect it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from moorage.core.errors import InvalidInput, Unsupported
from moorage.core.securables import Securable
from moorage.usecases.iceberg.lookup import require_head
from moorage.usecases.iceberg.manifests import TableFiles, read_manifest_list, read_manifests
from moorage.usecases.iceberg.relations import load_found
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.reading import Reading, full_name, neutral_errors

if TYPE_CHECKING:
    from moorage.formats.delta.file_actions import DeletionVector
    from moorage.formats.sharing.from_iceberg import ContentFile
    from moorage.snapshots.partition_filter import PartitionFilter
    from moorage.snapshots.snapshot import Snapshot

_SNAPSHOTS: Final = CacheKind[tuple[str, int], Any](
    "shared Iceberg tables",
    limit=64 * 1024 * 1024,
    weigh=lambda snapshot: sum(size for _, size in snapshot.memory_usage()),
)
"""By table and version of its metadata."""
_MAX_VECTOR_BYTES: Final = 16 * 1024 * 1024
"""Responses contain the vectors, so a table with more of them has to be compacted first."""
_CONCURRENT_READS: Final = 8


class IcebergReading(Reading):
    """An Iceberg table, as one request reads it. Only its newest version can be read."""

    async def latest(self) -> Snapshot:
        with neutral_errors(self.shared):
            return await _snapshot(self.ports, self.shared.table)

    async def at(self, version: int) -> Snapshot:
        """The newest version, or one of which a page was read a moment ago."""
        self.require_shared(version)
        found = self.ports.local.cache(_SNAPSHOTS).get((self.shared.table.id, version))
        snapshot: Snapshot = await self.latest() if found is None else found
        if snapshot.version != version:
            raise InvalidInput(
                f"version {version} of table '{full_name(self.shared)}' cannot be read: of an Iceberg table, only the "
                f"newest version is shared, which is {snapshot.version}",
                field="version",
            )
        return snapshot

    async def at_time(self, moment: datetime) -> Snapshot:
        raise self._without_history()

    async def version_at(self, moment: datetime) -> int:
        raise self._without_history()

    async def version_from(self, moment: datetime) -> int:
        raise self._without_history()

    def partition_filter(self, snapshot: Snapshot) -> PartitionFilter:
        from moorage.formats.sharing.protocols import MAPPING_MODE

        if self.shared.partitions and MAPPING_MODE in snapshot.metadata.configuration:
            raise Unsupported(
                f"columns of table '{full_name(self.shared)}' were renamed, so the partition filter of its share "
                "cannot be applied; tell its provider"
            )
        return super().partition_filter(snapshot)

    def require_log(self) -> None:
        raise self._without_history()

    def _without_history(self) -> Unsupported:
        return Unsupported(
            f"table '{full_name(self.shared)}' is an Iceberg table, of which only the newest version is shared"
        )


async def _snapshot(ports: Ports, table: Securable) -> Snapshot:
    cache = ports.local.cache(_SNAPSHOTS)
    version = require_head(table).version
    found: Snapshot | None = cache.get((table.id, version))
    if found is None:
        found = await _read(ports, table, version)
        cache.put((table.id, version), found)
    return found


async def _read(ports: Ports, table: Securable, version: int) -> Snapshot:
    from moorage.formats.delta.replay import LogState, part_of, to_table
    from moorage.formats.sharing.from_iceberg import current_snapshot, describe, specs_of, vectors_of
    from moorage.snapshots.snapshot import Snapshot

    document = (await load_found(ports, table)).metadata.doc
    snapshot = current_snapshot(document)
    source = TableFiles(table.id, table.locations)
    listed = () if snapshot is None else await read_manifest_list(ports, source, snapshot)
    specs = specs_of(document)
    manifests = await read_manifests(ports, source, [each for each in listed if each.live != 0], specs)
    files = [file for manifest in manifests for file in manifest.files]
    vectors = await _vectors(ports, source, await asyncio.to_thread(vectors_of, files, specs))

    def build() -> Snapshot:
        shared = describe(document, files, specs, vectors)
        location = table.doc.location or ""
        state = LogState(
            version=version,
            protocol=shared.protocol,
            metadata=shared.metadata,
            parts=(part_of(to_table(shared.files)),) if shared.files else (),
        )
        return Snapshot(
            table=table.id,
            location=location if location.endswith("/") else f"{location}/",
            timestamp_ms=document["last-updated-ms"],
            protocol=shared.protocol,
            metadata=shared.metadata,
            state=state,
        )

    return await asyncio.to_thread(build)


async def _vectors(ports: Ports, source: TableFiles, named: Mapping[str, ContentFile]) -> dict[str, DeletionVector]:
    """The deletion vectors of data files, by data file. Each file of vectors is read once."""
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
        (start, end), (root, key) = spans[path], source.locate(path)
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
