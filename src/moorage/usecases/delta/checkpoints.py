"""Checkpoints of managed Delta tables. The server writes them from the ratified state; no reader depends on a client.

Every step can be repeated: sidecars and v2 checkpoints have unique names, a classic checkpoint is created once, and the
hint is written last. A crash leaves a complete checkpoint without a hint, or sidecars that the log clean-up deletes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from moorage.core.errors import InvalidInput, TooLarge
from moorage.core.rewrites import Checkpointed
from moorage.core.securables import Securable
from moorage.faults import reach
from moorage.snapshots.log_files import LAST_CHECKPOINT, LogFiles, compaction_path, parse_checkpoint_hint
from moorage.snapshots.log_reader import LogReader
from moorage.snapshots.table_ref import TableRef
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.lookup import is_managed, require_head
from moorage.usecases.delta.retention import kept_ms
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.publish import publish_table

if TYPE_CHECKING:
    from moorage.formats.delta.file_actions import RemoveFile
    from moorage.formats.delta.log_commits import Commit
    from moorage.formats.delta.new_checkpoints import NewCheckpoint
    from moorage.snapshots.snapshot import Snapshot

_MAX_HINT_BYTES: Final = 1024 * 1024
_BATCH: Final = 100
_LEAST_COMPACTED: Final = 2
"""Versions in a log compaction."""


async def write_checkpoint(ports: Ports, table: Securable, *, commits_only: bool = False) -> Checkpointed:
    """Write a checkpoint or log compaction of the newest version, unless it has one."""
    if not is_managed(table):
        raise InvalidInput(f"'{table.name}' is not a managed Delta table; its clients write checkpoints", field="table")
    # A reader without the catalog starts at a checkpoint, so a checkpoint of an unpublished version would show it a
    # version that no commit file has.
    await publish_table(ports, table.id)
    table = (await find_by_id(ports.ledger, table.id))[-1]
    version = require_head(table).published or 0
    return await (compact_log(ports, table, version) if commits_only else checkpoint_at(ports, table, version))


async def compact_log(ports: Ports, table: Securable, version: int) -> Checkpointed:
    """Write the commits after the last checkpoint into one file, up to a published version."""
    from moorage.formats.delta.log_compaction import Compacted

    ref = await table_ref(ports, table)
    log = await LogReader(ports.storage, ref).listing(wanted=version)
    first = max(max((at for at in log.checkpoints if at <= version), default=-1) + 1, ref.floor)
    replayed = version + 1 - first
    if replayed < _LEAST_COMPACTED:
        return Checkpointed(version=version, is_new=False, replayed_before=replayed)
    compacted = Compacted()
    commits: list[Commit] = []
    async for each in ports.snapshots.changes(ref, first, version):
        commits.append(each.commit)
        if len(commits) == _BATCH or each.version == version:
            await asyncio.to_thread(compacted.add, commits)
            commits = []
    data = await asyncio.to_thread(compacted.to_bytes)
    is_new = await ports.storage.put_new(table.doc.location or "", compaction_path(first, version), data)
    return Checkpointed(version=version, is_new=is_new, replayed_before=replayed, bytes=len(data))


async def checkpoint_at(ports: Ports, table: Securable, version: int) -> Checkpointed:
    """Write a checkpoint of a published version that is still available."""
    location, ref = table.doc.location or "", await table_ref(ports, table)
    hint = await last_checkpoint(ports, location)
    log = await LogReader(ports.storage, ref).listing(wanted=version)
    replayed = version - max((at for at in log.checkpoints if at <= version), default=-1)
    if replayed == 0 and hint is not None and hint >= version:
        return Checkpointed(version=version, is_new=False, replayed_before=0)
    snapshot = await ports.snapshots.at(ref, version)
    removed = await _tombstones(ports, table, ref, log, snapshot)
    new = await asyncio.to_thread(_make, snapshot, removed, ports.now_ms())
    reach("checkpoint.begun")
    for file in new.sidecars:
        await ports.storage.put_new(location, file.path, file.data)
    reach("checkpoint.sidecars")
    await ports.storage.put_new(location, new.main.path, new.main.data)
    reach("checkpoint.written")
    hint = await last_checkpoint(ports, location)
    if hint is None or hint <= version:
        await ports.storage.overwrite(location, LAST_CHECKPOINT, new.hint)
    reach("checkpoint.hinted")
    return Checkpointed(version=version, is_new=True, replayed_before=replayed, files=new.files, bytes=new.bytes)


def _make(snapshot: Snapshot, removed: list[RemoveFile], now_ms: int) -> NewCheckpoint:
    from moorage.formats.delta.new_checkpoints import new_checkpoint
    from moorage.snapshots.parsed_columns import parsed_columns

    parsed = parsed_columns(snapshot.state.files(), snapshot.schema, snapshot.metadata)
    return new_checkpoint(snapshot.state, removed, now_ms=now_ms, new_id=lambda: str(uuid4()), parsed=parsed)


async def last_checkpoint(ports: Ports, location: str) -> int | None:
    """The version in the hint of a log; None if it has none, or a damaged one."""
    try:
        data = await ports.storage.read(location, LAST_CHECKPOINT, limit=_MAX_HINT_BYTES)
    except TooLarge:
        return None
    return None if data is None else parse_checkpoint_hint(data)


async def _tombstones(
    ports: Ports, table: Securable, ref: TableRef, log: LogFiles, snapshot: Snapshot
) -> list[RemoveFile]:
    """The files that were removed within the retention: of the checkpoint before, and of the commits since.

    No available version needs a file that was removed at or before the floor, so older commits are not read.
    """
    from moorage.formats.delta.new_checkpoints import add_tombstones

    before = max((at for at in log.checkpoints if at <= snapshot.version), default=None)
    known = {} if before is None else await LogReader(ports.storage, ref).tombstones(log.checkpoints[before])
    oldest_ms = ports.now_ms() - kept_ms(table, snapshot.metadata.configuration)
    first = max(0 if before is None else before + 1, ref.floor)
    commits: list[Commit] = []
    if first <= snapshot.version:
        async for each in ports.snapshots.changes(ref, first, snapshot.version):
            commits.append(each.commit)
            if len(commits) == _BATCH:
                known = await asyncio.to_thread(add_tombstones, known, commits, oldest_ms=oldest_ms)
                commits = []
    return list((await asyncio.to_thread(add_tombstones, known, commits, oldest_ms=oldest_ms)).values())
