"""Rewrites of a managed Delta table by a worker: hand out a shadow, and commit what Spark made of it.

The worker never commits to the table itself. It offers the folder of its shadow, and the server translates the commit
in it against the current head, so appends that were ratified meanwhile do no harm.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote
from uuid import uuid4

from msgspec.structs import replace

import moorage
from moorage.core.callers import Caller
from moorage.core.entries import Change, Commit, Done
from moorage.core.errors import InvalidInput
from moorage.core.ids import JobId
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
from moorage.formats.delta.commit_check import Proposal
from moorage.formats.delta.contract import TableState
from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.offers import (
    Dropped,
    ShadowCommit,
    Target,
    Translation,
    input_paths,
    read_shadow_commit,
    translate,
)
from moorage.formats.delta.partition_values import types_of
from moorage.formats.delta.shadow import TableSide, hadoop_location, shadow_log
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.delta.commits import MAX_ATTACHED_BYTES, CommitRequest, prepare_bytes
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.leftovers import FOLDER, remove_leftovers
from moorage.usecases.delta.lookup import (
    LOG,
    MAX_COMMIT_BYTES,
    STAGED_FOLDER,
    is_managed,
    require_head,
    state_of,
)
from moorage.usecases.local_state import TableIdQueue
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, find_replay, settle

if TYPE_CHECKING:
    from moorage.snapshots.snapshot import Snapshot

ENGINE: Final = f"Moorage/{moorage.__version__}"
_FOLDER = re.compile(r"compact-[0-9a-f-]{36}/[0-9a-f]{12}/")
_LOG_FILE = re.compile(r"(\d{20})\.json")


async def next_shadow(ports: Ports, table: Securable, job: JobId, options: CompactOptions) -> Shadow | None:
    """Write the shadow of the next files to rewrite; None if the table has none left."""
    from moorage.formats.delta import bins

    if not is_managed(table):
        raise InvalidInput(f"'{table.name}' is not a managed Delta table; optimise it at its location", field="table")
    state = state_of(ports, table)
    mode = mode_of(options, state)
    _require_columns(options, state)
    await remove_leftovers(ports, table, job)
    snapshot = await ports.snapshots.at(await table_ref(ports, table))
    types = types_of(snapshot.schema, snapshot.metadata.partition_columns)
    files = await ports.snapshots.files(snapshot)
    chosen, remaining = await asyncio.to_thread(
        bins.choose, files, mode, target_bytes(options), not_below=job_folder(job), types=types
    )
    if not chosen:
        return None
    location = table.doc.location or ""
    folder = f"{job_folder(job)}{uuid4().hex[:12]}/"
    inputs, log = await asyncio.to_thread(_write_log, snapshot, files.take(chosen), hadoop_location(location))
    await ports.storage.put_new(location, f"{folder}{LOG}{0:020}.json", log)
    return Shadow(
        folder=folder,
        location=hadoop_location(location) + folder.removesuffix("/"),
        base_version=snapshot.version,
        mode=mode,
        target_bytes=target_bytes(options),
        columns=options.zorder_by,
        full=options.full,
        files=len(inputs),
        bytes=sum(file.size for file in inputs),
        remaining_files=remaining,
    )


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


def _write_log(snapshot: Snapshot, chosen: object, root: str) -> tuple[list[AddFile], bytes]:
    from moorage.formats.delta.replay import to_files

    files = to_files(chosen)
    side = TableSide(
        timestamp_ms=snapshot.timestamp_ms,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        domains=snapshot.domains,
        transactions=snapshot.transactions,
    )
    return files, shadow_log(side, files, root)


async def offer(ports: Ports, errand: Errand, table: Securable, folder: str, base_version: int) -> OfferResult:
    """Commit the rewrite in a shadow's folder to the table, on top of whatever was committed meanwhile."""
    if errand.job is None or not folder.startswith(job_folder(errand.job.job)) or not _FOLDER.fullmatch(folder):
        raise InvalidInput(f"folder {folder!r} is not the folder of a shadow of this job", field="folder")
    if (first := await find_replay(ports, errand)) is not None:
        return _result(first)
    location = table.doc.location or ""
    commit = await _read_commit(ports, location, folder)
    if isinstance(commit, OfferResult):
        await ports.storage.delete_all(location + folder)
        return commit
    await _require_written(ports, location, folder, commit)
    # Not in the queue yet: a snapshot that is already loaded makes the wait of other writers short.
    await ports.snapshots.at(await table_ref(ports, table))
    async with ports.local.race(TableIdQueue(table.id)):
        settled = await settle(
            ports, errand, lambda caller: _prepare(ports, caller, table, commit, folder, base_version)
        )
    result = _result(settled)
    if result.outcome is OfferOutcome.COMMITTED:
        await ports.storage.delete_all(f"{location}{folder}{LOG}")
    else:
        await ports.storage.delete_all(location + folder)
    return result


