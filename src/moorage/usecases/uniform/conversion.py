"""Converts the versions of a Delta table that follow the last converted one: reads what is needed, converts on a
thread, and returns the files to write and what to record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from moorage import fresh
from moorage.core.entries import Attachment
from moorage.core.errors import Damaged, VersionNotFound
from moorage.core.ids import SecurableId
from moorage.core.securables import Securable
from moorage.core.versions import VersionKind
from moorage.formats.delta import row_ids
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.packed import pack
from moorage.formats.iceberg.table_metadata import following, parse_table
from moorage.ledger.faults import reach
from moorage.ledger.port import Version
from moorage.snapshots.snapshots import Changes
from moorage.snapshots.table_ref import TableRef
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.lookup import UNIFORM_TIME_ZONE, nearest_property, require_head, state_of
from moorage.usecases.iceberg.metadata_files import Metadata as IcebergMetadata
from moorage.usecases.iceberg.metadata_files import read_metadata
from moorage.usecases.iceberg.projections import available_from
from moorage.usecases.local_state import QueueKey
from moorage.usecases.parts import File, NewFile
from moorage.usecases.ports import Ports
from moorage.usecases.uniform.lines import CONVERTED, FOLDER, ICEBERG
from moorage.usecases.uniform.reading import ConvertedFiles

if TYPE_CHECKING:
    from moorage.uniform.conversion import Base, Made
    from moorage.uniform.tables import Table

_MOST_SNAPSHOTS: Final = 500
"""Older ones are left out. Every conversion writes the list of snapshots, so a long one makes commits slow."""
_KINDS: Final = {"append": VersionKind.APPEND, "replace": VersionKind.REWRITE}


class FullConversionQueue(QueueKey, frozen=True):
    """Conversions of tables from all their files."""


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A converted table, to be recorded."""

    version: int
    """The version that the metadata describes; -1 if there is no metadata."""
    timestamp_ms: int
    location: str
    size: int
    document: bytes | None
    operation: str
    files: tuple[NewFile, ...] = ()
    obsolete: tuple[File, ...] = ()
    reason: str | None = None

    def attachments(self, table: SecurableId, version: int) -> tuple[Attachment, ...]:
        if self.document is None:
            return ()
        return (Attachment(table=table, ref=ICEBERG, version=version, document=self.document),)


async def convert_missing(ports: Ports, chain: tuple[Securable, ...], before: Version | None) -> Conversion:
    """Convert all versions of a table after `before`, which is the newest record of its conversions."""
    # On a thread, because loading Arrow takes longer than most requests.
    await asyncio.to_thread(_load_modules)
    reach("uniform.begun")
    run = _Run(ports, chain, await table_ref(ports, chain[-1]))
    await run.start(before)
    reason = await run.convert()
    reach("uniform.converted")
    return run.result(reason)


def _load_modules() -> None:
    import moorage.uniform.conversion  # noqa: F401


