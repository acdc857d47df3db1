"""Compaction of a table's files, requested by its owner and carried out by a worker."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Live, NewJob
from moorage.core.errors import InvalidInput
from moorage.core.jobs import COMPACT, Job
from moorage.core.privileges import Privilege
from moorage.core.rewrites import RewriteOptions
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.relations import reach_relation
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.upkeep.jobs import prepare_job, settle_job


async def compact(ports: Ports, errand: Errand, address: Address, options: RewriteOptions) -> Job:
    """Enqueue a job that compacts the table. While such a job is open, return that one."""

    return await settle_job(ports, errand, lambda caller: _prepare_compaction(ports, caller, address, options))


async def _prepare_compaction(ports: Ports, caller: Caller, address: Address, options: RewriteOptions) -> Part:
    table = (await reach_relation(ports, caller, address, Privilege.MODIFY))[-1]
    if not ports.formats.of(table).is_compactable:
        found = table.doc.table.format if table.doc.table is not None else str(table.kind)
        raise InvalidInput(f"'{address}' is a {found}, which cannot be compacted", field="full_name", format=found)
    args = msgspec.to_builtins(options)
    new = NewJob(id=fresh.job_id(), kind=COMPACT, subject=table.id, dedupe=f"{COMPACT}/{table.id}", args=args)
    part = await prepare_job(ports, new)
    return replace(part, expects=(Live(table.id), *part.expects))