async def _read_commit(ports: Ports, location: str, folder: str) -> ShadowCommit | OfferResult:
    """The one commit that Spark made in the shadow, or why there is nothing to commit."""
    listed = await ports.storage.list(location, f"{folder}{LOG}")
    names = [each.path.rpartition("/")[2] for each in listed]
    versions = sorted(int(found[1]) for name in names if (found := _LOG_FILE.fullmatch(name)))
    if versions == [0]:
        return OfferResult(outcome=OfferOutcome.UNCHANGED, reason="the shadow was not rewritten")
    if versions != [0, 1]:
        return OfferResult(
            outcome=OfferOutcome.DROPPED, reason=f"the shadow has the versions {versions}, not the versions 0 and 1"
        )
    data = await ports.storage.read(location, f"{folder}{LOG}{1:020}.json", limit=MAX_COMMIT_BYTES)
    if data is None:
        return OfferResult(outcome=OfferOutcome.DROPPED, reason="the commit of the shadow is missing")
    commit = await asyncio.to_thread(read_shadow_commit, data)
    if not commit.removed:
        return OfferResult(outcome=OfferOutcome.UNCHANGED, reason="the shadow was not rewritten")
    return commit


async def _require_written(ports: Ports, location: str, folder: str, commit: ShadowCommit) -> None:
    """Require every new file, in its stated size, and durable: the files that it replaces will be deleted one day."""
    written = {each.path: each.size for each in await ports.storage.list(location, folder)}
    for file in commit.added:
        path = folder + unquote(file.path)
        if written.get(path) != file.size:
            raise InvalidInput(
                f"the rewrite cannot be offered: {file.path!r} has {written.get(path)} bytes, not {file.size}",
                field="folder",
            )
        await ports.storage.make_durable(location, path)


async def _prepare(
    ports: Ports, caller: Caller, table: Securable, commit: ShadowCommit, folder: str, base_version: int
) -> Part:
    """Translate the shadow's commit against the head as it is now."""
    chain = await find_by_id(ports.ledger, table.id)
    if not chain:
        return _dropped("the table was dropped")
    table = chain[-1]
    state, head = state_of(ports, table), require_head(table)
    if state.last_update_version > base_version:
        return _dropped(f"version {state.last_update_version} changed more than rows since the shadow was made")
    snapshot = await ports.snapshots.at(await table_ref(ports, table), head.version)
    version, timestamp_ms = head.version + 1, max(ports.now_ms(), head.timestamp_ms + 1)
    target = Target(
        folder=folder,
        root=hadoop_location(table.doc.location or ""),
        version=version,
        timestamp_ms=timestamp_ms,
        txn_id=str(uuid4()),
        engine=ENGINE,
        tracks_rows=state.tracks_rows(),
        row_id_mark=state.row_id_mark,
        schema=snapshot.schema,
        partition_columns=snapshot.metadata.partition_columns,
    )
    translated = await asyncio.to_thread(_translate, snapshot, commit, target)
    if isinstance(translated, Dropped):
        return _dropped(translated.reason)
    proposal = Proposal(
        version=version,
        timestamp_ms=timestamp_ms,
        file_name=f"{version:020}.{uuid4()}.json",
        file_size=len(translated.data),
        file_modified_ms=timestamp_ms,
    )
    request = CommitRequest(table_id=table.id, proposal=proposal, upkeep=True)
    part = await prepare_bytes(ports, table, request, proposal, translated.data)
    is_small = len(translated.data) <= MAX_ATTACHED_BYTES
    staged = NewFile(table.doc.location or "", STAGED_FOLDER + proposal.file_name, translated.data, is_small)
    return replace(part, changes=_with_folder(part.changes, folder), files=(staged,))


def _with_folder(changes: tuple[Change, ...], folder: str) -> tuple[Change, ...]:
    """Record the folder of the shadow with its version, so that leftovers can be told from committed files."""
    return tuple(
        replace(each, details={**each.details, FOLDER: folder}) if isinstance(each, Commit) else each
        for each in changes
    )


def _translate(snapshot: Snapshot, commit: ShadowCommit, target: Target) -> Translation | Dropped:
    from moorage.formats.delta.bins import find_files

    wanted = set(input_paths(commit, target.root))
    return translate(commit, find_files(snapshot.select(), wanted, target.root), target)


def _dropped(reason: str) -> Part:
    return Part(done=Done(), result=reason)


def _result(settled: Settled) -> OfferResult:
    versions = settled.done.versions
    if versions:
        return OfferResult(outcome=OfferOutcome.COMMITTED, version=versions[0])
    reason = settled.parts[0].result if settled.parts else "the table changed while the shadow was rewritten"
    return OfferResult(outcome=OfferOutcome.DROPPED, reason=reason)
