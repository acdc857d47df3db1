"""Log clean-up of managed Delta tables: the last step of a vacuum, behind a floor that was announced long enough ago.

A file of the log is deleted if no available version needs it, and it is older than `delta.logRetentionDuration`. The
rest begins with a checkpoint. A client may have written it, so it is first compared with the commits that it replaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moorage.core.errors import Damaged
from moorage.core.retention import parse_interval
from moorage.core.securables import MAIN, Securable
from moorage.snapshots.log_cleanup import (
    expired_files,
    expired_sidecars,
    first_recent,
    oldest_start,
    remaining_checkpoints,
)
from moorage.snapshots.log_files import LOG, LogFiles, read_listing
from moorage.snapshots.log_reader import LogReader
from moorage.snapshots.table_ref import TableRef
from moorage.usecases.delta.checkpoints import checkpoint_at
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.lookup import state_of
from moorage.usecases.ports import Ports

if TYPE_CHECKING:
    from moorage.formats.delta.replay import LogState
    from moorage.storage.port import Listed

LOG_RETENTION: Final = "delta.logRetentionDuration"
PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"
_DEFAULT: Final = "interval 30 days"
_SIDECAR_AGE_MS: Final = 24 * 60 * 60 * 1000
"""As the protocol states: a sidecar may be written a while before the checkpoint that names it."""
_WORTHWHILE: Final = 10
"""A checkpoint is written for the clean-up only if it replaces this many commits."""


async def require_equal_checkpoint(ports: Ports, table: Securable, floor: int) -> int | None:
    """Refuse to delete data files by a checkpoint that lacks some. Returns its version; None if there is none."""
    ref = await table_ref(ports, table)
    found = read_listing(await ports.storage.list(table.doc.location or "", LOG), latest=ref.latest)
    newest = max((version for version in found.checkpoints if version <= floor), default=None)
    if newest is not None:
        await _require_equal(ports, table, ref, found, newest)
    return newest


async def clean_up_log(ports: Ports, table: Securable, floor: int, *, compared: int | None = None) -> int:
    """Delete the files of the log that only versions before the floor need. Returns their number.

    `compared`: the version of a checkpoint that was compared with the log a moment ago.
    """
    configuration = state_of(ports, table).configuration
    cutoff_ms = ports.now_ms() - parse_interval(configuration.get(LOG_RETENTION, _DEFAULT))
    location, ref = table.doc.location or "", await table_ref(ports, table)
    listed = await ports.storage.list(location, LOG)
    found = read_listing(listed, latest=ref.latest)
    start = oldest_start(found, floor, cutoff_ms)
    if start is None and _WORTHWHILE <= floor <= first_recent(found, cutoff_ms):
        start = (await checkpoint_at(ports, table, floor)).version
        listed = await ports.storage.list(location, LOG)
        found = read_listing(listed, latest=ref.latest)
    if start is None or start < _protected_before(configuration):
        return 0
    expired = expired_files(listed, start, cutoff_ms)
    if expired and start != compared:
        await _require_equal(ports, table, ref, found, start)
    expired += await _sidecars(ports, ref, start, listed)
    await ports.storage.delete_many(location, [file.path for file in expired])
    return len(expired)


def _protected_before(configuration: dict[str, str]) -> int:
    """The version before which the log is only deleted as a whole, for tables that had a feature removed."""
    stated = configuration.get(PROTECTED_BEFORE, "")
    return int(stated) if stated.isdecimal() else 0


async def _require_equal(ports: Ports, table: Securable, ref: TableRef, found: LogFiles, start: int) -> None:
    """Refuse a checkpoint that differs from the commits before it: a deletion would make its error the truth."""
    held = await LogReader(ports.storage, ref).checkpoint(found.checkpoints[start])
    if min(found.commits, default=start) >= start:
        return
    replayed = await ports.snapshots.replayed(ref, found, start)
    difference = await asyncio.to_thread(_difference, held, replayed)
    if difference is not None:
        message = f"the checkpoint of version {start} of table {table.id} differs from the log in its {difference}"
        ports.alarms.report(table.id, MAIN, start, message, now_ms=ports.now_ms())
        raise Damaged(message, table=table.id, version=start)


def _difference(held: LogState, replayed: LogState) -> str | None:
    same = {
        "protocol": _protocol(held) == _protocol(replayed),
        "metaData": held.metadata == replayed.metadata,
        "domainMetadata": held.domains == replayed.domains,
        "files": _keys(held) == _keys(replayed),
    }
    return next((name for name, is_same in same.items() if not is_same), None)


def _protocol(state: LogState) -> tuple[int, int, frozenset[str]] | None:
    found = state.protocol
    return None if found is None else (found.min_reader_version, found.min_writer_version, found.features)


def _keys(state: LogState) -> set[tuple[str, int]]:
    from moorage.formats.delta.replay import Slab

    files = state.files()
    return set(zip(Slab(files).keys.to_pylist(), files["size"].to_pylist(), strict=True))


async def _sidecars(ports: Ports, ref: TableRef, start: int, listed: Sequence[Listed]) -> list[Listed]:
    """The sidecars of deleted checkpoints, and of checkpoints that were never completed."""
    oldest_ms = ports.now_ms() - _SIDECAR_AGE_MS
    if not expired_sidecars(listed, set(), oldest_ms):
        return []
    reader, needed = LogReader(ports.storage, ref), set[str]()
    for checkpoint in remaining_checkpoints(listed, start):
        needed |= await reader.sidecars(checkpoint)
    return expired_sidecars(listed, needed, oldest_ms)
