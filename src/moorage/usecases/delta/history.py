"""Which ratified commits a reader must be told of."""

from __future__ import annotations

from typing import Final, TypeAlias

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Head, Securable
from moorage.ledger.port import Version
from moorage.usecases.delta.lookup import find_table, head_of, is_managed, require_uri
from moorage.usecases.ports import Ports

Ratified: TypeAlias = Version
"""One ratified commit, as the ledger keeps it."""

PAGE: Final = 1000
_ASK_AGAIN_MS: Final = 60 * 60 * 1000
"""A reader lists the folder, then asks us. For this long it is told of a commit that it may have missed."""

NOT_OURS: Final = -1
"""The latest version of a table whose commits we do not ratify."""


async def get_commits(
    ports: Ports,
    caller: Caller,
    table_id: str | None,
    table_uri: str | None,
    *,
    first: int | None,
    last: int | None,
) -> tuple[tuple[Version, ...], int]:
    """A page of commits between two versions, from the lowest on, and the latest version of the table."""
    first = first or 0
    if first < 0:
        raise InvalidInput(f"start_version {first} is negative", field="start_version")
    if last is not None and last < first:
        raise InvalidInput(f"end_version {last} lies before start_version {first}", field="end_version")
    table = (await find_table(ports, caller, table_id, Privilege.READ))[-1]
    if table_uri is not None:
        require_uri(table, table_uri)
    if not is_managed(table):
        return (), NOT_OURS
    latest = head_of(table).version
    # Who asks for all from a later version on has listed the folder up to there, perhaps before a client published
    # more. Who names the end as well wants to publish what is left.
    has_listed = first > 0 and last is None
    last = latest if last is None else min(last, latest)
    return await unannounced(ports, table, first=first, last=last, has_listed=has_listed), latest


async def all_unannounced(ports: Ports, table: Securable) -> tuple[Version, ...]:
    """Every commit that a reader must be told of: whoever loads a table gets no second page."""
    found: tuple[Version, ...] = ()
    first, latest = 1, head_of(table).version
    while page := await unannounced(ports, table, first=first, last=latest):
        found += page
        first = page[-1].version + 1
    return found


async def version_of(ports: Ports, table: Securable, file_name: str) -> int | None:
    """The version for which readers may still be sent to a staged file."""
    first, latest = 1, head_of(table).version
    while page := await unannounced(ports, table, first=first, last=latest, has_listed=True):
        for ratified in page:
            if ratified.file == file_name:
                return ratified.version
        first = page[-1].version + 1
    return None


async def unannounced(
    ports: Ports, table: Securable, *, first: int, last: int, has_listed: bool = False
) -> tuple[Version, ...]:
    """The commits of a range that may not be found in the folder, without a gap, a page at most.

    What was published stays among them for a while, or a reader that listed the folder a moment before would
    see a gap. What a client published and told us of goes at once for those who have not listed yet.
    """
    head = head_of(table)
    # Version 0 lies in the folder since before it was ratified.
    first = max(first, 1 if has_listed else head.client_published + 1, 1)
    if first > last:
        return ()
    if first <= (head.published or 0):
        first = await _first_young(ports, table, head, first)
    return await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=PAGE)


async def _first_young(ports: Ports, table: Securable, head: Head, first: int) -> int:
    """The lowest version from `first` on that is unpublished or was ratified a while ago at most.

    Versions are as old as they are low. So the usual case, all of them young, takes one look, and a table
    whose clients never tell us anything takes a few more.
    """
    horizon_ms = ports.now_ms() - _ASK_AGAIN_MS
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