class _Run:
    """One conversion of the missing versions of a table."""

    def __init__(self, ports: Ports, chain: tuple[Securable, ...], ref: TableRef) -> None:
        table = chain[-1]
        self._ports, self._table, self._ref = ports, table, ref
        self._time_zone = nearest_property(UNIFORM_TIME_ZONE, table, chain[:-1])
        self._latest = require_head(table).version
        self._files = ConvertedFiles(ports, table)
        self._token = fresh.draft_id()
        self._before: IcebergMetadata | None = None
        self._converted = -1
        """The newest version that the ledger records as converted."""
        self._converted_ms = 0
        self._made: Made | None = None

    async def start(self, before: Version | None) -> None:
        """Load the metadata of the last conversion. Without it, the table is converted from all its files."""
        if before is None or not before.file:
            return
        packed = await self._ports.ledger.document(before.table, ICEBERG, before.version)
        if packed is not None:
            self._before = IcebergMetadata.from_ledger(packed)
        else:
            self._before = await read_metadata(self._ports, before.file, parse_table, within=self._files.root)
        self._converted, self._converted_ms = before.details[CONVERTED], before.timestamp_ms

    async def convert(self) -> str | None:
        """Convert the missing versions. Returns the reason why the newest one cannot be, if there is one."""
        from moorage.uniform.conversion import NeedsAllFiles
        from moorage.uniform.refusals import Refused

        if self._before is not None and self._latest - self._converted <= _MOST_SNAPSHOTS:
            try:
                await self._convert_each(self._before)
                return None
            except Refused as refused:
                good = self._converted if self._made is None else _version_of(self._made.doc)
                if good + 1 == self._latest:
                    return str(refused)
            except (NeedsAllFiles, VersionNotFound, Damaged):
                pass  # a damaged file of an earlier conversion is replaced, because no other file depends on it
        made, files = self._made, dict(self._files.made)
        try:
            # A later version may be expressible again.
            await self._convert_all()
        except Refused as refused:
            self._made, self._files.made = made, files
            return str(refused)
        return None

    async def _convert_each(self, before: IcebergMetadata) -> None:
        from moorage.uniform.conversion import Base

        base = Base(before.doc, await self._files.manifest_list(before.doc))
        changes = self._ports.snapshots.changes(self._ref, self._converted + 1, self._latest)
        missing = [change async for change in changes]
        protocol, metadata = await self._state_before(missing)
        for each in missing:
            protocol, metadata = each.commit.protocol or protocol, each.commit.metadata or metadata
            made = await self._convert_one(base, each, self._described(protocol, metadata))
            await self._files.add(made.files, made.paths)
            self._made, base = made, made.base

    async def _state_before(self, missing: Sequence[Changes]) -> tuple[Protocol, Metadata]:
        """Protocol and metadata at the last converted version."""
        if any(each.commit.protocol or each.commit.metadata for each in missing):
            snapshot = await self._ports.snapshots.at(self._ref, self._converted)
            return snapshot.protocol, snapshot.metadata
        state = state_of(self._ports, self._table)
        return state.protocol, state.metadata

    def _described(self, protocol: Protocol, metadata: Metadata) -> Table:
        from moorage.uniform.tables import Table

        return Table(
            id=self._table.id,
            root=self._files.root,
            protocol=protocol,
            metadata=metadata,
            time_zone=self._time_zone,
        )

    async def _convert_one(self, base: Base, changes: Changes, table: Table) -> Made:
        from moorage.uniform.changes import change_of, uncounted_files
        from moorage.uniform.conversion import Facts, convert_next, to_merge, touched

        change = await asyncio.to_thread(
            change_of,
            table.root,
            changes.commit,
            timestamp_ms=changes.timestamp_ms,
            row_id_mark=_row_id_mark(changes.commit.domains),
        )
        merging = [record["manifest_path"] for record in to_merge(base.listed)]
        manifests = await self._files.manifests_naming(base.listed, touched(change))
        facts = Facts(
            manifests={**manifests, **await self._files.read_all(merging)},
            frames=await self._files.frames(change.vectors),
            rows=await self._files.row_counts(uncounted_files(change)),
        )
        return await asyncio.to_thread(convert_next, table, base, change, facts=facts, token=self._token)

    async def _convert_all(self) -> None:
        """Convert the newest version from all its files, without the versions before it."""
        self._files.made.clear()
        self._made = None
        # Each takes hundreds of megabytes for a large table, so they are made one at a time.
        async with self._ports.local.queue(FullConversionQueue()):
            self._made = await self._convert_files()
        await self._files.add(self._made.files, self._made.paths)

    async def _convert_files(self) -> Made:
        from moorage.uniform.changes import Change, unread_files
        from moorage.uniform.conversion import Facts, convert_all

        snapshot = await self._ports.snapshots.at(self._ref, self._latest)
        files = await self._ports.snapshots.files(snapshot)
        vectors, uncounted = await asyncio.to_thread(unread_files, files, self._files.root)
        facts = Facts(frames=await self._files.frames(vectors), rows=await self._files.row_counts(uncounted))
        change = Change(
            version=self._latest,
            timestamp_ms=snapshot.timestamp_ms,
            row_id_mark=_row_id_mark(snapshot.domains.values()),
        )
        base = None if self._before is None else self._before.doc
        table = self._described(snapshot.protocol, snapshot.metadata)
        return await asyncio.to_thread(convert_all, table, files, change, base=base, facts=facts, token=self._token)

    # --- the result -------------------------------------------------------------------------------

    def result(self, reason: str | None) -> Conversion:
        if self._made is None:
            return self._unchanged(reason)
        doc = _without_expired(self._made.doc, require_head(self._table).floor)
        self._files.add_list(doc, self._made.listed)
        snapshot = doc["snapshots"][-1]
        if self._before is not None:
            doc = following(doc, self._before.doc, self._before.location)
        name = f"{FOLDER}{_version_of(doc):05d}-{self._token}.metadata.json"
        metadata = IcebergMetadata.new(f"{self._files.root}{name}", doc, self._before)
        root = self._files.root
        made = {**self._files.made, metadata.location: metadata.body}
        return Conversion(
            version=_version_of(doc),
            timestamp_ms=int(doc["properties"]["delta-timestamp"]),
            location=metadata.location,
            size=len(metadata.answer),
            document=pack(metadata.answer) if metadata.is_in_ledger else None,
            operation=_KINDS.get(snapshot["summary"]["operation"], VersionKind.CHANGE).value,
            files=tuple(NewFile(root, path.removeprefix(root), data) for path, data in made.items()),
            reason=reason,
        )

    def _unchanged(self, reason: str | None) -> Conversion:
        """No version was converted: the last good one stays."""
        before = self._before
        stored = before if before is not None and before.is_in_ledger else None
        return Conversion(
            version=self._converted,
            timestamp_ms=self._converted_ms,
            location="" if before is None else before.location,
            size=0 if before is None else len(before.answer),
            document=None if stored is None else pack(stored.answer),
            operation=VersionKind.METADATA.value,
            reason=reason,
        )


def _row_id_mark(domains: Iterable[DomainMetadata]) -> int | None:
    found = next((each for each in domains if each.domain == row_ids.DOMAIN and not each.removed), None)
    return None if found is None else row_ids.high_water_mark_of(found)


def _version_of(doc: Document) -> int:
    return int(doc["properties"]["delta-version"])


def _without_expired(doc: Document, floor: int) -> Document:
    """The metadata without snapshots of versions that Delta no longer has, and without more than a limit."""
    newest = doc["snapshots"][-_MOST_SNAPSHOTS:]
    return available_from(doc, max(floor, newest[0]["sequence-number"]))
