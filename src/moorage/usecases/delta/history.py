"""The ratified commits that the server must announce to readers."""

from __future__ import annotations

from typing import Final, TypeAlias

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Head, Securable
from moorage.ledger.port import Version
from moorage.usecases.delta.lookup import find_table, is_managed, require_head, require_uri
from moorage.usecases.ports import Ports

RatifiedCommit: TypeAlias = Version
"""A ratified commit, as the ledger stores it."""

PAGE_SIZE: Final = 1000
_ANNOUNCE_PUBLISHED_MS: Final = 60 * 60 * 1000
"""A reader lists the folder first and then requests commits. For this long after a commit was ratified, it may have
been published between the two, so the server still announces it."""

NOT_RATIFIED_HERE: Final = -1
"""The latest version of a table whose commits this catalog does not ratify."""


async def get_commits(
    ports: Ports,
    caller: Caller,
    table_id: str | None,
    table_uri: str | None,
    *,
    first: int | None,
    last: int | None,
) -> tuple[tuple[Version, ...], int]:
    """A page of commits between two versions, in ascending order, and the latest version of the table."""
    first = first or 0
    if first < 0:
        raise InvalidInput(f"start_version {first} is negative; it must be 0 or more", field="start_version")
    if last is not None and last < first:
        raise InvalidInput(f"end_version {last} is below start_version {first}", field="end_version")
    table = (await find_table(ports, caller, table_id, Privilege.READ))[-1]
    if table_uri is not None:
        require_uri(table, table_uri)
    if not is_managed(table):
        return (), NOT_RATIFIED_HERE
    latest = require_head(table).version
    # A request with a start and no end comes from a reader that listed the folder up to there, possibly before a client
    # published more. A request with an end comes from a client that wants to publish the rest.
    has_listed = first > 0 and last is None
    last = latest if last is None else min(last, latest)
    return await unannounced_commits(ports, table, first=first, last=last, has_listed=has_listed), latest


async def all_unannounced_commits(ports: Ports, table: Securable) -> tuple[Version, ...]:
    """Every commit that the server must announce: a client that loads a table cannot request a second page."""
    found: tuple[Version, ...] = ()
    first, latest = 1, require_head(table).version
    while page := await unannounced_commits(ports, table, first=first, last=latest):
        found += page
        first = page[-1].version + 1
    return found


async def version_of_staged_file(ports: Ports, table: Securable, file_name: str) -> int | None:
    """The version for which the server may still direct readers to a staged file, if any."""
    first, latest = 1, require_head(table).version
    while page := await unannounced_commits(ports, table, first=first, last=latest, has_listed=True):
        for ratified in page:
            if ratified.file == file_name:
                return ratified.version
        first = page[-1].version + 1
    return None


async def unannounced_commits(
    ports: Ports, table: Securable, *, first: int, last: int, has_listed: bool = False
) -> tuple[Version, ...]:
    """Commits of a range that may not be in the folder yet: at most a page, without a gap.

    A published commit is included for a while, because a reader that listed the folder just before would otherwise see
    a gap. A commit that a client reported as published is omitted immediately for readers that have not listed yet.
    """
    head = require_head(table)
    # Version 0 was in the folder before it was ratified.
    first = max(first, 1 if has_listed else head.client_published + 1, 1)
    if first > last:
        return ()
    if first <= (head.published or 0):
        first = await _first_recent(ports, table, head, first)
    return await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=PAGE_SIZE)


async def _first_recent(ports: Ports, table: Securable, head: Head, first: int) -> int:
    """The lowest version from `first` on that is unpublished or was ratified recently.

    Lower versions are older, so this is a binary search that begins at `first`. It reads one row in the usual case that
    all versions are recent, and a few more for a table whose clients never report what they published.
    """
    horizon_ms = ports.now_ms() - _ANNOUNCE_PUBLISHED_MS
    low, high = first, (head.published or 0) + 1
    middle = low
    while low < high:
        row = await ports.ledger.versions(table.id, MAIN, first=middle, last=middle, limit=1)
        if row and row[0].at_ms >= horizon_ms:
            high = middle
        else:
            low = middle + 1
        middle = (low + high) // 2
    return low
