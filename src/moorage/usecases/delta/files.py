"""The files of a Delta table at a version, for writers that replace them and readers without a log reader."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.securables import MAIN, Securable
from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.file_actions import AddFile
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.delta.history import PAGE_SIZE
from moorage.usecases.delta.lookup import STAGED_FOLDER, is_managed, require_head
from moorage.usecases.delta.updates import load_delta_table
from moorage.usecases.ports import Ports


class TableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a table at one version, with a page of its files."""

    table_id: str
    location: str
    version: int
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    domains: tuple[str, ...]
    transactions: dict[str, int]
    """The last transaction of each application."""
    file_count: int
    files: list[AddFile]


async def files_at(
    ports: Ports,
    caller: Caller,
    address: Address,
    *,
    version: int | None = None,
    timestamp_ms: int | None = None,
    offset: int = 0,
    limit: int,
) -> TableFiles:
    """The table at a version or at a moment, by default at its newest version, with its files from `offset` on."""
    # Not at the start: it imports Arrow, which a server without Delta tables does not need.
    from moorage.formats.delta.replay import to_files

    if version is not None and timestamp_ms is not None:
        raise InvalidInput("version and timestamp_ms cannot be combined; send one of them", field="version")
    table = await load_delta_table(ports, caller, address)
    when = version if timestamp_ms is None else _moment(timestamp_ms)
    snapshot = await ports.snapshots.at(await table_ref(ports, table), when)
    return TableFiles(
        table_id=table.id,
        location=table.doc.location or "",
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        domains=tuple(sorted(snapshot.domains)),
        transactions={app: txn.version for app, txn in snapshot.transactions.items()},
        file_count=snapshot.count,
        files=await asyncio.to_thread(lambda: to_files(snapshot.select().slice(offset, limit))),
    )


def _moment(timestamp_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        raise InvalidInput(f"timestamp_ms {timestamp_ms} is not a time", field="timestamp_ms") from None


async def table_ref(ports: Ports, table: Securable) -> TableRef:
    """A table as the snapshot reader needs it: with the commits that its folder may not contain yet."""
    location = table.doc.location or ""
    if not is_managed(table):
        await require_reachable(ports, location)
        return TableRef(id=table.id, location=location)
    head = require_head(table)
    ratified: list[Ratified] = []
    first = (head.published or 0) + 1
    while page := await ports.ledger.versions(table.id, MAIN, first=first, last=head.version, limit=PAGE_SIZE):
        ratified += [
            Ratified(version=row.version, path=STAGED_FOLDER + row.file, size=row.size, digest=row.digest)
            for row in page
        ]
        first = page[-1].version + 1
    return TableRef(id=table.id, location=location, head=head.version, ratified=tuple(ratified), floor=head.floor)
