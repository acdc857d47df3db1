"""Delta's entry in the table of formats."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.health import TableFacts
from moorage.core.job_options import CheckpointOptions, CompactOptions, ExpireOptions
from moorage.core.jobs import CHECKPOINT, COMPACT, EXPIRE, STATISTICS, VACUUM, Job
from moorage.core.rewrites import Checkpointed, Expired, OfferResult, Shadow, StatisticsAdded
from moorage.core.securables import Securable
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.delta import checkpoints, rewrites, statistics, vacuum
from moorage.usecases.delta.health import table_facts
from moorage.usecases.delta.lookup import DELTA, is_managed, is_uniform
from moorage.usecases.delta.operations import OPERATIONS
from moorage.usecases.delta.unratified import replace_published
from moorage.usecases.formats import Converter, TableFormat
from moorage.usecases.ports import Errand, Ports


class DeltaFormat(TableFormat):
    """The catalog ratifies the commits of managed tables. It does not ratify those of external tables."""

    name: ClassVar = DELTA
    is_compactable: ClassVar = True
    job_kinds: ClassVar = frozenset({CHECKPOINT, COMPACT, EXPIRE, STATISTICS, VACUUM})
    is_shareable: ClassVar = True
    operations: ClassVar = OPERATIONS

    def __init__(self, converter: Converter) -> None:
        self.converter: Converter = converter

    def readable_as(self, table: Securable, above: tuple[Securable, ...]) -> str | None:
        """Iceberg clients can read managed tables with UniForm."""
        return "iceberg" if is_managed(table) and is_uniform(table, above) else None

    async def health(self, ports: Ports, caller: Caller, chain: Chain) -> TableFacts | None:
        facts, table = await table_facts(ports, chain[-1]), chain[-1]
        if self.readable_as(table, chain[:-1]) is None:
            return facts
        found = await self.converter.last_projection(ports, table, with_refused=True)
        return facts if found is None else replace(facts, refused_conversion=found.reason)

    async def next_shadow(
        self, ports: Ports, errand: Errand, table: Securable, options: CompactOptions
    ) -> Shadow | None:
        return await rewrites.next_shadow(ports, errand, table, options)

    async def accept_offer(
        self, ports: Ports, errand: Errand, table: Securable, folder: str, base_version: int
    ) -> OfferResult:
        return await rewrites.offer(ports, errand, table, folder, base_version)

    async def sweep(self, ports: Ports, table: Securable, ref: str, published: int) -> None:
        await self.converter.sweep(ports, table)

    async def announce_expiry(self, ports: Ports, errand: Errand, table: Securable, options: ExpireOptions) -> Expired:
        return await vacuum.announce(ports, errand, table, options)

    async def delete_expired(self, ports: Ports, table: Securable, job: Job) -> Expired:
        return await vacuum.delete(ports, table, job)

    async def write_checkpoint(self, ports: Ports, table: Securable, options: CheckpointOptions) -> Checkpointed:
        return await checkpoints.write_checkpoint(ports, table, commits_only=options.commits_only)

    async def add_statistics(
        self, ports: Ports, errand: Errand, table: Securable, after: str | None
    ) -> StatisticsAdded:
        return await statistics.add_statistics(ports, errand, table, after)

    async def replace_published(self, ports: Ports, table: Securable, version: int, ratified: bytes) -> bool:
        if not is_managed(table):
            return False
        await replace_published(ports, table, version, ratified)
        return True
