"""Rewrites of a managed Delta table by a worker: hand out a shadow, and commit what Spark made of it.

The worker never commits to the table itself. It offers the folder of its shadow, and the server translates the commit
in it against the current head, so appends that were ratified meanwhile do no harm.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import unquote
from uuid import uuid4

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.job_options import CompactOptions
from moorage.core.rewrites import (
    OfferOutcome,
    OfferResult,
    RewriteMode,
    Shadow,
    job_folder,
    target_bytes,
)
from moorage.core.securables import Securable
from moorage.formats.delta import clustering
from moorage.formats.delta.contract import TableState
from moorage.formats.delta.offer_steps import read_rewrite, translate_rewrite
from moorage.formats.delta.offers import Dropped
from moorage.formats.delta.partition_values import types_of
from moorage.formats.delta.shadow import hadoop_location
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.delta.compute import compute
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.health import stated_target_bytes
from moorage.usecases.delta.leftovers import remove_leftovers
from moorage.usecases.delta.lookup import LOG, is_managed, require_head, state_of
from moorage.usecases.delta.shadows import (
    OfferedCommit,
    commit_part,
    dropped,
    files_named,
    give_up,
    log_of,
    read_log,
    require_base,
    require_written,
    result_of,
    settle_offer,
    target_of,
)
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import find_replay
from moorage.usecases.upkeep.leases import require_lease

_FOLDER = re.compile(r"compact-[0-9a-f-]{36}/[0-9a-f]{12}/")


async def next_shadow(ports: Ports, errand: Errand, table: Securable, options: CompactOptions) -> Shadow | None:
    """Write the shadow of the next files to rewrite; None if the table has none left."""
    from moorage.formats.delta import bins

    held = await require_lease(ports, errand.job)
    job = held.job
    if not is_managed(table):
        raise InvalidInput(f"'{table.name}' is not a managed Delta table; optimise it at its location", field="table")
    state = state_of(ports, table)
    mode, target = mode_of(options, state), _target_bytes(options, state)
    _require_columns(options, state)
    await remove_leftovers(ports, table, held)
    snapshot = await ports.snapshots.at(await table_ref(ports, table))
    types = types_of(snapshot.schema, snapshot.metadata.partition_columns)
    files = await ports.snapshots.files(snapshot)
    chosen, remaining = await asyncio.to_thread(
        bins.choose, files, mode, target, not_below=job_folder(job), types=types
    )
    if not chosen:
        return None
    location = table.doc.location or ""
    folder = f"{job_folder(job)}{uuid4().hex[:12]}/"
    inputs = await asyncio.to_thread(files.take, chosen)
    log = await log_of(ports, snapshot, inputs, hadoop_location(location))
    await ports.storage.put_new(location, f"{folder}{LOG}{0:020}.json", log)
    return Shadow(
        folder=folder,
        location=hadoop_location(location) + folder.removesuffix("/"),
        base_version=snapshot.version,
        mode=mode,
        target_bytes=target,
        columns=options.zorder_by,
        full=options.full,
        files=inputs.num_rows,
        bytes=bins.bytes_of(inputs),
        remaining_files=remaining,
    )


def _target_bytes(options: CompactOptions, state: TableState) -> int:
    """How large rewritten files become. With another size than its health counts with, a table would never be well."""
    return stated_target_bytes(state.configuration) if options.target_file_size_mb is None else target_bytes(options)


def mode_of(options: CompactOptions, state: TableState) -> RewriteMode:
    """What a rewrite with these options does to a table."""
    if options.purge:
        return RewriteMode.PURGE
    if options.zorder_by:
        return RewriteMode.Z_ORDER
    columns = state.domains.get(clustering.DOMAIN)
    return RewriteMode.CLUSTER if columns and clustering.parse_domain(columns) else RewriteMode.BIN_PACK


def _require_columns(options: CompactOptions, state: TableState) -> None:
    if options.zorder_by and clustering.DOMAIN in state.domains:
        raise InvalidInput("a table with clustering columns cannot be Z-ordered", field="zorder_by")
    for name in options.zorder_by:
        field = state.schema.field(name)
        if field is None or field.name in state.metadata.partition_columns:
            raise InvalidInput(f"zorder_by {name!r} is not a column that can be ordered", field="zorder_by")


async def offer(ports: Ports, errand: Errand, table: Securable, folder: str, base_version: int) -> OfferResult:
    """Commit the rewrite in a shadow's folder to the table, on top of whatever was committed meanwhile."""
    if errand.job is None or not folder.startswith(job_folder(errand.job.job)) or not _FOLDER.fullmatch(folder):
        raise InvalidInput(f"folder {folder!r} is not the folder of a shadow of this job", field="folder")
    require_base(table, base_version)
    if (first := await find_replay(ports, errand)) is not None:
        return result_of(first)
    location = table.doc.location or ""
    commit = await _read_commit(ports, location, folder)
    if isinstance(commit, OfferResult):
        return await give_up(ports, table, folder, base_version, commit)
    await require_written(ports, location, folder, commit.facts.new_files)
    left_out: tuple[str, ...] = ()

    async def prepare(caller: Caller) -> Part:
        nonlocal left_out
        part, left_out = await _prepare(ports, caller, table, commit, folder, base_version)
        return part

    result = await settle_offer(ports, errand, table, folder, base_version, prepare)
    if result.rewritten is not None and left_out:
        await ports.storage.delete_many(location, [folder + unquote(path) for path in left_out])
    return result


async def _read_commit(ports: Ports, location: str, folder: str) -> OfferedCommit | OfferResult:
    data = await read_log(ports, location, folder)
    if isinstance(data, OfferResult):
        return data
    facts = await compute(ports, read_rewrite, data, hadoop_location(location))
    if facts.is_empty:
        return OfferResult(outcome=OfferOutcome.UNCHANGED, reason="the shadow was not changed")
    return OfferedCommit(data, facts)


async def _prepare(
    ports: Ports, caller: Caller, table: Securable, commit: OfferedCommit, folder: str, base_version: int
) -> tuple[Part, tuple[str, ...]]:
    """Translate the shadow's commit against the head as it is now. Also returns the new files that are left out."""
    chain = await find_by_id(ports.ledger, table.id)
    if not chain:
        return dropped("the table was dropped"), ()
    table = chain[-1]
    state, head = state_of(ports, table), require_head(table)
    if state.last_update_version > base_version:
        return dropped(f"version {state.last_update_version} changed more than rows since the shadow was made"), ()
    snapshot = await ports.snapshots.at(await table_ref(ports, table), head.version)
    target = target_of(ports, table, snapshot, folder)
    files = await files_named(snapshot, commit.facts.inputs, target.root)
    translated = await compute(ports, translate_rewrite, commit.data, files, target)
    if isinstance(translated, Dropped):
        return dropped(translated.reason), ()
    part = await commit_part(ports, table, translated.data, target, upkeep=True)
    result = OfferResult(outcome=OfferOutcome.COMMITTED, reason=translated.reason, rewritten=translated.rewritten)
    return replace(part, result=result), translated.left_out
