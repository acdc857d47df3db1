"""Publishing: the bytes of a ratified commit are stored under their final name, in order, once, durably.

Any server may do it, any number of times. Each version is published before the next. If a file already exists, its
bytes are compared. Other bytes stop the line, unless the format replaces them. Iceberg's metadata files have their
final names from the start, but were written without waiting for the disk. Here they are made durable, many at a time.
"""

from __future__ import annotations

import asyncio
from itertools import groupby

import msgspec

from moorage.core.entries import Commit, Publish
from moorage.core.errors import Damaged, MoorageError, TooLarge
from moorage.core.ids import SecurableId
from moorage.core.locations import require_location
from moorage.core.securables import Securable
from moorage.ledger.port import Staged
from moorage.storage.digests import digest_of
from moorage.storage.port import NewObject, Placed
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.sweep import is_sweep_due

_BEYOND_ALL_VERSIONS = 2**62
_BATCH_SIZE = 32
_MAX_BATCH_SIZE = 512
_FULL_BATCH_BYTES = 8 * 1024 * 1024
"""A full batch is followed by one of twice its size, unless its bytes take this much memory. Files of a batch share a
sync, and notes a transaction."""
_ANY_AGE_MS = -24 * 60 * 60 * 1000
"""Negative, to include versions of a server with a clock that is ahead."""
_MIN_TOGETHER = 8
"""Fewer files are synced one by one: syncing the file system also waits for what other processes wrote to it."""
_MAX_LINKED = 10_000
_MAX_LINES = 256
"""Lines whose notes may share a transaction."""
_MAX_WRITERS = 4
"""Versions written at the same time. Storage threads are left for readers."""


async def make_durable(ports: Ports) -> int:
    """Sync the files that this server wrote or linked without waiting for the disk. Returns the number of their lines.

    If the sync fails, they stay staged, and `publish_due` writes them again, as it does for a server that crashed.
    """
    local = ports.local
    written, linked = dict(local.unsynced), {line: dict(versions) for line, versions in local.linked.items()}
    if not written and not linked:
        return 0
    is_synced = False
    try:
        await ports.storage.sync()
        is_synced = True
        if written:
            await ports.ledger.record_durable(written)
    except BaseException:
        local.has_lost_writes |= not is_synced
        local.unsynced.clear()  # also newer files: a disk reports lost writes only once
        local.linked.clear()
        raise
    for line, version in written.items():
        if local.unsynced.get(line) == version:
            del local.unsynced[line]
    lines = list(linked.items())
    for start in range(0, len(lines), _MAX_LINES):
        some = lines[start : start + _MAX_LINES]
        await asyncio.gather(*(_finish_linked(ports, line, versions) for line, versions in some))
    return len(written) + len(linked)


def record_linked(ports: Ports, commit: Commit) -> None:
    """Let `make_durable` publish a version whose staged file already has its final name too."""
    linked = ports.local.linked.setdefault((commit.table, commit.ref), {})
    if len(linked) < _MAX_LINKED:  # `publish_due` publishes the others
        linked[commit.version] = commit


async def _finish_linked(ports: Ports, line: tuple[SecurableId, str], versions: dict[int, Commit]) -> None:
    """Publish versions of one line whose final names are durable, if all versions before them are published."""
    chain = (await ports.ledger.lineage(line[0])).chain
    head = None if _is_purged(chain) else chain[-1].head
    if head is None:
        _forget_linked(ports, line, max(versions))
        return
    before = last = head.published or 0
    while (commit := versions.get(last + 1)) is not None:
        if not await _remove_staged_name(ports, require_location(chain[-1]), commit):
            _forget_linked(ports, line, max(versions))  # `publish_due` finds the reason
            break
        last += 1
    if last > before:
        await ports.ledger.record_published(*line, last)
        if is_sweep_due(before, last):
            ports.local.unswept[line] = last
    _forget_linked(ports, line, last)


async def _remove_staged_name(ports: Ports, location: str, commit: Commit) -> bool:
    """Remove the staged name of a linked version. Returns False if the final name does not have the ratified bytes.

    The ledger's copy of the bytes will be deleted, so the file must have them.
    """
    if commit.publish is None or await _ratified_at(ports, location, commit, commit.publish.target) is None:
        return False
    await ports.storage.unlink(location, commit.file)
    return True


def _forget_linked(ports: Ports, line: tuple[SecurableId, str], last: int) -> None:
    linked = ports.local.linked.get(line, {})
    for version in [version for version in linked if version <= last]:
        del linked[version]
    if not linked:
        ports.local.linked.pop(line, None)


