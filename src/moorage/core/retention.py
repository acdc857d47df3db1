"""How long the files of old versions are kept. Pure.

Deletion has three steps: announce a raised floor, wait until nothing that was handed out before can still be used, and
delete what no version from the floor on needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

from moorage.core.errors import InvalidInput

_MS: Final = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 7 * 86_400_000}
DAY_MS: Final = _MS["day"]
DEFAULT_MS: Final = _MS["week"]
_PART = re.compile(r"(\d+)\s*(second|minute|hour|day|week)s?")


class Dated(Protocol):
    """A version and its commit time."""

    @property
    def version(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...


def parse_interval(text: str) -> int:
    """The milliseconds of an interval as Delta writes it: `interval 7 days`, `168 hours`, `1 week 2 days`."""
    rest = text.strip().lower().removeprefix("interval").strip()
    parts = _PART.findall(rest)
    if not parts or _PART.sub("", rest).strip():
        raise InvalidInput(f"{text!r} is not an interval such as 'interval 7 days'", field="retention")
    return sum(int(count) * _MS[unit] for count, unit in parts)


def retention_ms(requested_days: float | None, stated: str | None, kept_days: int | None = None) -> int:
    """How long files are kept: what the table states, or longer if the request says so, never shorter.

    A table can state it as a property of Delta (`stated`) and in its description (`kept_days`); the longer one applies.
    """
    stated_ms = [] if stated is None else [parse_interval(stated)]
    kept_ms = [] if kept_days is None else [kept_days * DAY_MS]
    return max(*(stated_ms + kept_ms or [DEFAULT_MS]), int((requested_days or 0) * DAY_MS))


def raised_floor(versions_ascending: Iterable[Dated], floor: int, cutoff_ms: int, holds: Iterable[int] = ()) -> int:
    """The oldest version to keep: the one that was current at the cutoff. No hold lies below it.

    A version committed before the cutoff may still have been current then, so the last of them stays.
    """
    current = floor
    for each in versions_ascending:
        if each.timestamp_ms > cutoff_ms:
            break
        current = max(current, each.version)
    return max(floor, min((current, *holds)))


def is_deletable(path: str, modified_ms: int, needed: frozenset[str] | set[str], floor_timestamp_ms: int) -> bool:
    """Whether a file of a Delta table may be deleted: no kept version needs it, and no writer is about to commit it.

    A file younger than the floor may belong to a commit that is still to come. Hidden files belong to others.
    """
    if path in needed or modified_ms >= floor_timestamp_ms:
        return False
    # The change data of a table is hidden. That of a change by a shadow is in the shadow's folder.
    parts = path.split("/")
    return "_change_data" in parts or not any(part.startswith(("_", ".")) for part in parts)
