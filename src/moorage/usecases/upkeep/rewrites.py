"""Rewrites of a table's files: what a worker asks for while it runs a compaction job.

Every request carries the job and its fence. The worker needs no rights on the table: the job gives them.
"""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import ENDED, JobHeld
from moorage.core.errors import InvalidInput, LeaseLost, TableNotFound
from moorage.core.job_options import CompactOptions, ExpireOptions, parse_options
from moorage.core.jobs import COMPACT, EXPIRE, VACUUM, Job
from moorage.core.privileges import Privilege
from moorage.core.rewrites import Expired, NextShadow, OfferOutcome, OfferResult
from moorage.core.securables import Securable
from moorage.usecases.catalog.addresses import Chain, find_by_id
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.upkeep.quiet import must_wait


async def find_table(ports: Ports, caller: Caller, id: str) -> Chain:
    """The live table of an id with its ancestors, for the worker that has a job about it."""
    require(ports.access, caller, Privilege.WORK, ())
    chain = await find_by_id(ports.ledger, id)
    if not chain or chain[-1].doc.table is None:
        raise TableNotFound(f"no table has the id '{id}'; it was dropped", id=id)
    return chain


async def next_shadow(ports: Ports, errand: Errand, id: str) -> NextShadow:
    """Prepare the next part of a compaction, or say for whom it waits."""
    table, job = await _table_and_job(ports, errand, id)
    if (waiting := await must_wait(ports, table, job)) is not None:
        return NextShadow(waiting=waiting)
    options = parse_options(job.args, CompactOptions)
    return NextShadow(shadow=await ports.formats.of(table).next_shadow(ports, table, job.id, options))


async def offer(ports: Ports, errand: Errand, id: str, folder: str, base_version: int) -> OfferResult:
    """Commit what the worker made of a shadow."""
    table, job = await _table_and_job(ports, errand, id)
    if (waiting := await must_wait(ports, table, job)) is not None:  # a writer came while Spark was working
        return OfferResult(outcome=OfferOutcome.DROPPED, reason=waiting.reason)
    return await ports.formats.of(table).accept_offer(ports, errand, table, folder, base_version)


async def announce_expiry(ports: Ports, errand: Errand, id: str) -> Expired:
    """Make the versions past their retention unavailable, and enqueue the deletion of their files."""
    table, job = await _table_and_job(ports, errand, id, EXPIRE)
    return await ports.formats.of(table).announce_expiry(ports, errand, table, parse_options(job.args, ExpireOptions))


async def delete_expired(ports: Ports, errand: Errand, id: str) -> Expired:
    """Delete the files of versions whose end was announced long enough ago."""
    table, job = await _table_and_job(ports, errand, id, VACUUM)
    return await ports.formats.of(table).delete_expired(ports, table, job)


async def _table_and_job(ports: Ports, errand: Errand, id: str, kind: str = COMPACT) -> tuple[Securable, Job]:
    chain = await find_table(ports, errand.caller, id)
    job = await _held_job(ports, errand.job)
    if job.kind != kind or job.subject != chain[-1].id:
        raise InvalidInput(f"job '{job.id}' is not a {kind} job of this table", field="Moorage-Job")
    return chain[-1], job


async def _held_job(ports: Ports, held: JobHeld | None) -> Job:
    """The job of the request. The append checks the fence; this check only saves the work before it."""
    if held is None:
        raise InvalidInput("the header Moorage-Job is required: <job id>;fence=<fence>", field="Moorage-Job")
    job = await ports.ledger.job(held.job)
    if job is None or job.state in ENDED:
        raise LeaseLost(f"job '{held.job}' has ended; stop working on it", id=held.job)
    return job