async def publish_due(ports: Ports, *, older_than_ms: int = 0) -> int:
    """Publish all staged versions, many lines concurrently. Returns the number of versions published.

    A version that cannot be published stops its own line, because readers would not see it behind later versions. It
    stops no other line.
    """
    done, limit = 0, _BATCH_SIZE
    after = ("", "", -1)
    writers, large = asyncio.Semaphore(_MAX_WRITERS), asyncio.Lock()
    while waiting := await ports.ledger.staged(older_than_ms=older_than_ms, after=after, limit=limit):
        lines = [tuple(line) for _, line in groupby(waiting, lambda staged: (staged.table, staged.ref))]
        placed = await _place(ports, lines)
        published = await asyncio.gather(*(_publish_line(ports, line, placed, writers, large) for line in lines))
        done += sum(count for count, _ in published)
        last, (_, is_stuck) = waiting[-1], published[-1]
        after = (last.table, last.ref, _BEYOND_ALL_VERSIONS if is_stuck else last.version)
        is_small = sum(len(staged.bytes or b"") for staged in waiting) < _FULL_BATCH_BYTES
        limit = min(2 * limit, _MAX_BATCH_SIZE) if is_small else _BATCH_SIZE
    return done


async def publish_table(ports: Ports, id: SecurableId) -> None:
    """Publish all staged versions of one table before its record is erased. Damaged if other bytes are in the way."""
    after = (id, "", -1)
    while waiting := await ports.ledger.staged(older_than_ms=_ANY_AGE_MS, after=after, limit=_BATCH_SIZE):
        for staged in waiting:
            if staged.table != id:
                return
            if staged.publish is not None and await _publish_version(ports, staged, staged.publish):
                await ports.ledger.record_published(id, staged.ref, staged.version)
            after = (id, staged.ref, staged.version)


class _Ready(msgspec.Struct, frozen=True):
    """A version that may be published, and its bytes."""

    staged: Staged
    publish: Publish
    table: Securable
    data: bytes


_Placed = dict[tuple[SecurableId, str, int], tuple[_Ready, bool]]
"""Versions whose bytes are durable under their final names, and whether they were written there just now."""


async def _place(ports: Ports, lines: list[tuple[Staged, ...]]) -> _Placed:
    """Write the versions whose bytes are in the ledger under their final names, with one wait for the disk.

    What is left out here is published one by one: the versions of a line from the first one on that is not simple.
    """
    if ports.local.has_lost_writes:
        return {}
    ready: list[_Ready] = []
    try:
        for line in lines:
            ready += await _ready_in(ports, line)
        if len(ready) < _MIN_TOGETHER:
            return {}
        objects = [
            NewObject(require_location(each.table), each.publish.target, each.data, each.publish.source)
            for each in ready
        ]
        placed = await ports.storage.put_all_new(objects)
    except MoorageError:  # one by one, it stops only its own line
        return {}
    return {
        (each.staged.table, each.staged.ref, each.staged.version): (each, found is Placed.NEW)
        for each, found in zip(ready, placed, strict=True)
        if found in (Placed.NEW, Placed.SAME)
    }


async def _ready_in(ports: Ports, line: tuple[Staged, ...]) -> list[_Ready]:
    ready = []
    for staged in line:
        if staged.bytes is None or staged.publish is None:
            break
        try:
            found = await _prepare(ports, staged, staged.publish)
        except Damaged:
            break
        if not isinstance(found, _Ready):
            break
        ready.append(found)
    return ready


async def _publish_line(
    ports: Ports, line: tuple[Staged, ...], placed: _Placed, writers: asyncio.Semaphore, large: asyncio.Lock
) -> tuple[int, bool]:
    """Publish versions of one line in order. Returns how many were published, and whether one could not be.

    Versions whose bytes are not in the ledger may be large, so only one of them is in memory at a time.
    """
    done, published, staged = 0, list[int](), line[0]
    try:
        try:
            for staged in line:
                async with large if staged.bytes is None else writers:
                    if staged.publish is None:
                        done += await _restore_metadata_file(ports, staged)
                    elif await _publish_version(ports, staged, staged.publish, placed):
                        published.append(staged.version)
        finally:
            if published:
                await ports.ledger.record_published(staged.table, staged.ref, published[-1])
                done += len(published)
    except MoorageError as error:
        ports.alarms.report(staged.table, staged.ref, staged.version, error.message, now_ms=ports.now_ms())
        return done, True
    if published and is_sweep_due(published[0] - 1, published[-1]):
        ports.local.unswept[staged.table, staged.ref] = published[-1]
    return done, False


