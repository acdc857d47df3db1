"""Cron expressions: minute, hour, day of month, month, day of week, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from moorage.core.errors import InvalidInput

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_PART: Final = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?")
_MOST_DAYS: Final = 366 * 9
"""The longest time between two 29ths of February, on either side of a century."""


class Schedule(msgspec.Struct, frozen=True):
    """The values of each field. Sunday is 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """If both days are restricted, one of them is enough, as in every cron."""

    def allows_day(self, day: datetime) -> bool:
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (is_day or is_weekday if self.either_day else is_day and is_weekday)


def parse_schedule(text: str, *, field: str = "schedule") -> Schedule:
    """Parse `MINUTE HOUR DAY MONTH WEEKDAY`. Each is `*`, a number, a range, a list, or one of these with a step."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise InvalidInput(f"{field} {text!r} must have five fields: minute hour day month weekday", field=field)
    minutes, hours, days, months, weekdays = (
        _values(part, *limits, field=field) for part, limits in zip(parts, _FIELDS, strict=True)
    )
    either_day = parts[2] != "*" and parts[4] != "*"
    schedule = Schedule(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either_day)
    if next_time(schedule, 0) is None:
        raise InvalidInput(f"{field} {text!r} names a day that never comes", field=field)
    return schedule


def _values(text: str, name: str, low: int, high: int, *, field: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        step = int(match[3] or 1) if match else 0
        if match is None or step == 0:
            raise InvalidInput(f"{field}: the {name} {part!r} is not *, a number, a range or a step", field=field)
        first = int(match[1]) if match[1] else low
        last = int(match[2]) if match[2] else high if not match[1] or match[3] else first
        if not low <= first <= last <= high:
            raise InvalidInput(f"{field}: the {name} {part!r} is not between {low} and {high}", field=field)
        found.update(range(first, last + 1, step))
    return frozenset(found)


def next_time(schedule: Schedule, after_ms: int) -> int | None:
    """The first minute after a time at which the schedule is due; None if there is none."""
    start = datetime.fromtimestamp(after_ms / 1000, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    day = start.replace(hour=0, minute=0)
    for _ in range(_MOST_DAYS):
        if schedule.allows_day(day):
            for hour in sorted(schedule.hours):
                for minute in sorted(schedule.minutes):
                    due = day.replace(hour=hour, minute=minute)
                    if due >= start:
                        return int(due.timestamp() * 1000)
        day += timedelta(days=1)
    return None
