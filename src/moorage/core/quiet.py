"""When upkeep may rewrite the files of a table without making a writer fail. Pure.

A blind append never conflicts with a rewrite. But Delta's client fails every other write that meets one, even if no row
changes. So a table whose rows are changed is rewritten only after a while without writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from moorage.core.versions import VersionKind

CALM_MS: Final = 30 * 24 * 60 * 60 * 1000
"""A table with no row change for so long is calm: it is rewritten at any time."""
QUIET_MS: Final = 5 * 60 * 1000
"""Other tables are rewritten after so long without a write."""
PATIENCE_MS: Final = 6 * 60 * 60 * 1000
"""A job that has waited so long is cancelled. The autopilot enqueues another one when the table still needs it."""


class Written(Protocol):
    """A version of a table, as the ledger recorded it."""

    @property
    def at_ms(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def operation(self) -> str: ...


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Upkeep waits for a writer."""

    until_ms: int
    seq: int | None
    """The entry of the last write, which names the writer; None if a client only asked for write access."""


def wait_for_quiet(newest_first: Iterable[Written], last_access_ms: int | None, now_ms: int) -> Wait | None:
    """Until when upkeep waits; None if it may begin now. Rewrites by upkeep itself do not count as writes."""
    writes = [each for each in newest_first if each.operation != VersionKind.REWRITE]
    if not any(each.operation == VersionKind.CHANGE and each.at_ms > now_ms - CALM_MS for each in writes):
        return None
    last = writes[0]
    if last_access_ms is not None and last_access_ms > last.at_ms:
        at_ms, seq = last_access_ms, None
    else:
        at_ms, seq = last.at_ms, last.seq
    return Wait(until_ms=at_ms + QUIET_MS, seq=seq) if at_ms + QUIET_MS > now_ms else None
