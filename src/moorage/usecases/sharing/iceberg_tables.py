"""Iceberg tables of a share: their newest snapshot, described as readers of Delta Sharing expect it."""

from __future__ import annotations

import asyncio
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
    from moorage.snapshots.snapshot import Snapshot

_SNAPSHOTS: Final = CacheKind[tuple[str, int], Any](
    "shared Iceberg tables",
    limit=64 * 1024 * 1024,
    weigh=lambda snapshot: sum(size for _, size in snapshot.memory_usage()),
)
"""By table and version of its metadata."""


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
    from moorage.formats.sharing.from_iceberg import current_snapshot, describe, specs_of
    from moorage.snapshots.snapshot import Snapshot

    document = (await load_found(ports, table)).metadata.doc
    snapshot = current_snapshot(document)
    source = TableFiles(table.id, table.locations)
    listed = () if snapshot is None else await read_manifest_list(ports, source, snapshot)
    if any(each.is_deletes and each.live != 0 for each in listed):
        raise Unsupported(
            f"rows of '{table.name}' were deleted by delete files, which Delta Sharing cannot express; "
            "compact the table"
        )
    specs = specs_of(document)
    manifests = await read_manifests(ports, source, [each for each in listed if each.live != 0], specs)

    def build() -> Snapshot:
        shared = describe(document, [file for manifest in manifests for file in manifest.files], specs)
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
