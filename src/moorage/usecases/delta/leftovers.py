"""Folders of shadows that were never committed: their worker or the server was killed.

A later job of the table removes them. The ledger decides what was committed: each version that came from a shadow
records its folder.
"""

from __future__ import annotations

import re
from typing import Final

from moorage.core.entries import ENDED, JobHeld
from moorage.core.ids import JobId
from moorage.core.jobs import Job
from moorage.core.rewrites import CHANGE_PREFIX, FOLDER_PREFIX
from moorage.core.securables import MAIN, Securable
from moorage.usecases.delta.lookup import LOG
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.leases import require_lease

FOLDER: Final = "folder"
"""The key in the details of a version that came from a shadow."""
MAX_CHANGE_MS: Final = 23 * 3600 * 1000
"""An older shadow of a client is not committed: its files would be removed meanwhile."""
ABANDONED_MS: Final = 24 * 3600 * 1000
"""After this time, the client of a shadow is assumed to be gone. It would have to make its change again."""
_PAGE: Final = 1000
_SHADOW = re.compile(rf"({FOLDER_PREFIX}([0-9a-f-]{{36}})/[0-9a-f]{{12}}/)")
_CHANGE = re.compile(rf"({CHANGE_PREFIX}[0-9a-f]{{32}}/){LOG}0{{20}}\.json$")
_SWEPT: Final = CacheKind[tuple[str, JobHeld], bool]("jobs that have removed leftovers", limit=1024)


async def remove_leftovers(ports: Ports, table: Securable, held: JobHeld) -> int:
    """Remove what killed workers left in a table, once per attempt of a job. Returns the number of folders."""
    key = (table.id, held)
    if ports.local.cache(_SWEPT).get(key):
        return 0
    job, location = held.job, table.doc.location or ""
    listed = await ports.storage.list(location, FOLDER_PREFIX)
    # After the listing: a folder in it is then older than any later lease of the job, whose worker may be about to
    # have its files committed.
    await require_lease(ports, held)
    # Only a shadow that was not committed, or not cleaned up after its commit, still has a log.
    found = {match[1]: JobId(match[2]) for each in listed if (match := _SHADOW.match(each.path)) and LOG in each.path}
    removed = 0
    for folder, owner in found.items():
        if owner != job and await _is_open(ports, owner):
            continue
        oldest_ms = _created_ms(await ports.ledger.job(owner))
        removed += await remove_unless_committed(ports, table, folder, oldest_ms=oldest_ms) is None
    removed += await _remove_abandoned_changes(ports, table)
    ports.local.cache(_SWEPT).put(key, value=True)
    return removed


async def _remove_abandoned_changes(ports: Ports, table: Securable) -> int:
    """Remove the shadows of clients that were killed. No lease tells, so they are known by their age."""
    location, removed = table.doc.location or "", 0
    listed = await ports.storage.list(location, CHANGE_PREFIX)
    found = {
        match[1]: each.modified_ms
        for each in listed
        if (match := _CHANGE.match(each.path)) and each.modified_ms < ports.now_ms() - ABANDONED_MS
    }
    for folder, made_ms in found.items():
        removed += await remove_unless_committed(ports, table, folder, oldest_ms=made_ms - ABANDONED_MS) is None
    return removed


def _created_ms(job: Job | None) -> int:
    return 0 if job is None else job.created_at_ms


async def _is_open(ports: Ports, id: JobId) -> bool:
    job = await ports.ledger.job(id)
    return job is not None and job.state not in ENDED


async def remove_unless_committed(
    ports: Ports, table: Securable, folder: str, *, first: int = 0, oldest_ms: int = 0
) -> int | None:
    """Remove a folder, or only the log in it if a version came from the folder. Returns that version."""
    version = await _committed_version(ports, table, folder, first=first, oldest_ms=oldest_ms)
    await ports.storage.delete_all(f"{table.doc.location or ''}{folder}{'' if version is None else LOG}")
    return version


async def _committed_version(ports: Ports, table: Securable, folder: str, *, first: int, oldest_ms: int) -> int | None:
    """The version that came from the folder. Versions before `first`, or older than it, need no look."""
    last = None
    while page := await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=_PAGE, descending=True):
        found = next((each.version for each in page if each.details.get(FOLDER) == folder), None)
        if found is not None or page[-1].at_ms < oldest_ms or page[-1].version <= first:
            return found
        last = page[-1].version - 1
    return None
