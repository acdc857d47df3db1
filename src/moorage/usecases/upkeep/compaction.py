"""Jobs about one table, requested by a user or by the server itself, and carried out by a worker."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Live, NewJob
from moorage.core.errors import InvalidInput
from moorage.core.job_options import OPTIONS, require_options
from moorage.core.jobs import COMPACT, Job
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.relations import reach_relation
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.upkeep.jobs import prepare_job, settle_job


async def compact(ports: Ports, errand: Errand, address: Address, *, target_file_size_mb: int | None) -> Job:
    """Enqueue a job that compacts the table. While such a job is open, return that one."""
    args = {} if target_file_size_mb is None else {"target_file_size_mb": target_file_size_mb}

    async def prepare(caller: Caller) -> Part:
        table = (await reach_relation(ports, caller, address, Privilege.MODIFY))[-1]
        if not ports.formats.of(table).is_compactable:
            found = table.doc.table.format if table.doc.table is not None else str(table.kind)
            raise InvalidInput(f"'{address}' is a {found}, which cannot be compacted", field="full_name", format=found)
        return await prepare_table_job(ports, table, COMPACT, args)

    return await settle_job(ports, errand, prepare)


async def request_job(ports: Ports, errand: Errand, address: Address, kind: str, args: dict[str, Any]) -> Job:
    """Enqueue a job about a table. While one of its kind is open for the table, return that one."""

    async def prepare(caller: Caller) -> Part:
        table = (await reach_relation(ports, caller, address, Privilege.MODIFY))[-1]
        found = ports.formats.of(table)
        if kind not in found.job_kinds or kind not in OPTIONS:
            kinds = ", ".join(sorted(found.job_kinds & OPTIONS.keys())) or "none"
            raise InvalidInput(f"kind {kind!r} does not exist for '{address}'; its kinds are {kinds}", field="kind")
        require_options(kind, args, found.name)
        return await prepare_table_job(ports, table, kind, args)

    return await settle_job(ports, errand, prepare)


async def prepare_table_job(ports: Ports, table: Securable, kind: str, args: dict[str, Any]) -> Part:
    """The part that creates a job about a table, or refers to the open job of its kind."""
    # A null value is treated as absent. It must not replace the retention that the table states.
    stated = {name: value for name, value in args.items() if value is not None}
    args = {**ports.formats.of(table).job_defaults(table, kind), **stated}
    # A dry run changes nothing, so it must not stand for a job that does.
    same = f"{kind}/{table.id}/dry_run" if args.get("dry_run") else f"{kind}/{table.id}"
    new = NewJob(id=fresh.job_id(), kind=kind, subject=table.id, dedupe=same, args=args)
    part = await prepare_job(ports, new)
    return replace(part, expects=(Live(table.id), *part.expects))
