"""Register and run pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.cron import parse_schedule
from moorage.core.entries import Done, Live, NewJob, RevisionIs, Update
from moorage.core.jobs import PIPELINE, Job
from moorage.core.names import require_name
from moorage.core.pipelines import SOURCES, Definition, definition_of, digest_of, require_project, to_details
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable
from moorage.usecases.catalog.addresses import Address, find_chain, reach
from moorage.usecases.catalog.objects import prepare_create
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one
from moorage.usecases.upkeep.jobs import prepare_job, settle_job


def pipeline_at(space: Address, name: str, field: str) -> Address:
    return Address(Kind.PIPELINE, (*space.path, require_name(name, field)))


async def register(
    ports: Ports, errand: Errand, address: Address, definition: Definition, comment: str | None
) -> Securable:
    """Create a pipeline, or replace its project. The same project again changes nothing."""
    require_project(definition.files)
    definition = replace(definition, digest=digest_of(definition.files))
    if definition.schedule is not None:
        parse_schedule(definition.schedule)

    async def prepare(caller: Caller) -> Part:
        chain = (await find_chain(ports.ledger, address)).chain
        if len(chain) < len(address.path):
            return await prepare_create(ports, caller, address, Doc(comment=comment, details=to_details(definition)))
        before = (await reach(ports, caller, address, Privilege.MODIFY))[-1]
        if definition_of(before.doc) == definition and comment in (None, before.doc.comment):
            return Part(done=Done(ids=(before.id,)))
        details = {**before.doc.details, **to_details(definition)}
        doc = replace(before.doc, comment=before.doc.comment if comment is None else comment, details=details)
        return Part(
            expects=(Live(before.id), RevisionIs(before.id, before.revision)),
            changes=(Update(id=before.id, doc=doc),),
            done=Done(ids=(before.id,)),
            before=before,
        )

    return await settle_one(ports, errand, prepare)


async def run(ports: Ports, errand: Errand, address: Address, args: dict[str, Any]) -> Job:
    """Enqueue a run of the pipeline. While one is open, return that one: two at once would write over each other."""

    return await settle_job(ports, errand, lambda caller: _prepared(ports, caller, address, args))


async def _prepared(ports: Ports, caller: Caller, address: Address, args: dict[str, Any]) -> list[Part]:
    return [await prepare_run(ports, caller, address, args)]


async def prepare_run(ports: Ports, caller: Caller, address: Address, args: dict[str, Any]) -> Part:
    """The part that enqueues a run. It records the versions of the tables that the pipeline reads."""
    pipeline = (await reach(ports, caller, address, Privilege.START_JOBS))[-1]
    definition = definition_of(pipeline.doc)
    heads = await heads_of(ports, definition.source_tables)
    given = {"pipeline": list(address.path), SOURCES: heads, **args}
    new = NewJob(id=fresh.job_id(), kind=PIPELINE, subject=pipeline.id, dedupe=f"{PIPELINE}/{pipeline.id}", args=given)
    part = await prepare_job(ports, new)
    return replace(part, expects=(Live(pipeline.id), *part.expects))


async def heads_of(ports: Ports, tables: Iterable[str]) -> dict[str, int]:
    """The newest version of each of these tables that exists."""
    heads = {}
    for name in tables:
        path = tuple(name.split("."))
        chain = (await find_chain(ports.ledger, Address(Kind.TABLE, path))).chain if len(path) > 2 else ()
        if len(chain) == len(path) and chain[-1].head is not None:
            heads[name] = chain[-1].head.version
    return heads
