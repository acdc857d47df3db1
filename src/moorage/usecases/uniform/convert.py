"""Delta tables for Iceberg clients: the versions that are missing are converted when one is asked for, or by a chore.

The line `iceberg` of a table records how far it is converted. Its versions are Delta's versions, and each names the
metadata file to read. A version that Iceberg cannot express is recorded with the reason and with the last good file.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from moorage.core.callers import SYSTEM, Caller
from moorage.core.entries import Commit, Done, HeadIs
from moorage.core.errors import Damaged, InvalidInput, TableNotFound, Unsupported, VersionNotFound
from moorage.core.ids import SecurableId
from moorage.core.securables import Securable
from moorage.ledger.faults import reach
from moorage.ledger.port import Version
from moorage.usecases.delta.lookup import UNIFORM, require_head
from moorage.usecases.formats import Projection
from moorage.usecases.iceberg.metadata_files import read_projected
from moorage.usecases.local_state import CacheKind, QueueKey
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.uniform.conversion import Conversion, convert_missing
from moorage.usecases.uniform.lines import CONVERTED, ICEBERG, REASON, REFUSED
from moorage.usecases.uniform.stated import is_description, require_description
from moorage.usecases.uniform.sweep import sweep_conversions

_ERRAND: Final = Errand(caller=SYSTEM, api="uniform", request="convert")


class ConversionQueue(QueueKey, frozen=True):
    """Conversions of one table. The second finds the result of the first."""

    table: str


_LAST: Final = CacheKind[SecurableId, Projection]("converted delta tables", limit=4096)
"""The newest conversion of each table that this server knows. It is current if its version is the table's."""


_READABLE: Final = CacheKind[str, str]("metadata files of clients that describe their version", limit=4096)


class DeltaToIceberg:
    """Makes the Iceberg metadata of managed Delta tables."""

    async def project(self, ports: Ports, table: Securable) -> Projection:
        """The table at its newest version, converted first if necessary. Unsupported if it cannot be."""
        latest = require_head(table).version
        stated = _stated_by_client(table)
        if stated is not None and stated.version == latest and await self._is_readable(ports, table, stated):
            return stated
        found = await self._recorded(ports, table, latest)
        if found is None:
            # A first conversion may take longer than the request, and continues without it.
            found = await asyncio.shield(ports.local.start(self._convert_in_turn(ports, table, latest)))
        if found.reason is not None:
            raise _refusal(table, latest, found)
        return replace(found, floor=require_head(table).floor)

    async def last_projection(
        self, ports: Ports, table: Securable, *, cached_only: bool = False, with_refused: bool = False
    ) -> Projection | None:
        """The newest version that was converted, by this server or by a client."""
        found = ports.local.cache(_LAST).get(table.id)
        is_current = found is not None and found.latest >= require_head(table).version
        if not is_current and (found is not None or not cached_only):
            found = await self._newest(ports, table.id)
        candidates = (found, _stated_by_client(table))
        known = [each for each in candidates if each is not None and (each.metadata_location or with_refused)]
        return max(known, key=lambda each: (each.version, not each.is_own), default=None)

    async def require_conversion(
        self, ports: Ports, root: str, location: str, version: int, *, data: bytes, table: Securable | None
    ) -> None:
        """Raise InvalidInput if there is a file at this location that does not describe the next version."""
        try:
            metadata = await read_projected(ports, root, location, version)
            await require_description(ports, root, metadata.doc, version, data=data, table=table)
        except VersionNotFound:
            return
        except InvalidInput as error:
            raise _not_described(location, version, error) from None

    async def sweep(self, ports: Ports, table: Securable) -> int:
        """Delete files that the newest conversion does not need. Returns the number of deleted files."""
        found = await self._newest(ports, table.id)
        if found is None or not found.metadata_location:
            return 0
        return await sweep_conversions(ports, table, found)

    async def _is_readable(self, ports: Ports, table: Securable, stated: Projection) -> bool:
        """Whether the file that a client stated can be used. It never changes once it can."""
        readable = ports.local.cache(_READABLE)
        if stated.metadata_location not in readable:
            if not await is_description(ports, table, stated.metadata_location, stated.version):
                return False
            readable.put(stated.metadata_location, table.id)
        return True

    async def _recorded(self, ports: Ports, table: Securable, latest: int) -> Projection | None:
        """What the ledger records about this version; None if it is not converted yet."""
        cached = ports.local.cache(_LAST)
        found = cached.get(table.id)
        if found is not None and found.latest >= latest:
            return found
        found = await self._newest(ports, table.id)
        if found is None:
            return None
        cached.put(table.id, found)
        return found if found.latest >= latest else None

    async def _newest(self, ports: Ports, table: SecurableId) -> Projection | None:
        rows = await ports.ledger.versions(table, ICEBERG, limit=1, descending=True)
        return await _projection(ports, rows[0]) if rows else None

    async def _convert_in_turn(self, ports: Ports, table: Securable, latest: int) -> Projection:
        async with ports.local.queue(ConversionQueue(table.id)):
            return await self._recorded(ports, table, latest) or await self._convert(ports, table)

    async def _convert(self, ports: Ports, table: Securable) -> Projection:
        async def prepare(_: Caller) -> Part:
            return await _prepare(ports, table.id)

        settled = await settle(ports, _ERRAND, prepare)
        reach("uniform.recorded")
        found: Projection | None = settled.parts[0].result if settled.parts else None
        found = found or await self._newest(ports, table.id)
        if found is None:
            raise Damaged(f"the conversion of '{table.name}' left no record", table=table.id)
        ports.local.cache(_LAST).put(table.id, found)
        return found


