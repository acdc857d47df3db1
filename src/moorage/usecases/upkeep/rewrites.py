"""Rewrites of a table's files: what a worker asks for while it runs a compaction job.

Every request carries the job and its fence. The worker needs no rights on the table: the job gives them.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import JobHeld
from moorage.core.errors import InvalidInput, LeaseLost, TableNotFound
from moorage.core.job_options import CheckpointOptions, CompactOptions, ExpireOptions, parse_options
from moorage.core.jobs import CHECKPOINT, COMPACT, EXPIRE, STATISTICS, VACUUM, Job
from moorage.core.privileges import Privilege
from moorage.core.rewrites import Checkpointed, Expired, NextShadow, OfferOutcome, OfferResult, StatisticsAdded
from moorage.core.securables import Securable
from moorage.core.vended import VendedKey
from moorage.usecases.catalog.addresses import Chain, find_by_id
from moorage.usecases.catalog.credentials import for_changed
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.upkeep.leases import require_lease
from moorage.usecases.upkeep.quiet import must_wait


async def find_table(ports: Ports, caller: Caller, id: str) -> Chain:
    """The live table of an id with its ancestors, for the worker that has a job about it."""
    if caller.job is None or caller.job.table != id:
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
    shadow = await ports.formats.of(table).next_shadow(ports, errand, table, options)
    return NextShadow(shadow=shadow, storage={} if shadow is None else await _storage(ports, table))


async def _storage(ports: Ports, table: Securable) -> dict[str, str]:
    """Settings of Hadoop for the bucket of a table. Without a key of the server, the worker uses its own."""
    access = await for_changed(ports, table.locations)
    if not isinstance(access.key, VendedKey) or access.store is None:
        return {}
    bucket = f"fs.s3a.bucket.{urlsplit(access.location).netloc}"
    return {
        f"{bucket}.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        f"{bucket}.access.key": access.key.access_key_id,
        f"{bucket}.secret.key": access.key.secret_access_key,
        f"{bucket}.session.token": access.key.session_token,
        f"{bucket}.endpoint": access.store.endpoint,
        f"{bucket}.endpoint.region": access.store.region,
        f"{bucket}.path.style.access": "true" if access.store.path_style else "false",
    }


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


async def write_checkpoint(ports: Ports, errand: Errand, id: str) -> Checkpointed:
    """Write a checkpoint or log compaction of the newest version of a table."""
    table, job = await _table_and_job(ports, errand, id, CHECKPOINT)
    return await ports.formats.of(table).write_checkpoint(ports, table, parse_options(job.args, CheckpointOptions))


async def add_statistics(ports: Ports, errand: Errand, id: str, after: str | None) -> StatisticsAdded:
    """Commit the statistics of the next files that have none, or say for whom the job waits."""
    table, job = await _table_and_job(ports, errand, id, STATISTICS)
    # Delta's client fails a change of rows that meets a second add of a file, as it does for a rewrite.
    if (waiting := await must_wait(ports, table, job)) is not None:
        return StatisticsAdded(waiting=waiting)
    return await ports.formats.of(table).add_statistics(ports, errand, table, after)


async def _table_and_job(ports: Ports, errand: Errand, id: str, kind: str = COMPACT) -> tuple[Securable, Job]:
    chain = await find_table(ports, errand.caller, id)
    job = await _held_job(ports, errand.job)
    if job.kind != kind or job.subject != chain[-1].id:
        raise InvalidInput(f"job '{job.id}' is not a {kind} job of this table", field="Moorage-Job")
    return chain[-1], job


async def _held_job(ports: Ports, held: JobHeld | None) -> Job:
    """The job of the request. Not every effect is an append, which would check the fence: files are deleted, too."""
    held = await require_lease(ports, held)
    job = await ports.ledger.job(held.job)
    if job is None:
        raise LeaseLost(f"job '{held.job}' has ended; stop working on it", id=held.job)
    return job
