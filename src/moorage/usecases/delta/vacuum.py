"""Vacuum of managed Delta tables, in three steps that can each be repeated: announce, wait, delete.

The first job raises the floor and, in the same entry, enqueues the second one, which is due when every URL, token and
credential that was handed out before has expired. The second job deletes the files that no version from the floor on
needs. Until it runs, it can be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Done, HeadIs, JobState, NewJob, RaiseFloor
from moorage.core.errors import InvalidInput, TableNotFound, Unsupported
from moorage.core.job_options import ExpireOptions
from moorage.core.jobs import VACUUM, Job
from moorage.core.retention import is_deletable, raised_floor
from moorage.core.rewrites import Expired
from moorage.core.securables import MAIN, Securable
from moorage.faults import reach
from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, DeletionVector
from moorage.formats.delta.paths import relative_paths
from moorage.ledger.port import Version
from moorage.storage.port import Listed
from moorage.usecases.catalog.addresses import Chain, find_by_id
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.log_cleanup import clean_up_log, require_equal_checkpoint
from moorage.usecases.delta.lookup import is_managed, require_head, state_of
from moorage.usecases.delta.retention import kept_ms
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.upkeep.holds import holds_on
from moorage.usecases.upkeep.lifetimes import deletion_delay_ms

if TYPE_CHECKING:
    from moorage.snapshots.snapshot import Snapshot

KNOWN_FEATURES: Final = frozenset(
    (
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"),
        *("identityColumns", "deletionVectors", "rowTracking", "timestampNtz", "domainMetadata", "v2Checkpoint"),
        *("icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "icebergWriterCompatV1", "clustering"),
        *("vacuumProtocolCheck", "inCommitTimestamp", "typeWidening", "typeWidening-preview", "variantType"),
        *("variantType-preview", "variantShredding-preview", "allowColumnDefaults", "catalogManaged"),
        *("materializePartitionColumns", "checkpointProtection"),
    )
)
"""A feature that is not listed may keep files in places that this module does not know."""
_PAGE: Final = 1000
_SLICE: Final = 1000


async def announce(ports: Ports, errand: Errand, table: Securable, options: ExpireOptions) -> Expired:
    """Raise the floor to the oldest version within the retention, and enqueue the deletion."""
    if options.dry_run:
        return await _dry_run(ports, table, options)
    settled = await settle(ports, errand, lambda caller: _prepare(ports, caller, table, options))
    floor, held_by = settled.done.versions[0], settled.parts[0].result if settled.parts else ()
    files = await _deletable(ports, (await _reload(ports, table))[-1], floor)
    job = settled.done.ids[1] if len(settled.done.ids) > 1 else None
    return Expired(floor=floor, files=len(files), bytes=sum(file.size for file in files), job=job, held_by=held_by)


async def _dry_run(ports: Ports, table: Securable, options: ExpireOptions) -> Expired:
    """What an expiry would announce now."""
    chain = await _reload(ports, table)
    floor, held_by = await _new_floor(ports, chain, options)
    files = await _deletable(ports, chain[-1], floor)
    return Expired(floor=floor, files=len(files), bytes=sum(file.size for file in files), held_by=held_by)


async def _new_floor(ports: Ports, chain: Chain, options: ExpireOptions) -> tuple[int, tuple[str, ...]]:
    """The oldest version to keep, and why versions past their retention are kept."""
    table = chain[-1]
    state, head = state_of(ports, table), require_head(table)
    unknown = sorted(state.protocol.features - KNOWN_FEATURES)
    if unknown:
        raise Unsupported(f"the table has the feature {unknown[0]!r}, so it is unknown which of its files are needed")
    cutoff_ms = ports.now_ms() - kept_ms(table, state.configuration, options.older_than_days)
    versions, holds = await _versions(ports, table, cutoff_ms), await holds_on(ports, chain)
    unheld = raised_floor(versions, head.floor, cutoff_ms)
    floor = raised_floor(versions, head.floor, cutoff_ms, [hold.version for hold in holds])
    held_by = tuple(hold.reason for hold in holds if hold.version < unheld)
    if options.keep_last is not None:
        floor = max(head.floor, min(floor, head.version + 1 - options.keep_last))
    return floor, held_by


async def _prepare(ports: Ports, caller: Caller, table: Securable, options: ExpireOptions) -> Part:
    chain = await _reload(ports, table)
    table, head = chain[-1], require_head(chain[-1])
    floor, held_by = await _new_floor(ports, chain, options)
    new = NewJob(
        id=fresh.job_id(),
        kind=VACUUM,
        subject=table.id,
        dedupe=f"{VACUUM}/{table.id}/{floor}",
        args={"floor": floor},
        delay_ms=await deletion_delay_ms(ports, table),
    )
    if await ports.ledger.open_job(new.dedupe or "") is not None:
        return Part(done=Done(ids=(table.id,), versions=(floor,)), result=held_by)
    return Part(
        expects=(HeadIs(table.id, MAIN, head.version),),
        changes=(RaiseFloor(table=table.id, version=floor),),
        jobs=(new,),
        done=Done(ids=(table.id, new.id), versions=(floor,)),
        result=held_by,
    )


async def _versions(ports: Ports, table: Securable, cutoff_ms: int) -> list[Version]:
    """The versions from the floor on, until the first one after the cutoff."""
    found: list[Version] = []
    first = require_head(table).floor
    while page := await ports.ledger.versions(table.id, MAIN, first=first, limit=_PAGE):
        found += page
        if page[-1].timestamp_ms > cutoff_ms:
            break
        first = page[-1].version + 1
    return found


async def delete(ports: Ports, table: Securable, job: Job) -> Expired:
    """Delete the files that no version from the announced floor on needs. A repetition deletes what is left."""
    floor = job.args.get("floor")
    head = require_head(table)
    if not isinstance(floor, int) or floor > head.floor:
        raise InvalidInput(f"the floor {floor} of the job was never announced; it is {head.floor}", field="floor")
    if floor < head.floor:
        if await _is_overtaken(ports, table, floor):
            return Expired(floor=floor, files=0, bytes=0)
        # A later expiry raised the floor since. What only versions from this job's floor on need is for its own vacuum
        # to delete, when clients have stopped to use it, so these versions count as available here.
        table = replace(table, head=replace(head, floor=floor))
    files = await _deletable(ports, table, floor)
    location = table.doc.location or ""
    reach("vacuum.listed")
    compared = await require_equal_checkpoint(ports, table, floor) if files else None
    for start in range(0, len(files), _SLICE):
        await ports.storage.delete_many(location, [file.path for file in files[start : start + _SLICE]])
    reach("vacuum.deleted")
    log_files = await clean_up_log(ports, table, floor, compared=compared)
    reach("vacuum.cleaned")
    return Expired(floor=floor, files=len(files), bytes=sum(file.size for file in files), log_files=log_files)


async def _is_overtaken(ports: Ports, table: Securable, floor: int) -> bool:
    """Whether the vacuum of a later expiry has run. It deleted the files of this one too, and the log to find them."""
    vacuums = await ports.ledger.jobs(
        subject=table.id, kind=VACUUM, state=JobState.SUCCEEDED, limit=_PAGE, descending=True
    )
    return any(each.args.get("floor", 0) > floor for each in vacuums)


async def _deletable(ports: Ports, table: Securable, floor: int) -> list[Listed]:
    ref = await table_ref(ports, table)
    oldest = await ports.snapshots.at(ref, floor)
    needed = await asyncio.to_thread(_needed_at, oldest)
    head, relative = require_head(table).version, relative_paths(table.doc.location or "")
    if head > floor:
        async for each in ports.snapshots.changes(ref, floor + 1, head):
            for file in each.commit.adds:
                needed.update(map(relative, _paths(file)))
            needed.update(relative(file.path) for file in each.commit.cdc)
    # The time of a commit may be up to a day ahead, and files that are being written must not count as older than it.
    young_ms = min(oldest.timestamp_ms, ports.now_ms() - kept_ms(table, state_of(ports, table).configuration))
    listed = await ports.storage.list(table.doc.location or "", "")
    return await asyncio.to_thread(_unneeded, listed, needed, young_ms)


def _unneeded(listed: Sequence[Listed], needed: set[str], young_ms: int) -> list[Listed]:
    # On a thread: a table may have a million files, and other requests would wait for a second.
    return [file for file in listed if is_deletable(file.path, file.modified_ms, needed, young_ms)]


def _needed_at(snapshot: Snapshot) -> set[str]:
    from moorage.formats.delta.replay import to_files

    relative = relative_paths(snapshot.location)
    return {relative(path) for file in to_files(snapshot.select()) for path in _paths(file)}


def _paths(file: AddFile) -> list[str]:
    """The paths of a file and of its deletion vector."""
    return [file.path, *([] if file.deletion_vector is None else _vector_file(file.deletion_vector))]


def _vector_file(vector: DeletionVector) -> list[str]:
    path = vector_path(vector)
    return [] if path is None else [path]


async def _reload(ports: Ports, table: Securable) -> Chain:
    chain = await find_by_id(ports.ledger, table.id)
    if not chain or not is_managed(chain[-1]):
        raise TableNotFound(f"no managed Delta table has the id '{table.id}'", id=table.id)
    return chain