def _not_described(location: str, version: int, error: InvalidInput) -> InvalidInput:
    field = "uniform.iceberg.metadata_location"
    return InvalidInput(
        f"{field}: {location!r} is not the Iceberg metadata of version {version}: {error.message}; "
        "correct it, or omit uniform, and the server converts the version",
        field=field,
    )


def _refusal(table: Securable, latest: int, found: Projection) -> Unsupported:
    last = f"the last version that can be is {found.version}" if found.metadata_location else "no version can be"
    return Unsupported(
        f"version {latest} of Delta table '{table.name}' cannot be read as an Iceberg table: {found.reason}; {last}",
        reason=found.reason,
    )


def _stated_by_client(table: Securable) -> Projection | None:
    """The conversion that a client reported with a commit. It may have converted a version that is not ratified yet."""
    block = table.doc.details.get(UNIFORM)
    if block is None or block["converted_delta_version"] > require_head(table).version:
        return None
    return Projection(
        format=ICEBERG,
        metadata_location=block["metadata_location"],
        version=block["converted_delta_version"],
        latest=block["converted_delta_version"],
        converted_at=block["converted_delta_timestamp"],
        is_own=False,
    )


async def _projection(ports: Ports, row: Version) -> Projection:
    return Projection(
        format=ICEBERG,
        metadata_location=row.file,
        version=row.details[CONVERTED],
        latest=row.version,
        converted_at=row.timestamp_ms,
        document=await ports.ledger.document(row.table, ICEBERG, row.version),
        reason=row.details.get(REASON),
    )


async def _prepare(ports: Ports, id: SecurableId) -> Part:
    """The part that records the conversion of all missing versions; without changes if another server was faster."""
    chain = (await ports.ledger.lineage(id)).chain
    if not chain or not all(each.is_live for each in chain):
        raise TableNotFound(f"the table {id} was dropped while it was converted", id=id)
    table = chain[-1]
    rows = await ports.ledger.versions(id, ICEBERG, limit=1, descending=True)
    before = rows[0] if rows else None
    latest = require_head(table).version
    if before is not None and before.version >= latest:
        return Part(done=Done(ids=(id,)), result=await _projection(ports, before))
    made = await convert_missing(ports, chain, before)
    return _part(table, before, made, latest)


def _part(table: Securable, before: Version | None, made: Conversion, latest: int) -> Part:
    details = {CONVERTED: made.version, **({} if made.reason is None else {REASON: made.reason})}
    commit = Commit(
        table=table.id,
        ref=ICEBERG,
        version=latest,
        operation=made.operation if made.reason is None else REFUSED,
        file=made.location,
        size=made.size,
        timestamp_ms=made.timestamp_ms,
        details=details,
    )
    result = Projection(
        format=ICEBERG,
        metadata_location=made.location,
        version=made.version,
        latest=latest,
        converted_at=made.timestamp_ms,
        document=made.document,
        reason=made.reason,
    )
    return Part(
        expects=(HeadIs(table.id, ICEBERG, None if before is None else before.version),),
        changes=(commit,),
        attachments=made.attachments(table.id, latest),
        files=made.files,
        obsolete=made.obsolete,
        done=Done(ids=(table.id,), versions=(latest,)),
        result=result,
    )