async def _restore_metadata_file(ports: Ports, staged: Staged) -> bool:
    """Write a metadata file again from the ledger, if its server crashed before the file was durable.

    Only the file of the current version: the ledger has no bytes of earlier versions, and no reader needs them.
    """
    line = (staged.table, staged.ref)
    chain = (await ports.ledger.lineage(staged.table)).chain
    if _is_purged(chain) or staged.version <= ports.local.unsynced.get(line, -1):
        return False
    head = chain[-1].head
    document = await ports.ledger.document(*line, staged.version)
    if document is not None and head is not None and head.version == staged.version:
        file = await ports.formats.of(chain[-1]).rebuild_file(document, staged.file)
        await ports.storage.overwrite(file.root, file.path, file.data)
        if _is_purged((await ports.ledger.lineage(staged.table)).chain):
            await ports.storage.delete(file.root, file.path)
            return False
    await ports.ledger.record_durable({line: staged.version})
    return True


async def _publish_version(ports: Ports, staged: Staged, publish: Publish, placed: _Placed | None = None) -> bool:
    """Publish one version. Returns whether it is finished: published, or abandoned by its client."""
    found = (placed or {}).get((staged.table, staged.ref, staged.version))
    if found is not None:
        ready, is_new = found
    else:
        prepared = await _prepare(ports, staged, publish)
        if not isinstance(prepared, _Ready):
            return prepared
        ready, is_new = prepared, await _put(ports, prepared.table, staged, publish, prepared.data)
    return await _complete(ports, ready, is_new=is_new)


async def _prepare(ports: Ports, staged: Staged, publish: Publish) -> _Ready | bool:
    """What to publish. If nothing, then whether the version is finished."""
    chain = (await ports.ledger.lineage(staged.table)).chain
    if _is_purged(chain):
        return False
    table = chain[-1]
    ratified = await _ratified_bytes(ports, require_location(table), staged, publish)
    if await ports.formats.of(table).is_abandoned(ports, table, staged, publish, ratified):
        return True
    if ratified is None:
        raise _altered(staged, publish.source)
    return _Ready(staged, publish, table, ratified)


async def _complete(ports: Ports, ready: _Ready, *, is_new: bool) -> bool:
    """Clean up after a version has its final name. Returns whether it is finished."""
    staged, publish, location = ready.staged, ready.publish, require_location(ready.table)
    table_format = ports.formats.of(ready.table)
    if is_new:
        chain = (await ports.ledger.lineage(staged.table)).chain
        is_purged = _is_purged(chain)
        if is_purged or await table_format.is_abandoned(ports, chain[-1], staged, publish, ready.data, is_new=True):
            # The table was purged, or the version abandoned, while its file was written. No later purge would find it.
            await ports.storage.delete(location, publish.target)
            return not is_purged
    if table_format.deletes_staged and publish.source != publish.target:
        await ports.storage.delete(location, publish.source)
    return True


async def _put(ports: Ports, table: Securable, staged: Staged, publish: Publish, ratified: bytes) -> bool:
    """Store the bytes under their final name. Returns False if they were already there."""
    location = require_location(table)
    if ports.local.has_lost_writes and await _ratified_at(ports, location, staged, publish.target) is not None:
        await ports.storage.overwrite(location, publish.target, ratified)
        return False
    while not await ports.storage.put_new(location, publish.target, ratified):
        if await _ratified_at(ports, location, staged, publish.target) is not None:
            return False
        if await ports.storage.is_missing(location, publish.target, remote=True):  # it was deleted just now
            continue
        if not await ports.formats.of(table).replace_published(ports, table, staged.version, ratified):
            raise _altered(staged, publish.target)
        return True
    return True


async def _ratified_bytes(ports: Ports, location: str, staged: Staged, publish: Publish) -> bytes | None:
    """The bytes to publish: from the ledger, from the staged file, or from the final name; None if none are intact."""
    if staged.bytes is not None:
        return staged.bytes if await _is_ratified(staged, staged.bytes) else None
    found = await _ratified_at(ports, location, staged, publish.source)
    return found if found is not None else await _ratified_at(ports, location, staged, publish.target)


async def _ratified_at(ports: Ports, location: str, staged: Staged | Commit, path: str) -> bytes | None:
    """The bytes at a path; None if they are not those that were ratified."""
    try:
        data = await ports.storage.read(location, path, limit=staged.size)
    except TooLarge:
        return None
    return data if data is not None and await _is_ratified(staged, data) else None


def _is_purged(chain: tuple[Securable, ...]) -> bool:
    """Whether the table is being purged, or was erased."""
    return not chain or any(part.purged for part in chain)


async def _is_ratified(staged: Staged | Commit, data: bytes) -> bool:
    return len(data) == staged.size and (not staged.digest or await digest_of(data) == staged.digest)


def _altered(staged: Staged, path: str) -> Damaged:
    return Damaged(
        f"{path} of table {staged.table} is not what was ratified as version {staged.version}; "
        "publishing of this table stops here until the ratified bytes are restored"
    )
