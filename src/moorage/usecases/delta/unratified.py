"""Unratified files: files in the log of a managed Delta table whose versions were never ratified.

They remain when the ledger is restored to an earlier time, or a writer created them without the catalog. The protocol
requires readers to ignore them. But Spark reads every commit that has a final name, and all readers trust a checkpoint
or checksum once the table has reached its version again. So the server sets unratified files aside before it ratifies a
version with their number. Nothing is lost: the files are moved to the staged commits, which readers do not list, and a
client can propose such a commit from there.

If another catalog also manages the table, setting its commits aside would damage its history. Such a catalog is still
writing. So the server touches nothing until the unratified files have been unchanged for a while.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final, NamedTuple
from uuid import UUID

from moorage.core.errors import Damaged, TooLarge, Unavailable
from moorage.core.securables import MAIN, Securable
from moorage.snapshots.log_files import LAST_CHECKPOINT, file_version, parse_checkpoint_hint
from moorage.storage.digests import digest_of
from moorage.usecases.delta.lookup import LOG, MAX_COMMIT_BYTES, STAGED_FOLDER, published_path
from moorage.usecases.ports import Ports

QUIET_PERIOD_MS: Final = 5 * 60 * 1000
"""Restoring a ledger usually takes longer than this. In other cases the client retries until the period has passed."""


class _LogFile(NamedTuple):
    """A file of the log, and the newest version that it describes."""

    path: str
    version: int
    modified_ms: int

    @property
    def is_commit(self) -> bool:
        return self.path == published_path(self.version)


async def set_aside_before_commit(ports: Ports, table: Securable, version: int, data: bytes) -> None:
    """Before a commit is ratified, set aside unratified files of its version and later ones.

    A file with the same bytes stays: a client proposes again a commit that a restore removed from the ledger.
    """
    location, path = table.doc.location or "", published_path(version)
    if await _is_version_free(ports, location, path):
        return
    try:
        is_identical = await ports.storage.read(location, path, limit=len(data)) == data
    except TooLarge:
        is_identical = False
    # If the version was ratified in the meantime, the proposal has lost the race and the file may be the winner's.
    if not is_identical and await _latest(ports, table) < version:
        await set_aside_unratified(ports, table, above=version - 1)


async def _is_version_free(ports: Ports, location: str, path: str) -> bool:
    """Whether the version has no files yet. A checksum may exist before its commit is published."""
    return await ports.storage.is_missing(location, path, f"{path.removesuffix('.json')}.crc", remote=True)


async def set_aside_after_head(ports: Ports, table: Securable, latest: int) -> bool:
    """Set aside unratified files after the latest version. Return whether there were any."""
    if await ports.storage.is_missing(table.doc.location or "", published_path(latest + 1), remote=True):
        return False
    try:
        return await set_aside_unratified(ports, table, above=latest)
    except Unavailable:
        return False


async def replace_published(ports: Ports, table: Securable, version: int, ratified: bytes) -> None:
    """Replace an unratified file with the ratified commit. The old bytes, and files derived from them, are set aside.

    The file is overwritten last, so that an interrupted or concurrent call starts again from the beginning.
    """
    location, path = table.doc.location or "", published_path(version)
    for listed in await ports.storage.list(location, path):
        _require_quiet_period(ports, table, version, listed.modified_ms)
    await set_aside_unratified(ports, table, above=version - 1)
    await _copy_aside(ports, location, path)
    await ports.storage.overwrite(location, path, ratified)
    _raise_alarm(ports, table, version)


async def set_aside_unratified(ports: Ports, table: Securable, *, above: int) -> bool:
    """Set aside the files of versions above one, except ratified commits. Return whether there were unratified commits.

    Checkpoints, checksums and the like are moved first, then the commits from the highest version down. So an
    interrupted call leaves a log without gaps, and leaves the lowest unratified commit, which the next call detects.
    """
    location = table.doc.location or ""
    found = await _files_above(ports, location, above)
    latest = await _latest(ports, table)
    unratified = [each for each in found if each.is_commit and each.version > latest]
    if unratified:
        _require_quiet_period(ports, table, unratified[-1].version, max(each.modified_ms for each in unratified))
    for each in (*(each for each in found if not each.is_commit), *unratified):
        await _copy_aside(ports, location, each.path)
        if not each.is_commit or each.version > await _latest(ports, table):
            await ports.storage.delete(location, each.path)
    for commit in reversed(unratified):
        await _restore_ratified(ports, table, commit.version)
    if unratified:
        _raise_alarm(ports, table, unratified[-1].version)
    return bool(unratified)


async def _files_above(ports: Ports, location: str, above: int) -> list[_LogFile]:
    """The log files of versions above one, the highest version first."""
    found = [
        _LogFile(listed.path, version, listed.modified_ms)
        for listed in await ports.storage.list(location, LOG)
        if (version := file_version(listed.path)) is not None
    ]
    hint = await ports.storage.read(location, LAST_CHECKPOINT, limit=MAX_COMMIT_BYTES)
    if hint is not None and (version := parse_checkpoint_hint(hint)) is not None:
        found.append(_LogFile(LAST_CHECKPOINT, version, 0))
    return sorted((each for each in found if each.version > above), key=lambda each: -each.version)


def _require_quiet_period(ports: Ports, table: Securable, version: int, modified_ms: int) -> None:
    """Raise Unavailable, and an alarm, while another catalog may still be writing to the table."""
    if ports.now_ms() - modified_ms >= QUIET_PERIOD_MS:
        return
    message = (
        f"{published_path(version)} of table {table.id} was not written through this catalog; another catalog may "
        f"still be writing. Retry: it is set aside after {QUIET_PERIOD_MS // 60_000} minutes without another such file"
    )
    ports.alarms.report(table.id, MAIN, version, message, now_ms=ports.now_ms())
    raise Unavailable(message)


async def _copy_aside(ports: Ports, location: str, path: str) -> None:
    """Copy a file to a name derived from its content, so that a retry uses the same name."""
    try:
        data = await ports.storage.read(location, path, limit=MAX_COMMIT_BYTES)
    except TooLarge:
        raise Damaged(f"{path} was never ratified and is too large to be set aside; move it out of the log") from None
    if data is None:
        return
    name = PurePosixPath(path)
    aside = f"{STAGED_FOLDER}{name.stem}.{UUID((await digest_of(data))[:32])}{name.suffix}"
    await ports.storage.put_new(location, aside, data)


async def _restore_ratified(ports: Ports, table: Securable, version: int) -> None:
    """Restore a commit that another server ratified and published while this one deleted a file of the same name."""
    location = table.doc.location or ""
    if version > await _latest(ports, table):
        return
    for ratified in await ports.ledger.versions(table.id, MAIN, first=version, last=version):
        data = await ports.storage.read(location, STAGED_FOLDER + ratified.file, limit=ratified.size)
        if data is not None and await digest_of(data) == ratified.digest:
            await ports.storage.put_new(location, published_path(version), data)


async def _latest(ports: Ports, table: Securable) -> int:
    head = await ports.ledger.head(table.id, MAIN)
    return -1 if head is None else head.version


def _raise_alarm(ports: Ports, table: Securable, version: int) -> None:
    message = (
        f"{published_path(version)} of table {table.id} was never ratified; "
        f"it and the unratified files after it are now in {STAGED_FOLDER}"
    )
    ports.alarms.report(table.id, MAIN, version, message, now_ms=ports.now_ms())
