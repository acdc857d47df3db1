"""Register and run pipelines."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Done, Live, NewJob, RevisionIs, Update
from moorage.core.jobs import PIPELINE, Job
from moorage.core.names import require_name
from moorage.core.pipelines import Definition, digest_of, require_project, to_details
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable
from moorage.usecases.catalog.addresses import Address, find_chain, reach
from moorage.usecases.catalog.objects import prepare_create
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one
from moorage.usecases.upkeep.jobs import prepare_job, settle_job


def pipeline_at(space: Address, name: str) -> Address:
    return Address(Kind.PIPELINE, (*space.path, require_name(name, "name")))


async def register(
    ports: Ports, errand: Errand, address: Address, definition: Definition, comment: str | None
) -> Securable:
    """Create a pipeline, or replace its project. The same project again changes nothing."""
    require_project(definition.files)
    definition = replace(definition, digest=digest_of(definition.files))

    async def prepare(caller: Caller) -> Part:
        chain = (await find_chain(ports.ledger, address)).chain
        if len(chain) < len(address.path):
            return await prepare_create(ports, caller, address, Doc(comment=comment, details=to_details(definition)))
        before = (await reach(ports, caller, address, Privilege.MODIFY))[-1]
        details = {**before.doc.details, **to_details(definition)}
        doc = replace(before.doc, comment=before.doc.comment if comment is None else comment, details=details)
        if doc == before.doc:
            return Part(done=Done(ids=(before.id,)))
        return Part(
            expects=(Live(before.id), RevisionIs(before.id, before.revision)),
            changes=(Update(id=before.id, doc=doc),),
            done=Done(ids=(before.id,)),
            before=before,
        )

    return await settle_one(ports, errand, prepare)


async def run(ports: Ports, errand: Errand, address: Address, args: dict[str, Any]) -> Job:
    """Enqueue a run of the pipeline. While one is open, return that one: two at once would write over each other."""

    async def prepare(caller: Caller) -> Part:
        pipeline = (await reach(ports, caller, address, Privilege.READ))[-1]
        given = {"pipeline": list(address.path), **args}
        new = NewJob(
            id=fresh.job_id(), kind=PIPELINE, subject=pipeline.id, dedupe=f"{PIPELINE}/{pipeline.id}", args=given
        )
        part = await prepare_job(ports, new)
        return replace(part, expects=(Live(pipeline.id), *part.expects))

    return await settle_job(ports, errand, prepare)
