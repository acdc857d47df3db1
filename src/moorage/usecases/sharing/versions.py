"""The version and the metadata of a shared table."""

from __future__ import annotations

from moorage.core.errors import InvalidInput
from moorage.formats.sharing.capabilities import Capabilities
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.reading import Reading, parse_timestamp
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.table_heads import TableHead, table_head


async def find_version(ports: Ports, shared: SharedTable, starting_timestamp: str | None) -> int:
    """The newest version of a table, or the first one at or after a moment."""
    reading = await Reading.open(ports, shared)
    if starting_timestamp is None:
        return (await reading.latest()).version
    reading.require_history("startingTimestamp")
    version = await reading.version_from(parse_timestamp(starting_timestamp, "startingTimestamp"))
    reading.require_shared(version)
    return version


async def read_metadata(
    ports: Ports, shared: SharedTable, capabilities: Capabilities, *, version: int | None, timestamp: str | None
) -> TableHead:
    """The protocol and the metadata of a table, at its newest version or at the one that is asked for."""
    reading = await Reading.open(ports, shared)
    if version is not None and timestamp is not None:
        raise InvalidInput("only one of version and timestamp can be set", field="version")
    if version is not None:
        reading.require_history("version")
        snapshot = await reading.at(version)
    elif timestamp is not None:
        reading.require_history("timestamp")
        snapshot = await reading.at_time(parse_timestamp(timestamp, "timestamp"))
    else:
        snapshot = await reading.latest()
    is_pinned = version is not None or timestamp is not None
    return await table_head(reading, snapshot, capabilities, states_version=is_pinned)
