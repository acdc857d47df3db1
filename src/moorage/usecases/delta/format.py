"""Delta's entry in the table of formats."""

from __future__ import annotations

from typing import ClassVar

from moorage.core.callers import Caller
from moorage.core.health import TableFacts
from moorage.core.securables import Securable
from moorage.formats.delta.uniform import is_iceberg_enabled
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.delta.health import table_facts
from moorage.usecases.delta.lookup import DELTA, UNIFORM, is_managed, require_head
from moorage.usecases.delta.operations import OPERATIONS
from moorage.usecases.delta.unratified import replace_published
from moorage.usecases.formats import Projection, TableFormat
from moorage.usecases.ports import Ports


class DeltaFormat(TableFormat):
    """The catalog ratifies the commits of managed tables. It does not ratify those of external tables."""

    name: ClassVar = DELTA
    is_compactable: ClassVar = True
    is_shareable: ClassVar = True
    operations: ClassVar = OPERATIONS

    def project(self, table: Securable) -> Projection | None:
        """The Iceberg metadata that a client reported with a commit (UniForm)."""
        if UNIFORM not in table.doc.details or not is_managed(table) or not is_iceberg_enabled(table.doc.properties):
            return None
        block, latest = table.doc.details[UNIFORM], require_head(table).version
        version = block["converted_delta_version"]
        if version > latest:  # a client that creates a table may have converted its next, unratified version
            return None
        location = block["metadata_location"]
        return Projection(
            format="iceberg", metadata_location=location, version=version, latest=latest, revision=table.revision
        )

    async def health(self, ports: Ports, caller: Caller, chain: Chain) -> TableFacts | None:
        return await table_facts(ports, chain[-1])

    async def replace_published(self, ports: Ports, table: Securable, version: int, ratified: bytes) -> bool:
        if not is_managed(table):
            return False
        await replace_published(ports, table, version, ratified)
        return True
