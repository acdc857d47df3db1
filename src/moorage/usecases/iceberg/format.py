"""Iceberg's entry in the table of formats."""

from __future__ import annotations

from typing import ClassVar

from moorage.core.callers import Caller
from moorage.core.health import TableFacts
from moorage.core.jobs import COMPACT, EXPIRE, ORPHANS
from moorage.core.revisions import Revision
from moorage.core.securables import Securable
from moorage.ledger.port import Version
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.formats import TableFormat
from moorage.usecases.iceberg.descriptions import prepare_revision
from moorage.usecases.iceberg.health import table_facts
from moorage.usecases.iceberg.lookup import ICEBERG, SNAPSHOT
from moorage.usecases.iceberg.metadata_files import rebuild_file
from moorage.usecases.iceberg.operations import OPERATIONS
from moorage.usecases.iceberg.purge import delete_files_of
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Ports


class IcebergFormat(TableFormat):
    """Iceberg tables and views. The catalog writes their metadata files."""

    name: ClassVar = ICEBERG
    is_compactable: ClassVar = True
    is_shareable: ClassVar = True
    job_kinds: ClassVar = frozenset({COMPACT, EXPIRE, ORPHANS})
    is_rewritten_in_quiet: ClassVar = True
    operations: ClassVar = OPERATIONS

    def stated_version(self, version: Version) -> int | None:
        snapshot = version.details.get(SNAPSHOT)
        return snapshot if isinstance(snapshot, int) and snapshot >= 0 else None

    async def revise(self, ports: Ports, caller: Caller, chain: Chain, revision: Revision) -> Part | None:
        return await prepare_revision(ports, caller, chain, revision)

    async def health(self, ports: Ports, caller: Caller, chain: Chain) -> TableFacts | None:
        return await table_facts(ports, chain[-1])

    async def rebuild_file(self, document: bytes, location: str) -> NewFile:
        return await rebuild_file(document, location)

    async def delete_files(self, ports: Ports, table: Securable) -> None:
        await delete_files_of(ports, table)
