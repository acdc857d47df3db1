"""Strays: files in the log of a managed Delta table that speak of versions which were never ratified.

They are left behind when the ledger is put back to an earlier time, or come from a writer who went past the catalog.
The protocol tells readers to ignore them, but Spark takes every commit that it finds under a final name, and all
readers take a checkpoint or a checksum for what it says, once the table has come as far as that again. So they are set
aside before a version of their number is ratified. Nothing is lost: they lie among the staged commits then, where
nobody looks by himself, and whoever wants such a commit to count may propose it from there.

Should they be the commits of another catalog, which takes the table for its own, setting them aside would spoil its
history. That one writes now. So nothing is touched before the strays have lain there for a while.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final, NamedTuple
from uuid import UUID

from moorage.core.errors import Damaged, TooLarge, Unavailable
from moorage.core.securables import MAIN, Securable
from moorage.snapshots.log_files import LAST_CHECKPOINT, file_version, parse_checkpoint_hint
from moorage.storage.digests import digest_of
from moorage.usecases.delta.lookup import LARGEST_COMMIT, LOG, STAGED_FOLDER, published_name
from moorage.usecases.ports import Ports

STILL_MS: Final = 5 * 60 * 1000
"""Whoever restores a ledger takes longer, as a rule; others send their commit again until then."""


class _Found(NamedTuple):
    """A file of the log, and the newest version that it speaks of."""

    path: str
    version: int
    modified_ms: int

    @property
    def is_commit(self) -> bool:
        return self.path == published_name(self.version)


async def set_aside_before(ports: Ports, table: Securable, version: int, data: bytes) -> None:
    """Before a commit is ratified: set aside what others left in the log from its version on.

    The same bytes are no stray: somebody proposes once more what the ledger has forgotten.
    """
    place, path = table.doc.location or "", published_name(version)
    if await _is_free(ports, place, path):
        return
    try:
        is_same = await ports.storage.read(place, path, limit=len(data)) == data
    except TooLarge:
        is_same = False
    # Ratified meanwhile: then the proposal has lost, and there is nothing to look for.
    if not is_same and await _latest(ports, table) < version:
        await set_unratified_aside(ports, table, sound=version - 1)


async def _is_free(ports: Ports, place: str, path: str) -> bool:
    """Whether nothing speaks of the version yet: a checksum may be there before its commit is published."""
    return await ports.storage.is_gone(place, path, f"{path.removesuffix('.json')}.crc", ask=True)


async def are_set_aside(ports: Ports, table: Securable, latest: int) -> bool:
    """Whether there were strays behind the latest version that are no more."""
    if await ports.storage.is_gone(table.doc.location or "", published_name(latest + 1), ask=True):
        return False
    try:
        return await set_unratified_aside(ports, table, sound=latest)
    except Unavailable:
        return False


async def replace_published(ports: Ports, table: Securable, version: int, ratified: bytes) -> None:
    """Publish a version in the place of other bytes, which are kept, and let nothing be built upon those.

    They go last: until then whoever is interrupted, or comes at the same moment, begins again.
    """
    place, path = table.doc.location or "", published_name(version)
    for listed in await ports.storage.list(place, path):
        _require_stillness(ports, table, version, listed.modified_ms)
    await set_unratified_aside(ports, table, sound=version - 1)
    await _keep(ports, place, path)
    await ports.storage.overwrite(place, path, ratified)
    _tell(ports, table, version)


async def set_unratified_aside(ports: Ports, table: Securable, *, sound: int) -> bool:
    """Set aside what speaks of versions above a sound one, but for ratified commits; whether there were others.

    What only sums up commits goes first, and the commits from the last one down. So whoever is interrupted leaves a log
    without holes, and the commit behind the sound one, by which the next caller knows that there is work to do.
    """
    place = table.doc.location or ""
    found = await _above(ports, place, sound)
    latest = await _latest(ports, table)
    strays = [each for each in found if each.is_commit and each.version > latest]
    if strays:
        _require_stillness(ports, table, strays[-1].version, max(each.modified_ms for each in strays))
    for each in (*(each for each in found if not each.is_commit), *strays):
        await _keep(ports, place, each.path)
        if not each.is_commit or each.version > await _latest(ports, table):
            await ports.storage.delete(place, each.path)
    for stray in reversed(strays):
        await _lay_again(ports, table, stray.version)
    if strays:
        _tell(ports, table, strays[-1].version)
    return bool(strays)


async def _above(ports: Ports, place: str, sound: int) -> list[_Found]:
    """What speaks of versions above a sound one, the highest first."""
    found = [
        _Found(listed.path, version, listed.modified_ms)
        for listed in await ports.storage.list(place, LOG)
        if (version := file_version(listed.path)) is not None
    ]
    hint = await ports.storage.read(place, LAST_CHECKPOINT, limit=LARGEST_COMMIT)
    if hint is not None and (version := parse_checkpoint_hint(hint)) is not None:
        found.append(_Found(LAST_CHECKPOINT, version, 0))
    return sorted((each for each in found if each.version > sound), key=lambda each: -each.version)


def _require_stillness(ports: Ports, table: Securable, version: int, modified_ms: int) -> None:
    """Unavailable, and an alarm, while somebody may still be writing commits that are not ours."""
    if ports.now_ms() - modified_ms >= STILL_MS:
        return
    message = (
        f"{published_name(version)} of table {table.id} was written past this catalog a moment ago; it is set aside "
        f"when no more has come for {STILL_MS // 60_000} minutes. Until then another catalog may be at work on it"
    )
    ports.alarms.ring(table.id, MAIN, version, message, now_ms=ports.now_ms())
    raise Unavailable(message)


async def _keep(ports: Ports, place: str, path: str) -> None:
    """Copy a file to a name made of its bytes: the same one, however often it is tried."""
    try:
        data = await ports.storage.read(place, path, limit=LARGEST_COMMIT)
    except TooLarge:
        raise Damaged(f"{path} was never ratified, and is too large to be set aside: move it out of the log") from None
    if data is None:
        return
    name = PurePosixPath(path)
    aside = f"{STAGED_FOLDER}{name.stem}.{UUID((await digest_of(data))[:32])}{name.suffix}"
    await ports.storage.put_new(place, aside, data)


async def _lay_again(ports: Ports, table: Securable, version: int) -> None:
    """Put back what another server ratified, and published, while a stray of the same name was on its way out."""
    place = table.doc.location or ""
    if version > await _latest(ports, table):
        return
    for ratified in await ports.ledger.versions(table.id, MAIN, first=version, last=version):
        data = await ports.storage.read(place, STAGED_FOLDER + ratified.file, limit=ratified.size)
        if data is not None and await digest_of(data) == ratified.digest:
            await ports.storage.put_new(place, published_name(version), data)


async def _latest(ports: Ports, table: Securable) -> int:
    head = await ports.ledger.head(table.id, MAIN)
    return -1 if head is None else head.version


def _tell(ports: Ports, table: Securable, version: int) -> None:
    message = (
        f"what lay at {published_name(version)} of table {table.id} was never ratified, nor what followed it; "
        f"it lies in {STAGED_FOLDER} now"
    )
    ports.alarms.ring(table.id, MAIN, version, message, now_ms=ports.now_ms())
