"""Reads the tables of a share. What a recipient is told about a failure names no file and no location."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from moorage.core.errors import (
    Damaged,
    InvalidInput,
    MoorageError,
    TableNotFound,
    Unavailable,
    Unsupported,
    VersionNotFound,
)
from moorage.core.securables import MAIN, Securable
from moorage.snapshots.clock import to_ms
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.usecases.delta.lookup import STAGED_FOLDER, is_delta, is_managed, require_head
from moorage.usecases.iceberg.lookup import is_iceberg
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.shared_tables import SharedTable

if TYPE_CHECKING:
    from moorage.snapshots.partition_filter import PartitionFilter
    from moorage.snapshots.snapshot import Snapshot
    from moorage.snapshots.snapshots import Changes

_log = logging.getLogger(__name__)
_PAGE: Final = 1000


def full_name(shared: SharedTable) -> str:
    return f"{shared.share}.{shared.schema}.{shared.name}"


async def table_ref(ports: Ports, table: Securable) -> TableRef:
    """The table with its unpublished commits, so that recipients read every ratified version."""
    if not is_delta(table):
        raise Unsupported(f"'{table.name}' is not a Delta or Iceberg table; only these can be read through a share")
    location = table.doc.location or ""
    if not is_managed(table):
        return TableRef(id=table.id, location=location)
    head = require_head(table)
    # Version 0 was in the folder before it was ratified.
    first = max(1, (head.published or 0) + 1)
    ratified: list[Ratified] = []
    while first <= head.version:
        page = await ports.ledger.versions(table.id, MAIN, first=first, last=head.version, limit=_PAGE)
        ratified += [
            Ratified(version=each.version, path=STAGED_FOLDER + each.file, size=each.size, digest=each.digest)
            for each in page
        ]
        if len(page) < _PAGE:
            break
        first = page[-1].version + 1
    return TableRef(id=table.id, location=location, head=head.version, ratified=tuple(ratified), floor=head.floor)


@contextmanager
def neutral_errors(shared: SharedTable) -> Iterator[None]:
    """Replace errors about the files of a table by errors about the table."""
    try:
        yield
    except VersionNotFound as error:
        if not error.details:
            raise TableNotFound(f"table '{full_name(shared)}' has no data yet", name=shared.name) from error
        raise
    except (Damaged, InvalidInput) as error:
        raise _damaged(shared, error) from error
    except Unavailable as error:
        _log.warning("table %s of share %s cannot be read: %s", shared.table.id, shared.share, error.message)
        raise Unavailable(f"table '{full_name(shared)}' cannot be read now; retry later") from error


def _damaged(shared: SharedTable, error: MoorageError) -> Damaged:
    _log.error("table %s of share %s cannot be read: %s", shared.table.id, shared.share, error.message)
    return Damaged(f"table '{full_name(shared)}' cannot be read, because its log is damaged; tell its provider")


class Reading:
    """One table of a share, as one request reads it."""

    def __init__(self, ports: Ports, shared: SharedTable, ref: TableRef) -> None:
        self.ports = ports
        self.shared = shared
        self.ref = ref

    @classmethod
    async def open(cls, ports: Ports, shared: SharedTable) -> Reading:
        if is_iceberg(shared.table):
            from moorage.usecases.sharing.iceberg_tables import IcebergReading

            return IcebergReading(ports, shared, TableRef(id=shared.table.id, location=shared.table.doc.location or ""))
        return cls(ports, shared, await table_ref(ports, shared.table))

    async def latest(self) -> Snapshot:
        with neutral_errors(self.shared):
            newest = await self._newest()
        self.require_shared(newest.version)
        return newest

    async def _newest(self) -> Snapshot:
        return await self.ports.snapshots.at(self.ref)

    async def at(self, version: int) -> Snapshot:
        self.require_shared(version)
        with neutral_errors(self.shared):
            return await self.ports.snapshots.at(self.ref, version)

    async def at_time(self, moment: datetime) -> Snapshot:
        """The table as it was at a moment, which must not be before its first or after its last version."""
        latest = await self.latest()
        if to_ms(moment) > latest.timestamp_ms:
            raise InvalidInput(
                f"the timestamp {moment.isoformat()} is after the newest version of the table; "
                f"the newest is of {_iso(latest.timestamp_ms)}",
                field="timestamp",
            )
        return await self.at(await self.version_at(moment))

    async def version_at(self, moment: datetime) -> int:
        """The last version at or before a moment."""
        with neutral_errors(self.shared):
            return await self._last_until(moment)

    async def version_from(self, moment: datetime) -> int:
        """The first version at or after a moment."""
        latest = await self.latest()
        # Versions have times in whole milliseconds. The first one after a part of a millisecond is in the next.
        rest = timedelta(microseconds=-moment.microsecond % 1000)
        if to_ms(moment) + bool(rest) > latest.timestamp_ms:
            raise InvalidInput(
                f"the table has no version at or after {moment.isoformat()}; the newest is of "
                f"{_iso(latest.timestamp_ms)}",
                field="startingTimestamp",
            )
        with neutral_errors(self.shared):
            return await self._first_from(moment + rest)

    async def _last_until(self, moment: datetime) -> int:
        return await self.ports.snapshots.version_at(self.ref, moment)

    async def _first_from(self, moment: datetime) -> int:
        return await self.ports.snapshots.version_from(self.ref, moment)

    def partition_filter(self, snapshot: Snapshot) -> PartitionFilter:
        from moorage.snapshots.partition_filter import PartitionFilter

        with neutral_errors(self.shared):
            return PartitionFilter(self.shared.partitions, snapshot.schema, snapshot.metadata)

    def changes(self, first: int, last: int) -> AsyncIterator[Changes]:
        """The changes of each version from first to last. They may raise what `neutral_errors` replaces."""
        return self.ports.snapshots.changes(self.ref, first, last)

    def require_feed(self) -> None:
        """Raise Unsupported if no table of this format records a change data feed."""

    def require_history(self, what: str) -> None:
        if not self.shared.history:
            raise InvalidInput(
                f"{what} is not possible, because history sharing is not enabled for table '{full_name(self.shared)}'; "
                "read its newest version, or ask the provider to share the history",
                field=what,
            )

    def require_shared(self, version: int) -> None:
        start = self.shared.start_version
        if version < 0:
            raise InvalidInput(f"version {version} is negative; versions start at 0", field="version")
        if start is not None and version < start:
            raise InvalidInput(
                f"version {version} of table '{full_name(self.shared)}' is not shared; the first shared version is "
                f"{start}",
                field="version",
            )


def parse_timestamp(text: str, field: str) -> datetime:
    """Parse a timestamp in the ISO 8601 format with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInput(
            f"{field} {text!r} is not a timestamp with a time zone; write it like 2022-01-01T00:00:00Z", field=field
        )
    return moment


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
