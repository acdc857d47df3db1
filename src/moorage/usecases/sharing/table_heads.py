"""The beginning of every response about a table: its version, its format, and its first two lines."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from moorage.formats.sharing.capabilities import Capabilities, ResponseFormat, choose_format
from moorage.formats.sharing.protocols import needed_features, shared_metadata, shared_protocol
from moorage.formats.sharing.table_lines import TableFacts, metadata_line, protocol_line
from moorage.usecases.delta.lookup import is_delta, is_managed
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.reading import Reading
from moorage.usecases.sharing.shared_tables import SharedTable

if TYPE_CHECKING:
    from moorage.formats.sharing.totals import Totals
    from moorage.snapshots.snapshot import Snapshot

_TOTALS: Final = CacheKind[Hashable, "Totals"]("totals of shared tables", limit=4096)
_LINES: Final = CacheKind[Hashable, bytes]("first lines of shared tables", limit=32 * 1024 * 1024, weigh=len)
"""Both by snapshot and terms of the share, which determine them."""


class TableHead(msgspec.Struct, frozen=True, kw_only=True):
    """What every response about a snapshot begins with."""

    version: int
    chosen: ResponseFormat
    lines: bytes


async def access_modes(ports: Ports, shared: SharedTable) -> tuple[str, ...]:
    """How recipients may read a table: `url`, and `dir` if its whole folder may be read without this server."""
    return ("url", "dir") if await offers_directory(ports, shared) else ("url",)


async def offers_directory(ports: Ports, shared: SharedTable) -> bool:
    """Whether recipients may get a key for the table's folder.

    The folder contains all rows and all versions. The newest versions of a managed table may not be in it yet.
    """
    is_whole = shared.history and not shared.partitions and shared.start_version is None
    is_external = is_delta(shared.table) and not is_managed(shared.table)
    if not (is_whole and is_external):
        return False
    store = await ports.stores.find(shared.table.doc.location or "")
    return store is not None and await store.vends()


async def totals_of_table(reading: Reading, snapshot: Snapshot) -> Totals:
    """Totals over all shared files of a snapshot."""
    from moorage.formats.sharing.totals import totals_of

    cache = reading.ports.local.cache(_TOTALS)
    key = (_identity(snapshot), reading.shared.partitions)
    found = cache.get(key)
    if found is None:
        parts = await reading.ports.snapshots.selections(snapshot, None, reading.partition_filter(snapshot))
        found = await asyncio.to_thread(totals_of, parts)
        cache.put(key, found)
    return found


async def table_head(
    reading: Reading, snapshot: Snapshot, capabilities: Capabilities, *, states_version: bool = False
) -> TableHead:
    """Choose the format of a response about a snapshot, and encode its first lines."""
    totals = await totals_of_table(reading, snapshot)
    needed = needed_features(snapshot.protocol, snapshot.metadata, has_vectors=totals.has_vectors)
    chosen = choose_format(capabilities, needed)
    modes = await access_modes(reading.ports, reading.shared)
    cache = reading.ports.local.cache(_LINES)
    key = (_identity(snapshot), reading.shared.partitions, reading.shared.history, chosen, modes, states_version)
    lines = cache.get(key)
    if lines is None:
        facts = TableFacts(
            version=snapshot.version if states_version else None,
            size=totals.size,
            num_files=totals.files,
            location=reading.shared.table.doc.location if "dir" in modes else None,
            access_modes=modes,
        )
        lines = protocol_line(shared_protocol(snapshot.protocol, needed), chosen) + metadata_line(
            shared_metadata(snapshot.metadata, needed), chosen, facts, history=reading.shared.history
        )
        cache.put(key, lines)
    return TableHead(version=snapshot.version, chosen=chosen, lines=lines)


def _identity(snapshot: Snapshot) -> tuple[Any, ...]:
    return (snapshot.table, snapshot.location, snapshot.version, snapshot.seen)
