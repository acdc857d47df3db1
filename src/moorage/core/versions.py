"""Which version a writer may commit next. Pure: no storage, no clock.

The rules are the same for every format: a replay gets its first answer, a taken version is a conflict, and a gap is a
mistake of the client. A writer that lost a race receives the conflict, even if its file is missing or damaged.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Protocol

import msgspec

from moorage.core.errors import InvalidInput, VersionTaken


class VersionKind(StrEnum):
    """What a version did. Upkeep may run concurrently with appends at any time, but waits until changes pause."""

    APPEND = "append"
    CHANGE = "change"
    REWRITE = "rewrite"
    METADATA = "metadata"


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """A version as a writer proposes it."""

    version: int
    file: str
    size: int | None = None
    timestamp_ms: int | None = None
    digest: str | None = None
    """The digest of the staged bytes. Needed only if `may_repeat` is true."""


class Recorded(Protocol):
    """A version as the ledger recorded it."""

    @property
    def file(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def digest(self) -> str | None: ...


class Verdict(Enum):
    """What becomes of a proposed version that is not refused."""

    NEXT = "next"
    REPLAY = "replay"
    """This commit was ratified before."""


def is_gap(head: int | None, version: int, *, first: int = 0) -> bool:
    """Whether versions between the head and this one are missing. `first` is the number that a line begins with."""
    return version > _following(head, first)


def is_behind(head: int | None, version: int, *, first: int = 0) -> bool:
    """Whether the version exists, or existed."""
    return version < _following(head, first)


def may_repeat(recorded: Recorded, proposed: Proposed) -> bool:
    """Whether a staged file of another name may hold the recorded bytes, so that its digest must be compared.

    Delta's kernel stages a commit again under another name when it did not receive the response. Most writers that
    propose a taken version have lost a race, and for those no file is read.
    """
    is_alike = (recorded.size, recorded.timestamp_ms) == (proposed.size, proposed.timestamp_ms)
    return recorded.file != proposed.file and is_alike


def ratify(
    head: int | None, proposed: Proposed, recorded: Recorded | None = None, *, first: int = 0, hint: str = ""
) -> Verdict:
    """What becomes of a proposed version; VersionTaken if another commit has the number, InvalidInput for a gap.

    `recorded` is what the ledger has of that version; None if it was never made, or its record was deleted. A number
    is never given out twice, so a version without a record is taken too. `hint` is added to the error for a gap.
    """
    following = _following(head, first)
    if proposed.version == following:
        return Verdict.NEXT
    if proposed.version > following:
        latest = "none" if head is None else head
        raise InvalidInput(
            f"version {proposed.version} skips {following}; the latest is {latest}{hint}", field="version", latest=head
        )
    if recorded is not None and _is_same(recorded, proposed):
        return Verdict.REPLAY
    raise VersionTaken(f"version {proposed.version} is taken; the latest is {head}", field="version", latest=head)


def _following(head: int | None, first: int) -> int:
    return first if head is None else head + 1


def _is_same(recorded: Recorded, proposed: Proposed) -> bool:
    if recorded.file == proposed.file:
        return True
    return may_repeat(recorded, proposed) and proposed.digest is not None and proposed.digest == recorded.digest
